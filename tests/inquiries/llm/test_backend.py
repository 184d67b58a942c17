"""The backend `llm` against local servers that speak each API and refuse like the provider."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import AnswerType, Boolean, Choice, Form, Secret, Select, Text
from haftd.config.inquiry_settings import ProviderName
from haftd.inquiries.backend import InquiryFailed
from haftd.inquiries.kind import Answered
from haftd.inquiries.llm.backend import _MAX_CONCURRENT, LlmBackend
from haftd.inquiries.llm.provider import fit, read_context
from haftd.inquiries.llm.sender import Sender
from haftd.inquiries.router import ask_backend
from tests.patience import PATIENCE_S

from .recorded_conversations import NAMES, Recorded, recorded
from .request_judges import KEY, judge
from .scripted_provider import CRUMBS, Raw, Server, Step, serving


@dataclass
class Stage:
    """A backend, its server, and its pauses."""

    said: Recorded
    server: Server
    backend: LlmBackend
    pauses: list[float]

    async def fails(self, **more: Any) -> str:
        """Ask, and return the failure, free of keys and bodies."""
        with trio.fail_after(PATIENCE_S), pytest.raises(InquiryFailed) as failed:
            await ask_backend(self.backend, self.said.pending(**more))
        assert "canary" not in repr(failed.value)
        return str(failed.value)


@asynccontextmanager
async def play(
    provider: ProviderName, *steps: Step, again: bool = False, **more: Any
) -> AsyncIterator[Stage]:
    """Return a backend whose server plays these steps, without real pauses."""
    recording, pauses = recorded(provider), []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await trio.lowlevel.checkpoint()

    async with serving(Server(steps, judge(provider), again=again)) as server:
        sender = Sender(sleep=sleep, chance=lambda: 0.5, wall=lambda: 1_795_843_000.0)
        settings = recording.settings(server.url, **more)
        yield Stage(recording, server, LlmBackend(settings, recording.environ, sender), pauses)
        assert server.faults == []


@pytest.fixture(params=NAMES)
def provider(request: pytest.FixtureRequest) -> ProviderName:
    name: ProviderName = request.param
    return name


async def test_a_question_is_answered_and_the_request_is_the_recorded_one(
    provider: ProviderName,
) -> None:
    """The conversation and the tools are unchanged; new messages stand behind them."""
    recording = recorded(provider)
    async with play(provider, recording.reply("inquires")) as stage:
        outcome = await ask_backend(stage.backend, recording.pending())
        assert isinstance(outcome, Answered) and outcome.value is True
        assert outcome.source == {
            "by": "llm",
            "provider": provider,
            "model": recording.said["model"],
        }
        (asked,) = stage.server.asked
        assert asked.body == recording.asks("inquires", recording.wrapped())
        assert asked.headers["accept-encoding"] == "identity"
        assert stage.pauses == []


@pytest.mark.parametrize("wrong", ["wrong", "prose", "call"])
async def test_an_invalid_answer_is_returned_with_its_fault(
    provider: ProviderName, wrong: str
) -> None:
    recording = recorded(provider)
    async with play(provider, recording.reply(wrong), recording.reply("no")) as stage:
        outcome = await ask_backend(stage.backend, recording.pending())
        assert isinstance(outcome, Answered) and outcome.value is False
        first, second = (recording.texts(asked.body) for asked in stage.server.asked)
        assert second[: len(first)] == first
        *model, correction = second[len(first) :]
        assert (
            correction.startswith("That is not a valid answer: ") and "true or false" in correction
        )
        assert len(model) == (wrong != "call") and "yes" not in correction


async def test_three_invalid_answers_fail_the_inquiry(provider: ProviderName) -> None:
    async with play(provider, recorded(provider).reply("prose"), again=True) as stage:
        with pytest.raises(InquiryFailed, match="gave no valid answer in 3 attempts"):
            await ask_backend(stage.backend, stage.said.pending())
        assert len(stage.server.asked) == 3


@pytest.mark.parametrize(
    ("provider", "why"),
    [
        (name, why)
        for name in NAMES
        for why in ("refusal", "filter", "cut")
        if why in recorded(name).said["others"]
    ],
)
async def test_a_refusal_of_the_model_fails_for_good(provider: ProviderName, why: str) -> None:
    recording = recorded(provider)
    async with play(provider, recording.reply(why)) as stage:
        message = await stage.fails()
        assert ("max_tokens" if why == "cut" else "refused to answer") in message
        assert len(stage.server.asked) == 1


async def test_a_busy_server_is_retried_after_its_requested_pause(provider: ProviderName) -> None:
    recording = recorded(provider)
    steps = (recording.error("busy"), recording.error("broken"), recording.reply("inquires"))
    async with play(provider, *steps) as stage:
        assert isinstance(await ask_backend(stage.backend, recording.pending()), Answered)
        assert stage.pauses == [6.5 if provider == "openai" else 7.0, 0.75]
        bodies = [asked.body for asked in stage.server.asked]
        assert bodies[0] == bodies[1] == bodies[2]


async def test_a_server_that_stays_broken_fails_for_good(provider: ProviderName) -> None:
    recording = recorded(provider)
    async with play(provider, recording.error("broken"), again=True, attempts=3) as stage:
        message = await stage.fails()
        assert f"HTTP {recording.said['errors']['broken']['status']}" in message
        assert "3 times" in message and len(stage.server.asked) == 3
        assert stage.pauses == [0.375, 0.75]


@pytest.mark.parametrize(
    ("error", "hint"),
    [("unauthorized", "MODEL_KEY"), ("unknown", "`model`"), ("refused", "HTTP 400")],
)
async def test_a_permanent_error_is_not_retried(
    provider: ProviderName, error: str, hint: str
) -> None:
    async with play(provider, recorded(provider).error(error)) as stage:
        assert hint in await stage.fails()
        assert len(stage.server.asked) == 1 and stage.pauses == []


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        (Raw(body=b"<html>sign in</html>"), "not JSON"),
        (Raw(body=b"[" * 100_000), "not JSON"),
        (Raw(body=b'{"\xff": 1}'), "not JSON"),
        ({"canary": 1}, "did not answer in the format of"),
        (Raw(307, headers={"location": "http://127.0.0.1:1/v1"}), "redirects (HTTP 307)"),
        (Raw(headers={"content-encoding": "gzip"}), "encoding"),
        ("floods", "more than"),
        (Raw(body=b'"' + b" " * (1 << 20) + b'"'), "more than 1,048,576 bytes"),
        ("delays", "more than 32,768 bytes before"),
    ],
)
async def test_an_invalid_reply_fails_for_good(step: Step, hint: str) -> None:
    async with play("openai", step) as stage:
        assert hint in await stage.fails()
        assert len(stage.server.asked) == 1


async def test_a_reply_in_tiny_parts_yields_to_other_tasks() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with play("openai", "crumbles") as stage, trio.open_nursery() as nursery:
        nursery.start_soon(count)
        assert "not JSON" in await stage.fails()
        nursery.cancel_scope.cancel()
    assert turns > CRUMBS / 100


@pytest.fixture
def clock() -> trio.testing.MockClock:
    """The loop's clock: real time, and jumps."""
    return trio.testing.MockClock(rate=1.0)


@pytest.mark.parametrize(
    ("step", "hint"), [("drops", "broke off"), ("hangs", "did not answer within 20 s")]
)
async def test_a_missing_reply_is_retried(
    step: Step, hint: str, clock: trio.testing.MockClock
) -> None:
    async with play("openai", step, again=True, attempts=2, timeout_s=20.0) as stage:
        stage.server.on_hang = partial(clock.jump, 20.0)
        assert hint in await stage.fails()
        assert len(stage.pauses) == 1


@pytest.mark.parametrize("step", ["drops", "hangs"])
async def test_the_reply_to_a_retry_counts(step: Step, clock: trio.testing.MockClock) -> None:
    steps = (step, recorded("openai").reply("no"))
    async with play("openai", *steps, attempts=2, timeout_s=20.0) as stage:
        stage.server.on_hang = partial(clock.jump, 20.0)
        assert isinstance(await ask_backend(stage.backend, stage.said.pending()), Answered)
        assert len(stage.pauses) == 1


async def test_an_unreachable_server_is_retried() -> None:
    async with play("openai", attempts=2) as stage:
        said = stage.said.settings("http://127.0.0.1:1", attempts=2)
        stage.backend = LlmBackend(said, stage.said.environ, stage.backend._sender)
        message = await stage.fails()
        assert "cannot be reached" in message and "Connection refused" in message
        assert len(stage.pauses) == 1


async def test_cancellation_ends_the_request(provider: ProviderName) -> None:
    async with play(provider, "hangs") as stage, trio.open_nursery() as nursery:
        nursery.start_soon(ask_backend, stage.backend, stage.said.pending())
        while not stage.server.asked:
            await trio.sleep(0.001)
        assert stage.server.open == 1
        nursery.cancel_scope.cancel()
        await _until(lambda: stage.server.open == 0)
    assert stage.server.open == 0


async def test_concurrent_questions_to_a_server_are_bounded_and_the_others_queue() -> None:
    recording = recorded("openai")
    scopes = [trio.CancelScope() for _ in range(_MAX_CONCURRENT + 2)]

    async def ask(backend: LlmBackend, scope: trio.CancelScope) -> None:
        with scope:
            await ask_backend(backend, recording.pending())

    def reached(server: Server, count: int) -> bool:
        return len(server.asked) >= count

    async with play("openai", "hangs", again=True) as stage, trio.open_nursery() as nursery:
        # One after the other: the first ones are those that are served.
        for number, scope in enumerate(scopes, 1):
            nursery.start_soon(ask, stage.backend, scope)
            await _until(partial(reached, stage.server, min(number, _MAX_CONCURRENT)))
        for at, scope in enumerate(scopes[:2]):
            await _until(partial(reached, stage.server, _MAX_CONCURRENT + at))
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert len(stage.server.asked) == _MAX_CONCURRENT + at
            scope.cancel()
        nursery.cancel_scope.cancel()


async def _until(there: Callable[[], bool]) -> None:
    with trio.CancelScope(shield=True), trio.fail_after(PATIENCE_S):
        while not there():
            await trio.sleep(0.001)


# ── never sent to a model ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "more",
    [
        {"target": "user"},
        {"target": "caller", "context": None},
        {"answer_type": Secret()},
        {"target": {"user": {}}},
        {"target": {"assistant": {"provider": "another"}}},
        {"target": {"assistant": "small"}},
        {"context": "a text"},
        {"context": {"conversation": 7}},
        {"context": [1]},
        {"context": {"messages": {}, "contents": "x"}},
        {"context": {"messages": [], "tools": "x"}},
    ],
    ids=str,
)
async def test_a_question_not_for_a_model_is_not_sent(more: dict[str, Any]) -> None:
    async with play("openai") as stage:
        assert not stage.backend.takes_secrets
        assert await ask_backend(stage.backend, stage.said.pending(**more)) is None
        assert stage.server.asked == []


async def test_without_a_key_nothing_is_sent() -> None:
    async with play("openai", key_env="NOT_THERE") as stage:
        assert "NOT_THERE" in await stage.fails()
        assert stage.server.asked == []


async def test_a_server_has_to_present_a_certificate_for_its_name() -> None:
    context = await Sender()._choose_trust("https://example.org")
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert context.cert_store_stats()["x509_ca"] > 0


async def test_the_environment_diverts_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with play("openai", recorded("openai").reply("inquires")) as stage:
        assert isinstance(await ask_backend(stage.backend, stage.said.pending()), Answered)


# ── definitions and answers ──────────────────────────────────────────────────────────────────────


async def test_a_definition_names_another_model_for_its_question(provider: ProviderName) -> None:
    recording = recorded(provider)
    table = {
        "provider": provider,
        "model": "small-1",
        "max_tokens": 77,
        "system": "Be brief.",
        "elsewhere": 1,
    }
    async with play(provider, recording.reply("inquires"), recording.reply("inquires")) as stage:
        outcome = await ask_backend(
            stage.backend, recording.pending(context=None, target={"assistant": table})
        )
        assert isinstance(outcome, Answered) and outcome.source["model"] == "small-1"
        assert isinstance(await ask_backend(stage.backend, recording.pending()), Answered)
        first, second = stage.server.asked
        shown = repr((first.path, first.body))
        assert "small-1" in shown and "77" in shown and "Be brief." in shown
        assert "small-1" not in repr((second.path, second.body))


@pytest.mark.parametrize(
    "table", [{"model": 7}, {"attempts": 0}, {"url": "http://elsewhere"}, {"key_env": "HOME"}]
)
async def test_a_definition_cannot_redirect_a_question(table: dict[str, Any]) -> None:
    async with play("openai") as stage:
        message = await stage.fails(target={"assistant": table})
        assert f"target.assistant.{next(iter(table))}" in message
        assert stage.server.asked == []


@pytest.mark.parametrize(
    ("answer_type", "text", "answer"),
    [
        (Boolean(), '```json\n{"answer": true}\n```', True),
        (Boolean(), ' {"answer": false, "inquiry_id": "tool_call.modify_file.{call}"}\n', False),
        (Text(), '{"answer": "1"}', "1"),
        (Select(options=("a", 1, 2.5, True)), '{"answer": 2.5}', 2.5),
        (Select(options=("a", 1, 2.5, True)), '{"answer": "2.5"}', 2.5),
        (Select(options=("a", 1, 2.5, True)), '{"answer": "true"}', True),
        (Select(options=("1", 1)), '{"answer": "1"}', "1"),
        (Select(options=("a", None)), '{"answer": null}', None),
    ],
)
async def test_each_type_of_answer_is_requested_and_parsed(
    provider: ProviderName, answer_type: AnswerType, text: str, answer: object
) -> None:
    recording = recorded(provider)
    text = text.replace("{call}", recording.said["call"])
    async with play(provider, recording.text(text)) as stage:
        outcome = await ask_backend(stage.backend, recording.pending(answer_type))
        assert isinstance(outcome, Answered)
        assert outcome.value == answer and type(outcome.value) is type(answer)
        assert str(answer) not in repr(outcome)


async def test_names_unsupported_by_a_provider_are_mapped_back(provider: ProviderName) -> None:
    """A form has the ids of handles as names, and each choice its own."""
    recording = recorded(provider)
    choice = Choice(("wait", "abort"))
    form = Form({"call.6f1e": choice, "süß": choice, "plain": choice})
    answer = {"call.6f1e": "wait", "süß": "abort", "plain": "wait"}
    inquiry = recording.pending(form).kind.make_message()
    assert isinstance(inquiry, Inquiry)
    fields = fit(inquiry.schema, provider)["properties"]["answer"]["properties"]
    shown = dict(zip(fields, answer.values(), strict=True))
    async with play(provider, recording.text(json.dumps({"answer": shown}))) as stage:
        outcome = await ask_backend(stage.backend, recording.pending(form))
        assert isinstance(outcome, Answered) and outcome.value == answer


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": true, "inquiry_id": "other"}',
        '{"answer": true, "why": 1}',
        '{"answer": 1}',
        "[",
        "",
    ],
)
async def test_an_invalid_answer_is_none(text: str) -> None:
    recording = recorded("openai")
    async with play("openai", recording.text(text), again=True) as stage:
        with pytest.raises(InquiryFailed, match="gave no valid answer in 3 attempts"):
            await ask_backend(stage.backend, recording.pending())


async def test_a_call_with_a_conversation_is_answered_from_it() -> None:
    """Also where the definition names no target."""
    async with play("openai", recorded("openai").reply("inquires")) as stage:
        assert isinstance(
            await ask_backend(stage.backend, stage.said.pending(target="caller")), Answered
        )


async def test_a_preamble_and_a_default_are_included() -> None:
    async with play("openai", recorded("openai").text('{"answer": "x"}')) as stage:
        asked = stage.said.pending(Text(), pre_amble="It is late.", default="x")
        assert isinstance(await ask_backend(stage.backend, asked), Answered)
        last = stage.said.texts(stage.server.asked[0].body)[-1]
        assert "It is late." in last and 'offers "x" as its default' in last


def test_no_repr_shows_the_key_or_the_conversation() -> None:
    recording = recorded("openai")
    backend = LlmBackend(recording.settings("http://127.0.0.1:1"), recording.environ)
    inquiry = recording.pending().kind.make_message()
    assert isinstance(inquiry, Inquiry)
    exchange = backend._make_exchange(inquiry, "modify_file", read_context(recording.context()))
    request = backend._provider.make_request(backend._settings, KEY, exchange)
    shown = repr((backend._settings, exchange, request))
    assert KEY not in shown and "Rename" not in shown
