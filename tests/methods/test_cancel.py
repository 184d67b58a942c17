"""`$/cancelRequest` ends a waiting request with -32800, and only that: handles live on."""

from __future__ import annotations

import pytest

from tests.faults.harness import until
from tests.methods.conftest import Room
from tests.wire import Refused


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fetch", {"id": "h", "wait": "stopped", "timeout_ms": 600_000}),
        ("fetch", {"id": "h", "wait": "output", "timeout_ms": 600_000}),
        ("fetch", {"id": "h", "wait": "quiet", "quiet_ms": 600_000, "timeout_ms": 600_000}),
        ("fetch", {"id": "h", "wait": "pattern", "pattern": "never", "timeout_ms": 600_000}),
        ("await", {"all": ["h"]}),
        ("await", {"any": ["h"], "timeout_secs": 600}),
    ],
)
def test_a_cancelled_wait_leaves_its_handle(
    room: Room, method: str, params: dict[str, object]
) -> None:
    room.spawn("h", "exec cat")
    waiting, other = room.start(method, **params), room.start(method, **params)
    room.pause()
    assert not room.answered(waiting)
    room.cancel(waiting)
    with pytest.raises(Refused) as caught:
        room.wire.finish(waiting)
    assert caught.value.code == -32800 and caught.value.data["kind"] == "request_cancelled"
    room.pause()
    assert not room.answered(other), "only the request that was named is cancelled"
    state = room.call(
        "apply", id="h", input={"line": "on"}, wait="pattern", pattern="on", timeout_ms=20_000
    )
    assert state["state"] == "running"
    room.call("abort", id="h")
    if params.get("wait") == "output":
        assert room.wire.finish(other)["waited"] == "output"
    else:
        room.wire.finish(other)


def test_the_end_of_a_call_that_its_client_cancelled_is_no_notice(room: Room) -> None:
    def states() -> set[str]:
        return {row["state"] for row in room.call("handles/list")["handles"]}

    running = room.start("tools/call", tool="run", arguments={"argv": ["sleep", "300"]})
    until(lambda: states() == {"running"}, "the start")
    room.cancel(running)
    with pytest.raises(Refused, match="-32800"):
        room.wire.finish(running)
    until(lambda: states() == {"stopped"}, "the end")
    assert room.call("notifications/drain")["notifications"] == []


def test_a_waiting_apply_is_cancelled_after_its_input_was_written(room: Room) -> None:
    room.spawn("h", "read a; echo got $a; exec sleep 300")
    reply = room.start("apply", id="h", input={"line": "it"}, wait="stopped", timeout_ms=600_000)
    room.call("fetch", id="h", wait="pattern", pattern="got it", timeout_ms=20_000)
    room.cancel(reply)
    with pytest.raises(Refused, match="-32800"):
        room.wire.finish(reply)
    assert room.call("fetch", id="h")["state"] == "running"


def test_cancelling_an_answered_or_unknown_request_does_nothing(room: Room) -> None:
    number = room.wire.start("ping")
    assert room.wire.finish(number) == {"pong": True}
    for wrong in (number, 123_456, "nobody"):
        room.wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": wrong}})
    assert room.wire.call("ping") == {"pong": True}


def test_a_text_id_is_not_the_equal_number(room: Room) -> None:
    room.spawn("h", "exec cat")
    room.wire.send(
        {
            "jsonrpc": "2.0",
            "id": "7",
            "method": "await",
            "params": {"session": room.session, "all": ["h"]},
        }
    )
    room.cancel(7)
    room.pause()
    assert not any(message.get("id") == "7" for message in room.wire._kept)
    room.wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": "7"}})
    reply = room.wire.receive()
    assert reply["id"] == "7" and reply["error"]["code"] == -32800


def test_calls_cancelled_before_their_wait_leave_the_run_unclaimed(
    room: Room,
) -> None:
    """A call and its retry are cancelled in their own batch: no slot stays taken."""
    args = {"argv": ["sleep", "300"]}
    params = {"tool": "run", "arguments": args, "call_id": "c", "session": room.session}
    calls = [
        {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params} for id in ("a", "b")
    ]
    ends = [
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": id}} for id in ("a", "b")
    ]
    room.wire.send([*calls, *ends])
    replies = room.wire.receive()
    assert [reply["error"]["code"] for reply in replies] == [-32800, -32800]
    (row,) = room.call("handles/list")["handles"]
    state = room.call("fetch", id=row["id"], wait="stopped", timeout_ms=20_000)
    assert (state["state"], state["ended_by"]["by"]) == ("stopped", "abort")
