from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.methods.conftest import Room
from tests.wire import Refused


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    """The file to which every start adds a line."""
    return tmp_path / "starts"


def params(room: Room, starts: Path, id: str = "h", then: str = "exec sleep 300") -> dict[str, Any]:
    return {
        "session": room.session,
        "tool": "run",
        "id": id,
        "call_id": "c1",
        "args": {"argv": ["sh", "-c", f"echo started >> {starts}; {then}"]},
        "wait": "none",
    }


def pid(room: Room, id: str = "h") -> int:
    rows = [row for row in room.call("handles/list")["handles"] if row["id"] == id]
    assert len(rows) == 1
    number: int = rows[0]["pid"]
    return number


def test_a_repeated_spawn_returns_the_first_handle(room: Room, starts: Path) -> None:
    spawn = params(room, starts, then="echo up; exec sleep 300")
    first = room.wire.call("spawn", **{**spawn, "wait": "output", "timeout_ms": 20_000})
    ran = pid(room)
    again = room.wire.call("spawn", **spawn)
    assert (again["id"], again["generation"], again["state"]) == ("h", 1, "running")
    assert first["generation"] == 1 and pid(room) == ran
    assert starts.read_text() == "started\n"


def test_a_repeated_spawn_after_the_stop_returns_the_first_handle(room: Room, starts: Path) -> None:
    spawn = params(room, starts, then="echo done; exit 3")
    first = room.wire.call("spawn", **{**spawn, "wait": "stopped", "timeout_ms": 20_000})
    again = room.wire.call("spawn", **{**spawn, "wait": "stopped", "timeout_ms": 20_000})
    for state in (first, again):
        assert state["exit"] == {"code": 3} and state["generation"] == 1
        assert state["content"] == "done\n"
    assert starts.read_text() == "started\n"


def test_a_repeated_spawn_reports_the_end_of_its_wait(room: Room, starts: Path) -> None:
    spawn = params(room, starts, then="echo found it; exit 3")
    room.wire.call("spawn", **{**spawn, "wait": "stopped", "timeout_ms": 20_000})
    with room.daemon.connect() as wire:
        # A later handle has come and gone: the daemon has released everything of the first.
        wire.call("spawn", **{**spawn, "call_id": "c2", "id": "other", "wait": "stopped"})
    again = room.wire.call("spawn", **{**spawn, "wait": "stopped"})
    assert again["waited"] == "stopped" and again["exit"] == {"code": 3}
    matched = room.wire.call("spawn", **{**spawn, "wait": "pattern", "pattern": "fo(un)d"})
    assert matched["waited"] == "matched" and matched["generation"] == 1


@pytest.mark.parametrize("how", ["one write", "a batch and a call"])
def test_a_repeated_spawn_during_the_start_returns_the_first_handle(
    room: Room, starts: Path, how: str
) -> None:
    spawn = {**params(room, starts, then="exit 0"), "wait": "stopped", "timeout_ms": 20_000}
    one, other = (
        {"jsonrpc": "2.0", "id": n, "method": "spawn", "params": spawn} for n in ("a", "b")
    )
    sent = [one, other] if how == "one write" else [[one], other]
    room.wire.send_raw("".join(json.dumps(message) + "\n" for message in sent).encode())
    replies: list[dict[str, Any]] = []
    for _ in sent:
        message = room.wire.receive()
        replies += message if isinstance(message, list) else [message]
    assert sorted(reply["id"] for reply in replies) == ["a", "b"]
    for reply in replies:
        assert reply["result"]["generation"] == 1 and reply["result"]["exit"] == {"code": 0}
    assert starts.read_text() == "started\n"


def test_concurrent_spawns_from_two_connections_start_one_handle(
    room: Room, beside: Callable[[], Room], starts: Path
) -> None:
    spawn = {**params(room, starts, then="exit 0"), "wait": "stopped", "timeout_ms": 20_000}
    rooms = [room, beside(), beside()]
    numbers = [one.wire.start("spawn", **spawn) for one in rooms]
    states = [one.wire.finish(number) for one, number in zip(rooms, numbers, strict=True)]
    assert {(state["generation"], state["exit"]["code"]) for state in states} == {(1, 0)}
    assert starts.read_text() == "started\n"


def test_a_repeat_with_another_id_returns_the_first_id(room: Room, starts: Path) -> None:
    room.wire.call("spawn", **params(room, starts))
    again = room.wire.call("spawn", **params(room, starts, id="other"))
    assert again["id"] == "h"
    with pytest.raises(Refused, match="-32001"):
        room.call("fetch", id="other")


@pytest.mark.parametrize("then", ["exec sleep 301", "exec sleep 300 # other"])
def test_other_args_are_another_call(room: Room, starts: Path, then: str) -> None:
    room.wire.call("spawn", **params(room, starts))
    ran = pid(room)
    with pytest.raises(Refused) as caught:
        room.wire.call("spawn", **params(room, starts, then=then))
    assert caught.value.code == -32002 and "'h'" in caught.value.message
    other = room.wire.call("spawn", **params(room, starts, id="other", then=then))
    assert (other["id"], other["generation"]) == ("other", 1)
    assert pid(room) == ran != pid(room, "other")


def test_another_session_is_another_caller(room: Room, starts: Path) -> None:
    spawn = {**params(room, starts, then="exit 0"), "wait": "stopped", "timeout_ms": 20_000}
    room.wire.call("spawn", **spawn)
    other = f"{room.session}-other"
    assert room.wire.call("spawn", **{**spawn, "session": other})["session"] == other
    assert starts.read_text() == "started\n" * 2
    room.wire.call("session/close", session=other)


def test_a_failed_start_is_tried_again(room: Room, tmp_path: Path) -> None:
    program = tmp_path / "program"
    spawn = {
        "session": room.session,
        "tool": "run",
        "id": "h",
        "call_id": "c1",
        "args": {"argv": [str(program)]},
        "wait": "stopped",
        "timeout_ms": 20_000,
    }
    with pytest.raises(Refused, match="-32012"):
        room.wire.call("spawn", **spawn)
    program.write_text("#!/bin/sh\necho now\n")
    program.chmod(0o755)
    assert room.wire.call("spawn", **spawn)["result"] == "now\n"
