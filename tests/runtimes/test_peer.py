"""Requests and replies of an MCP server."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from haftd.runtimes.mcp.peer import Disconnected, Peer, Pending, ServerError
from haftd.runtimes.mcp.shapes import Progress


class Wire:
    """A transport that keeps sent messages."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.peer = Peer(self)

    def send(self, message: bytes, pending: Pending | None = None) -> None:
        self.sent.append(json.loads(message))

    def cancel(self, pending: Pending) -> bool:
        return False

    def says(self, **message: Any) -> bool:
        return self.peer.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())


async def test_a_reply_goes_to_its_request_once_and_an_unknown_one_is_ignored() -> None:
    wire, results = Wire(), {}

    async def ask(method: str) -> None:
        results[method] = bytes(await wire.peer.request(method, {}))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "a")
        nursery.start_soon(ask, "b")
        await trio.testing.wait_all_tasks_blocked()
        ids = {one["method"]: one["id"] for one in wire.sent}
        for stray in (99, "1", None, 1.5):
            wire.says(id=stray, result={"stray": True})
        assert wire.says(id=ids["b"], result={"of": "b"})
        assert wire.says(id=ids["b"], result={"of": "again"})
        assert wire.says(id=ids["a"], result={"of": "a"})
    assert results == {"a": b'{"of": "a"}', "b": b'{"of": "b"}'}


async def test_progress_counts_only_while_rising_and_the_request_is_open() -> None:
    wire = Wire()
    seen: list[Progress] = []
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            await wire.peer.request("a", {}, on_progress=seen.append)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        token = wire.sent[0]["params"]["_meta"]["progressToken"]
        for value in (1, 1, 0, 2):
            wire.says(
                method="notifications/progress", params={"progressToken": token, "progress": value}
            )
        wire.says(method="notifications/progress", params={"progressToken": "other", "progress": 9})
        wire.says(method="notifications/progress", params="junk")
        wire.says(id=token, result={})
        wire.says(method="notifications/progress", params={"progressToken": token, "progress": 3})
    assert [one.progress for one in seen] == [1, 2]


async def test_a_cancelled_request_is_notified_and_its_late_reply_ignored() -> None:
    wire = Wire()
    with trio.move_on_after(0):
        await wire.peer.request("a", {})
    first, second = wire.sent
    assert (second["method"], second["params"]["requestId"]) == (
        "notifications/cancelled",
        first["id"],
    )
    assert wire.says(id=first["id"], result={})


async def test_an_error_is_raised_and_a_lost_peer_ends_all_requests() -> None:
    wire = Wire()
    failures: list[Exception] = []

    async def ask() -> None:
        try:
            await wire.peer.request("a", {})
        except (ServerError, Disconnected) as failure:
            failures.append(failure)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        wire.says(id=wire.sent[0]["id"], error={"code": -1, "message": "no"})
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        wire.peer.lose(Disconnected("exited with status 1"))
    await ask()
    assert [str(failure) for failure in failures] == [
        "no",
        "exited with status 1",
        "exited with status 1",
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Server started",
        b"{",
        b"[]",
        b'{"a": 1}',
        b"\xff{",
        b"{" * 5000,
        b'{"jsonrpc": "1.0", "id": 1}',
    ],
)
def test_a_line_without_a_message_is_noise(line: bytes) -> None:
    assert not Wire().peer.receive(line)


def test_a_message_behind_other_text_is_found() -> None:
    wire = Wire()
    seen: list[str] = []
    wire.peer.on_notification = lambda method, params: seen.append(method)
    assert wire.peer.receive(b'[log] {x} {"jsonrpc": "2.0", "method": "notifications/x"}')
    assert seen == ["notifications/x"]
