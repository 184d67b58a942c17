from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import AnswerType, Boolean, Choice, Form, Select, Text
from haftd.config.inquiry_settings import ProviderName
from haftd.inquiries.backend import InquiryFailed
from haftd.inquiries.kind import Answered
from haftd.inquiries.llm import prompt
from haftd.inquiries.llm.backend import Groups, Member
from haftd.inquiries.pending_inquiry import PendingInquiry
from haftd.inquiries.router import ask_backend
from tests.inquiries.tool_questions import pending
from tests.patience import PATIENCE_S

from .recorded_conversations import NAMES, Recorded, recorded
from .test_backend import Stage, play

KINDS: dict[str, tuple[AnswerType, object]] = {
    "modify_file": (Boolean(), True),
    "deploy": (Select(("fast", 3)), 3),
    "rename": (Text(), "new name"),
    "tidy": (Form({"a b": Choice(("x", "y")), "c": Choice((1, 2))}), {"a b": "y", "c": 1}),
}


@pytest.fixture(params=NAMES)
def provider(request: pytest.FixtureRequest) -> ProviderName:
    name: ProviderName = request.param
    return name


def question(said: Recorded, tool: str, **more: Any) -> PendingInquiry:
    call = said.said["call"] if tool == "modify_file" else f"call_{tool}"
    fields = {
        "context": said.context(said.wrapped()),
        "target": "assistant",
        "text": f"{tool}?",
        **more,
    }
    return pending(KINDS[tool][0], call, tool=tool, **fields)


def id_of(inquiry: PendingInquiry) -> str:
    return inquiry.kind.id


async def answers(stage: Stage, questions: Mapping[str, PendingInquiry]) -> dict[str, object]:
    """Ask all questions at once; return their outcomes."""
    found: dict[str, object] = {}

    async def ask(tool: str, inquiry: PendingInquiry) -> None:
        try:
            outcome = await ask_backend(stage.backend, inquiry)
        except InquiryFailed as failed:
            found[tool] = str(failed)
        else:
            assert isinstance(outcome, Answered)
            found[tool] = outcome.value

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            for tool, inquiry in questions.items():
                nursery.start_soon(ask, tool, inquiry)
    return found


def schema_of(body: Any) -> dict[str, Any]:
    """Return the single schema with the inquiries' properties in a request."""
    found = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            names = value.get("properties")
            if isinstance(names, dict) and any("tool_call" in name for name in names):
                found.append(value)
            for inquiry in value.values():
                look(inquiry)
        elif isinstance(value, list):
            for inquiry in value:
                look(inquiry)

    look(body)
    (schema,) = found
    assert isinstance(schema, dict)
    return schema


async def test_concurrent_inquiries_are_one_request(provider: ProviderName) -> None:
    recording = recorded(provider)
    questions = {tool: question(recording, tool) for tool in KINDS}
    reply = {id_of(inquiry): KINDS[tool][1] for tool, inquiry in questions.items()}
    async with play(provider, recording.text(json.dumps(reply))) as stage:
        assert await answers(stage, questions) == {
            tool: answer for tool, (_, answer) in KINDS.items()
        }
        (asked,) = stage.server.asked
        schema = schema_of(asked.body)
        assert len(schema["properties"]) == len(KINDS)
        assert set(schema["required"]) == set(schema["properties"])
        text = recording.texts(asked.body)[-1]
        assert all(
            f"{tool}?" in text and f'"{id_of(inquiry)}"' in text
            for tool, inquiry in questions.items()
        )


async def test_a_single_inquiry_is_asked_ungrouped(provider: ProviderName) -> None:
    recording = recorded(provider)
    async with play(provider, recording.reply("inquires")) as stage:
        await answers(
            stage, {"modify_file": question(recording, "modify_file", text="Create backup files?")}
        )
        (asked,) = stage.server.asked
        assert "inquiry_id" in json.dumps(asked.body)


async def test_an_invalid_answer_is_requested_again_alone(provider: ProviderName) -> None:
    recording = recorded(provider)
    questions = {tool: question(recording, tool) for tool in ("modify_file", "deploy", "rename")}
    reply = {id_of(questions["modify_file"]): "perhaps", id_of(questions["rename"]): "new"}
    seconds = [
        recording.text(json.dumps({"answer": True})),
        recording.text(json.dumps({"answer": True})),
        recording.text(json.dumps({"answer": "fast"})),
        recording.text(json.dumps({"answer": "fast"})),
    ]
    async with play(provider, recording.text(json.dumps(reply)), *seconds) as stage:
        found = await answers(stage, questions)
        assert found == {"modify_file": True, "deploy": "fast", "rename": "new"}
        assert 3 <= len(stage.server.asked) <= 5


@pytest.mark.parametrize("change", ["context", "target", "nothing to gather"])
async def test_unrelated_inquiries_are_asked_apart(change: str) -> None:
    recording = recorded("openai")
    others: dict[str, dict[str, Any]] = {
        "context": {"context": [{"role": "user", "content": "another conversation"}]},
        "target": {"target": {"assistant": {"max_tokens": 5}}},
    }
    questions = {
        "modify_file": question(recording, "modify_file"),
        "deploy": question(recording, "deploy", **others.get(change, {})),
    }
    gather_ms = 0 if change == "nothing to gather" else 100
    fits = recording.text(json.dumps({"answer": True}))
    async with play("openai", fits, again=True, gather_ms=gather_ms) as stage:
        await answers(stage, questions)
        bodies = [json.dumps(inquiry.body) for inquiry in stage.server.asked]
        assert all("modify_file?" not in body or "deploy?" not in body for body in bodies)
        assert {"modify_file?" in body for body in bodies} == {True, False}


async def test_a_failure_fails_the_whole_group(provider: ProviderName) -> None:
    recording = recorded(provider)
    questions = {tool: question(recording, tool) for tool in ("modify_file", "deploy")}
    name = next(iter(recording.said["errors"]))
    async with play(provider, recording.error(name), again=True, attempts=1) as stage:
        found = await answers(stage, questions)
        assert found["modify_file"] == found["deploy"]
        assert isinstance(found["deploy"], str)
        assert len(stage.server.asked) == 1


def member(tool: str) -> Member:
    inquiry = pending(tool=tool, call=f"c.{tool}", target="assistant").kind.make_message()
    assert isinstance(inquiry, Inquiry)
    return Member(inquiry, tool)


async def test_the_next_inquiry_leads_when_the_leader_leaves(
    autojump_clock: trio.testing.MockClock,
) -> None:
    groups, rounds = Groups(), []
    release = trio.Event()
    texts: dict[str, str | None] = {}

    async def together(members: Any) -> dict[str, str]:
        rounds.append(sorted(member.tool for member in members))
        await release.wait()
        return {member.inquiry.inquiry_id: member.tool for member in members}

    async def ask(tool: str) -> None:
        texts[tool] = await groups.ask("key", member(tool), 0.1, together)

    async with trio.open_nursery() as others:
        async with trio.open_nursery() as leaders:
            leaders.start_soon(ask, "first")
            await wait_all_tasks_blocked()
            for tool in ("second", "third"):
                others.start_soon(ask, tool)
            await trio.sleep(1)
            assert rounds == [["first", "second", "third"]]
            leaders.cancel_scope.cancel()
        await trio.sleep(1)
        assert rounds[1:] == [["second", "third"]]
        release.set()
    assert texts == {"second": "second", "third": "third"}


async def test_inquiries_during_a_request_are_the_next_request(
    autojump_clock: trio.testing.MockClock,
) -> None:
    groups, rounds = Groups(), []
    texts: dict[str, str | None] = {}

    async def together(members: Any) -> dict[str, str]:
        rounds.append(sorted(member.tool for member in members))
        await trio.sleep(10)
        return {member.inquiry.inquiry_id: member.tool for member in members}

    async def ask(tool: str) -> None:
        texts[tool] = await groups.ask("key", member(tool), 0.1, together)

    async with trio.open_nursery() as nursery:
        for pair in ("ab", "cd"):
            for tool in pair:
                nursery.start_soon(ask, tool)
            await trio.sleep(1)
    assert rounds == [["a", "b"], ["c", "d"]]
    assert texts == {tool: tool for tool in "abcd"}


async def test_a_remaining_inquiry_is_asked_alone(autojump_clock: trio.testing.MockClock) -> None:
    groups = Groups()

    async def together(members: Any) -> dict[str, str]:
        raise AssertionError("nobody else is there")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(groups.ask, "key", member("first"), 0.1, together)
        await wait_all_tasks_blocked()
        # The same inquiry again is no second question of the group.
        assert await groups.ask("key", member("first"), 0.1, together) is None
    assert await groups.ask("key", member("first"), 0.1, together) is None


def test_a_non_object_reply_leaves_every_question_open() -> None:
    inquiries = [member(tool).inquiry for tool in ("a", "b")]
    assert prompt.read_all(inquiries, "Yes to both.") == {
        "tool_call.a.c.a": "",
        "tool_call.b.c.b": "",
    }
