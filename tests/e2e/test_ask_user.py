"""The builtin `ask_user`: a model asks the person, and cannot answer for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.question_tools import Client
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

TOOLS = ""
_sessions = itertools.count()


@pytest.fixture
def host(asker: RunningDaemon) -> Iterator[Client]:
    with Client(asker, session=f"u{next(_sessions)}") as client:
        yield client


def ask(host: Client, **arguments: Any) -> int:
    return host.start("tools/call", tool="ask_user", arguments=arguments)


@pytest.mark.parametrize(
    ("arguments", "kind", "answer", "result"),
    [
        ({}, {"type": "text"}, "because", "because"),
        ({"type": "boolean"}, {"type": "boolean"}, True, "true"),
        ({"options": ["a", "b"]}, {"type": "select", "options": ["a", "b"]}, "b", "b"),
        ({"type": "select", "options": ["a"]}, {"type": "select", "options": ["a"]}, "a", "a"),
        ({"options": '["a", "b"]'}, {"type": "select", "options": ["a", "b"]}, "a", "a"),
    ],
)
def test_the_users_answer_is_the_result(
    host: Client, arguments: Any, kind: object, answer: object, result: str
) -> None:
    running = ask(host, question="Why?", **arguments)
    asked = host.asked()
    assert asked["params"]["target"] == "user"
    assert asked["params"]["question"] == {"id": "answer", "text": "Why?", "answer_type": kind}
    host.reply(asked, answer)
    state = host.finish(running)
    assert (state["tool"], state["result"]) == ("ask_user", result)
    assert state["ended_by"] == {"by": "exit"} and "exit" not in state


def test_a_default_is_offered(host: Client) -> None:
    running = ask(host, question="Sure?", type="boolean", default=True)
    asked = host.asked()
    assert asked["params"]["question"]["default"] is True
    host.reply(asked, False)
    assert host.finish(running)["result"] == "false"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"type": "select"}, "no `options`"),
        ({"type": "boolean", "default": "yes"}, "`default` is not a valid answer"),
        ({"options": ["a"], "default": "b"}, "`default` is not a valid answer"),
    ],
)
def test_incompatible_options_fail_with_a_sentence(host: Client, arguments: Any, why: str) -> None:
    state = host.finish(ask(host, question="Which?", **arguments))
    assert why in state["error"]["message"] and host.is_asked_nothing()


@pytest.mark.parametrize(
    "arguments", [{}, {"question": ""}, {"question": "?", "options": []}, {"question": 1}]
)
def test_invalid_arguments_are_named(host: Client, arguments: Any) -> None:
    with pytest.raises(Refused, match="-32005"):
        host.finish(ask(host, **arguments))


def test_a_model_cannot_answer_but_another_user_can(asker: RunningDaemon, host: Client) -> None:
    running = ask(host, question="Why?")
    asked = host.asked()
    host.refuse(asked, -32800)
    with asker.connect() as person:
        session = asked["params"]["session"]
        (open_,) = person.call("inquiries/list", session=session)["inquiries"]
        assert open_["target"] == "user"
        person.call(
            "inquiries/answer",
            session=session,
            inquiry_id=open_["inquiry_id"],
            answer="I say so",
        )
    assert host.finish(running)["result"] == "I say so"


def test_a_question_ends_with_its_call(host: Client) -> None:
    running = ask(host, question="Why?")
    asked = host.asked()
    host.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": running}})
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    until(
        lambda: all(row["state"] == "stopped" for row in host.call("handles/list")["handles"]),
        "it has ended",
    )


def test_ask_user_can_be_spawned_and_takes_only_its_answer_as_input(host: Client) -> None:
    state = host.call("spawn", tool="ask_user", id="q", args={"question": "Why?"}, wait="input")
    assert state["state"] == "waiting" and state["content"] == ""
    with pytest.raises(Refused, match="takes no input"):
        host.call("apply", id="q", input={"signal": "INT"})
    assert host.call("abort", id="q")["ended_by"]["by"] == "abort"
    host.call("spawn", tool="ask_user", id="q", args={"question": "Why?"}, wait="input")
    assert host.call("apply", id="q", input="so", wait="stopped")["result"] == "so"


def test_ask_user_is_listed_described_and_can_be_disabled(
    host: Client, make_daemon: Callable[..., RunningDaemon]
) -> None:
    for provider in ("generic", "openai", "anthropic", "google", "ollama", "mcp"):
        tools = {tool["name"]: tool for tool in host.call("tools/list", provider=provider)["tools"]}
        listed = tools["ask_user"]
        assert (listed["source"], listed["runtime"]) == ("builtin", "builtin")
        assert not listed["stateful"] and "question" in listed["parameters"]["properties"]
    (described,) = host.call("tools/describe", tools=["ask_user"])["tools"]
    assert [parameter["name"] for parameter in described["parameters"]][:2] == ["question", "type"]
    other = make_daemon()
    other.tools("[tools.ask_user]\nenable = false\n")
    with other.start().connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
        assert "ask_user" not in [tool["name"] for tool in wire.call("tools/list")["tools"]]
        with pytest.raises(Refused, match="-32003"):
            wire.call("tools/call", tool="ask_user", arguments={"question": "?"})
