"""The bridge without I/O: progress, cancellation, ids and the loss of the daemon."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from msgspec import Raw

from haft.errors import ConnectionLost
from haft.mcp.bridge import MAX_PROGRESS_TEXT, Bridge
from haft.mcp.steps import CallDaemon, Host, Serve, Steps
from tests.mcp.host import MODERN

PREFIX = "io.modelcontextprotocol/"


class Daemon:
    """A conversation with a daemon that answers what a test says."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.forgotten: list[int] = []
        self.answers: dict[int, Raw] = {}

    def request(self, method: str, params: dict[str, Any]) -> int:
        self.asked.append(len(self.asked))
        return self.asked[-1]

    def take(self, number: int) -> Raw | None:
        return self.answers.pop(number, None)

    def forget(self, number: int) -> None:
        self.forgotten.append(number)


def _call(host: Host, params: Raw) -> Steps:
    host.subject = "x" * 300
    try:
        return json.loads(bytes((yield CallDaemon("tools/call", {}))))  # type: ignore[no-any-return]
    except ConnectionLost as lost:
        return {"lost": str(lost)}


class Bench:
    def __init__(self) -> None:
        self.daemon = Daemon()
        methods: dict[str, Serve] = {"tools/call": _call}
        connect = cast(Any, lambda: self.daemon)
        self.bridge = Bridge(connect, methods, capabilities={}, instructions="")

    def call(self, id: int | str, token: int | str | None, now: float = 0.0) -> None:
        meta: dict[str, Any] = {
            f"{PREFIX}protocolVersion": MODERN,
            f"{PREFIX}clientCapabilities": {},
        }
        if token is not None:
            meta["progressToken"] = token
        request = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"_meta": meta}}
        self.bridge.receive(json.dumps(request).encode(), now)

    def answer(self, number: int) -> None:
        self.daemon.answers[number] = Raw(b'{"done":true}')
        self.bridge.arrived([number])

    def sent(self) -> list[dict[str, Any]]:
        lines = bytes(self.bridge.to_host).splitlines()
        self.bridge.to_host.clear()
        return [json.loads(line) for line in lines]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_progress_is_reported_soon_and_every_ten_seconds_until_the_reply(bench: Bench) -> None:
    bench.call(1, "token", now=100.0)
    assert bench.bridge.next_due() == 101.0
    bench.bridge.tick(100.9)
    assert bench.sent() == []
    for now in (101.0, 103.0, 106.0, 110.0, 120.5, 131.0):
        bench.bridge.tick(now)
        (message,) = bench.sent()
        assert message["method"] == "notifications/progress"
        params = message["params"]
        assert (params["progressToken"], params["progress"]) == ("token", now - 100)
        assert len(params["message"]) <= MAX_PROGRESS_TEXT
    bench.bridge.tick(132.0)
    assert bench.sent() == [] and bench.bridge.next_due() == 141.0
    bench.answer(0)
    (reply,) = bench.sent()
    assert reply["id"] == 1 and reply["result"]["done"] is True
    assert bench.bridge.next_due() is None
    bench.bridge.tick(1000.0)
    assert bench.sent() == []


def test_a_request_without_a_token_gets_no_progress(bench: Bench) -> None:
    bench.call(1, None)
    bench.call(2, 0)
    assert bench.bridge.next_due() == 1.0
    bench.bridge.tick(1.0)
    assert [message["params"]["progressToken"] for message in bench.sent()] == [0]


def test_a_cancelled_request_gets_nothing_more_and_the_daemon_forgets_the_wait(
    bench: Bench,
) -> None:
    bench.call(1, "token")
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1},
    }
    bench.bridge.receive(json.dumps(cancel).encode(), 1.0)
    bench.answer(0)
    bench.bridge.tick(100.0)
    assert bench.sent() == [] and bench.daemon.forgotten == [0]
    assert not bench.bridge.is_busy


def test_an_id_in_use_is_refused_and_free_after_the_reply(bench: Bench) -> None:
    bench.call("a", None)
    bench.call("a", None)
    (refused,) = bench.sent()
    assert (refused["id"], refused["error"]["code"]) == ("a", -32600)
    bench.answer(0)
    bench.call("a", None)
    bench.answer(1)
    assert [message["id"] for message in bench.sent()] == ["a", "a"]


def test_every_call_ends_with_the_daemon_and_the_next_one_connects_anew(bench: Bench) -> None:
    bench.call(1, None)
    bench.call(2, None)
    first, bench.daemon = bench.daemon, Daemon()
    bench.bridge.lost(ConnectionLost("gone"))
    assert [(m["id"], m["result"]["lost"]) for m in bench.sent()] == [(1, "gone"), (2, "gone")]
    bench.call(3, None)
    assert (len(first.asked), len(bench.daemon.asked)) == (2, 1)
