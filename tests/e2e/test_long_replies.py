"""A long text is made and encoded in a thread: no other call is delayed, and the text is the
same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

SIZE = 4_000_000


@pytest.fixture(scope="module")
def wire(shared_daemon: RunningDaemon) -> Iterator[Wire]:
    wire = shared_daemon.connect()
    script = f"yes 'gr\u00fc\u00df dich' | head -c {SIZE}"
    state = wire.call(
        "spawn", tool="run", id="big", args={"command": script}, wait="stopped", timeout_ms=60_000
    )
    assert state["state"] == "stopped"
    yield wire
    wire.close()


@pytest.mark.parametrize("view", ["all", "tail", "raw"])
def test_a_call_behind_a_long_fetch_is_answered_first(wire: Wire, view: str) -> None:
    # In one write: on a busy machine the reply is ready before a second one.
    wire.send_raw(
        b"".join(
            json.dumps(
                {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            ).encode()
            + b"\n"
            for number, method, params in (
                (1, "fetch", {"id": "big", "view": view, "cursor": 0, "max_bytes": SIZE}),
                (2, "ping", {}),
            )
        )
    )
    replies = [wire.receive(), wire.receive()]
    order = [reply["id"] for reply in replies]
    assert order == [2, 1]
    state = replies[1]["result"]
    text = state["content" if view == "raw" else "result"]
    assert len(text.encode()) >= SIZE - 20


def test_a_long_reply_within_a_batch_is_cut(wire: Wire) -> None:
    call = {"id": "big", "view": "all", "max_bytes": SIZE}
    wire.send([{"jsonrpc": "2.0", "id": 1, "method": "fetch", "params": call}])
    [reply] = wire.receive()
    assert reply["result"]["truncated"]["kept"] < SIZE


def test_a_deferred_delta_is_returned_once(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as wire:
        script = f"yes abcdefg | head -c {SIZE}; echo end; read x"
        wire.call("spawn", tool="run", id="a", args={"command": script}, wait="none")
        wire.call("fetch", id="a", wait="pattern", pattern="^end$", view="all", timeout_ms=60_000)
        calls = [wire.start("fetch", id="a", max_bytes=SIZE) for _ in range(2)]
        first, second = (wire.finish(call) for call in calls)
        assert "abcdefg" in first["content"] and second["content"] == ""


def test_a_cancelled_long_fetch_returns_nothing_and_moves_no_offset(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as wire:
        script = f"yes abcdefg | head -c {SIZE}; echo end; read x"
        wire.call("spawn", tool="run", id="a", args={"command": script}, wait="none")
        wire.call("fetch", id="a", wait="pattern", pattern="^end$", view="all", timeout_ms=60_000)
        fetch = {"id": "a", "max_bytes": 2 * SIZE}
        wire.send_raw(
            b"".join(
                json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
                for message in (
                    {"id": 1, "method": "fetch", "params": fetch},
                    {"method": "$/cancelRequest", "params": {"id": 1}},
                )
            )
        )
        assert wire.receive()["error"]["code"] == -32800
        assert len(wire.call("fetch", **fetch)["content"]) == SIZE + len("end\n")
