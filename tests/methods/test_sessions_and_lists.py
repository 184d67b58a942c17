from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.harness import until
from tests.methods.conftest import Room
from tests.processes import is_running
from tests.wire import Refused


def row(room: Room, wire: Room | None = None) -> dict[str, Any] | None:
    """Return the session's row of session/list."""
    sessions = (wire or room).wire.call("session/list")["sessions"]
    rows = [session for session in sessions if session["session"] == room.session]
    assert len(rows) <= 1
    return rows[0] if rows else None


def test_handles_and_connections_are_counted(room: Room, beside: Callable[[], Room]) -> None:
    other, third = beside(), beside()
    room.spawn("a", "exec sleep 300")
    other.spawn("b", "exec sleep 300")
    third.spawn("c", "exit 0", wait="stopped")
    assert row(room) == {"session": room.session, "live": 2, "stopped": 1, "connections": 3}
    room.call("abort", id="a")
    third.wire.close()
    until(lambda: (row(room) or {})["connections"] == 2, "the connection that left is not counted")
    assert row(room) == {"session": room.session, "live": 1, "stopped": 2, "connections": 2}


def test_close_ends_the_handles_and_returns_their_last_states(room: Room) -> None:
    room.spawn("runs", "echo begun; exec sleep 300")
    room.call("fetch", id="runs", wait="output", view="tail", max_bytes=0)
    room.spawn("stubborn", "trap '' TERM; echo up; while :; do sleep 1; done", wait="output")
    room.spawn("over", "echo over; exit 2", wait="stopped")
    room.spawn("left", "sleep 300 >/dev/null 2>&1 & echo gone", wait="stopped")
    pids = [row["pid"] for row in room.call("handles/list")["handles"]]
    (behind,) = room.call("fetch", id="left")["left_behind"]
    states = {row["id"]: row for row in room.call("session/close")["handles"]}
    assert states.keys() == {"runs", "stubborn", "over", "left"}
    assert {state["state"] for state in states.values()} == {"stopped"}
    assert states["runs"]["ended_by"]["by"] == states["stubborn"]["ended_by"]["by"] == "abort"
    assert states["runs"]["content"] == "begun\n" and states["runs"]["exit"] == {"signal": "TERM"}
    assert states["stubborn"]["exit"] == {"signal": "KILL"}
    assert states["over"]["ended_by"] == {"by": "exit"} and states["over"]["exit"] == {"code": 2}
    assert not any(is_running(pid) for pid in [*pids, behind["pid"]])


def test_a_closed_session_is_new_to_the_same_connection(
    room: Room, beside: Callable[[], Room]
) -> None:
    other = beside()
    other.spawn("a", "exec sleep 300")
    room.spawn("b", "exit 0", wait="stopped")
    room.call("session/close")
    outside = beside()
    assert row(room, outside) is None, "neither handles nor connections are left in it"
    for name in "ab":
        with pytest.raises(Refused) as caught:
            room.call("fetch", id=name)
        assert caught.value.code == -32001 and caught.value.data["expired"] is True
    assert room.call("handles/list") == {"handles": []}
    state = room.spawn("a", "echo again", wait="stopped", view="delta", max_bytes=100)
    assert state["result"] == "again\n" and state["generation"] == 2
    assert row(room, outside) == {
        "session": room.session,
        "live": 0,
        "stopped": 1,
        "connections": 1,
    }
    assert other.call("fetch", id="a")["result"] == "again\n"
    assert (row(room, outside) or {})["connections"] == 2
    room.wire.close()
    until(
        lambda: (row(other, outside) or {})["connections"] == 1,
        "a connection that leaves after a close is not counted",
    )


def test_close_leaves_other_sessions_alone(room: Room) -> None:
    theirs = f"{room.session}-theirs"
    args = {"argv": ["sleep", "300"]}
    room.wire.call("spawn", session=theirs, tool="run", id="a", args=args, wait="none")
    room.spawn("a", "exec sleep 300")
    assert [row["session"] for row in room.call("session/close")["handles"]] == [room.session]
    assert room.wire.call("fetch", session=theirs, id="a")["state"] == "running"
    assert room.wire.call("session/close", session=theirs)["handles"][0]["id"] == "a"


def test_an_unused_session_can_be_closed(room: Room) -> None:
    assert room.call("session/close") == {"handles": []}


def test_a_star_lists_the_handles_of_all_sessions(room: Room) -> None:
    theirs = f"{room.session}-theirs"
    args = {"argv": ["sh", "-c", "echo out; exec sleep 300"]}
    room.wire.call("spawn", session=theirs, tool="run", id="a", args=args, wait="output")
    room.spawn("a", "echo hello; exit 3", wait="stopped")
    rows = {
        (row["session"], row["id"]): row
        for row in room.wire.call("handles/list", session="*")["handles"]
    }
    runs, over = rows[theirs, "a"], rows[room.session, "a"]
    assert runs["state"] == "running" and is_running(runs["pid"])
    assert over["state"] == "stopped" and over["exit"] == {"code": 3} and over["bytes"] == 6
    # The list neither joins the sessions nor reads their output.
    assert all(session["session"] != "*" for session in room.wire.call("session/list")["sessions"])
    assert room.call("fetch", id="a")["content"] == "hello\n"
    assert [row["id"] for row in room.call("handles/list")["handles"]] == ["a"]
    room.wire.call("session/close", session=theirs)
    after = room.wire.call("handles/list", session="*")["handles"]
    assert (theirs, "a") not in {(one["session"], one["id"]) for one in after}
