"""Each call of the client: the method, the params on the wire, and the part of the reply that it returns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from haft.aio_calls import AsyncCalls

REPLY = SimpleNamespace(
    answer="yes", subscription="p1", notifications=("n",), turn=7, handles=("h",)
)


class Recorded(AsyncCalls):
    """Calls that are recorded and have one reply."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, object]]] = []

    async def call(self, method: str, /, **params: object) -> Any:
        self.calls.append((method, params))
        return REPLY


Call = Callable[[AsyncCalls], Coroutine[Any, Any, object]]
SPAWN = {"tool": "t", "id": "a"}


CASES: list[tuple[Call, str, dict[str, Any], object]] = [
    (lambda c: c.spawn("t", "a"), "spawn", SPAWN, REPLY),
    (
        lambda c: c.spawn("t", "a", {"x": 1}, call_id="c", env={"V": None}, stdin_from="b", view="raw"),
        "spawn",
        {**SPAWN, "args": {"x": 1}, "call_id": "c", "env": {"V": None}, "stdin_from": {"id": "b"}, "view": "raw"},
        REPLY,
    ),
    (
        lambda c: c.spawn("t", "a", split_stderr=True, retain=False, approval_timeout_ms=0),
        "spawn",
        {**SPAWN, "split_stderr": True, "retain": False, "approval_timeout_ms": 0},
        REPLY,
    ),
    (lambda c: c.fetch("a"), "fetch", {"id": "a"}, REPLY),
    (
        lambda c: c.fetch("a", cursor=0, since_revision=0, reader="terminal", clipboard=False, view="raw"),
        "fetch",
        {"id": "a", "cursor": 0, "since_revision": 0, "for": "terminal", "clipboard": False, "view": "raw"},
        REPLY,
    ),
    (lambda c: c.apply("a", "x"), "apply", {"id": "a", "input": "x"}, REPLY),
    (
        lambda c: c.apply("a", None, question="q", cursor=0, since_revision=0, view="raw"),
        "apply",
        {"id": "a", "input": None, "question": "q", "cursor": 0, "since_revision": 0, "view": "raw"},
        REPLY,
    ),
    (lambda c: c.abort("a", session="s"), "abort", {"id": "a", "session": "s"}, REPLY),
    (lambda c: c.abort("a", grace_ms=0), "abort", {"id": "a", "grace_ms": 0}, REPLY),
    (
        lambda c: c.await_(all=["a"], timeout_secs=0, session="s"),
        "await",
        {"all": ("a",), "any": (), "timeout_secs": 0, "session": "s"},
        REPLY,
    ),
    (lambda c: c.await_(any=["b"]), "await", {"all": (), "any": ("b",)}, REPLY),
    (lambda c: c.ping(), "ping", {}, REPLY),
    (lambda c: c.search("p"), "output/search", {"pattern": "p"}, REPLY),
    (
        lambda c: c.search("p", [], max_matches=1, session="s"),
        "output/search",
        {"pattern": "p", "ids": (), "max_matches": 1, "session": "s"},
        REPLY,
    ),
    (lambda c: c.timeline("a"), "output/timeline", {"id": "a"}, REPLY),
    (
        lambda c: c.timeline("a", cursor=0, max_points=1, session="s"),
        "output/timeline",
        {"id": "a", "cursor": 0, "max_points": 1, "session": "s"},
        REPLY,
    ),
    (lambda c: c.tools(session="s"), "tools/list", {"session": "s"}, REPLY),
    (lambda c: c.reload_tools(), "tools/reload", {}, REPLY),
    (lambda c: c.subscribe(["state"]), "subscribe", {"events": ("state",)}, "p1"),
    (
        lambda c: c.subscribe([], handles=["a"], start={}, reader="terminal", clipboard=False, session="*"),
        "subscribe",
        {"events": (), "handles": ("a",), "from": {}, "for": "terminal", "clipboard": False, "session": "*"},
        "p1",
    ),
    (
        lambda c: c.subscribe(["bytes"], handles=["a"], backpressure=True),
        "subscribe",
        {"events": ("bytes",), "handles": ("a",), "backpressure": True},
        "p1",
    ),
    (lambda c: c.unsubscribe("p1"), "unsubscribe", {"subscription": "p1"}, None),
    (lambda c: c.sessions(), "session/list", {}, REPLY),
    (lambda c: c.close_session("s"), "session/close", {"session": "s"}, REPLY),
    (lambda c: c.status(), "daemon/status", {}, REPLY),
    (lambda c: c.reload(), "daemon/reload", {}, REPLY),
    (lambda c: c.shutdown(), "daemon/shutdown", {"policy": "abort"}, None),
    (lambda c: c.shutdown("refuse"), "daemon/shutdown", {"policy": "refuse"}, None),
    (lambda c: c.discover(), "rpc.discover", {}, REPLY),
    (lambda c: c.call_tool("t"), "tools/call", {"tool": "t"}, REPLY),
    (
        lambda c: c.call_tool("t", {}, call_id="c", context=0, env={}, session="s"),
        "tools/call",
        {"tool": "t", "arguments": {}, "call_id": "c", "context": 0, "env": {}, "session": "s"},
        REPLY,
    ),
    (lambda c: c.ask({"text": "x"}), "inquiries/ask", {"question": {"text": "x"}, "target": "user"}, "yes"),
    (
        lambda c: c.ask({}, target="llm", timeout_s=0.5, session="s"),
        "inquiries/ask",
        {"question": {}, "target": "llm", "timeout_s": 0.5, "session": "s"},
        "yes",
    ),
    (lambda c: c.notices(session="s"), "notifications/drain", {"session": "s"}, ("n",)),
    (lambda c: c.begin_turn(session="s"), "turn/begin", {"session": "s"}, 7),
    (lambda c: c.end_turn(), "turn/end", {}, REPLY),
    (
        lambda c: c.end_turn(policy="stop", timeout_ms=0, target="user", context=0, session="s"),
        "turn/end",
        {"policy": "stop", "timeout_ms": 0, "target": "user", "context": 0, "session": "s"},
        REPLY,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "method", "params", "result"), CASES)
async def test_a_call_sends_what_is_given_and_returns_its_part_of_the_reply(
    call: Call, method: str, params: dict[str, object], result: object
) -> None:
    calls = Recorded()
    assert await call(calls) == result
    assert calls.calls == [(method, params)]


def test_every_call_of_the_client_is_tested() -> None:
    tested = {name for call, *_ in CASES for name in call.__code__.co_names}
    assert tested | {"call", "handles"} == {name for name in vars(AsyncCalls) if name[0] != "_"}
