"""The times at which calls answer."""

from __future__ import annotations

import sys
import time

import pytest

from tests.methods.conftest import Room

LATE = "sleep 5; echo late"
DRIP = """
import time
for _ in range(10):
    print(time.monotonic(), flush=True)
    time.sleep(0.05)
time.sleep(300)
"""


def test_a_spawn_on_a_pipe_does_not_wait_for_late_output(room: Room) -> None:
    state = room.call("spawn", tool="run", id="h", args={"argv": ["sh", "-c", LATE]})
    assert state["waited"] == "deadline" and state["state"] == "running"
    assert state["content"] == "" and state["elapsed_ms"] >= 250


def test_a_spawn_on_a_pipe_answers_when_its_program_reads(room: Room) -> None:
    state = room.call("spawn", tool="run", id="h", args={"argv": ["cat"]})
    assert (state["waited"], state["content"]) == ("input", "")
    assert state["input_wanted"] == {"kind": "line", "prompt": ""}
    assert room.call("apply", id="h", input={"line": "x"}, wait="output")["content"] == "x\n"


def test_output_before_the_first_read_is_in_the_reply_to_a_spawn(room: Room) -> None:
    args = {"argv": ["sh", "-c", "echo ready; read a; echo then"]}
    for number in range(20):
        state = room.call("spawn", tool="run", id=f"h{number}", args=args, timeout_ms=60_000)
        assert (state["waited"], state["content"]) == ("output", "ready\n")
        assert "input_wanted" not in state


def test_an_apply_on_a_pipe_does_not_wait_for_late_output(room: Room) -> None:
    room.spawn("h", f"read a; {LATE}")
    began = time.monotonic()
    state = room.call("apply", id="h", input={"line": "go"})
    assert time.monotonic() - began >= 0.25
    assert state["waited"] == "deadline" and state["state"] == "running"
    assert state["content"] == ""


@pytest.mark.parametrize("method", ["spawn", "apply"])
def test_output_within_the_bound_is_in_the_reply(room: Room, method: str) -> None:
    args = {"argv": ["sh", "-c", "echo now; read a; echo then; exec sleep 300"]}
    if method == "spawn":
        # Some output, or the bound was passed on a busy machine.
        state = room.call("spawn", tool="run", id="h", args=args)
        assert (state["waited"], state["content"]) in (("output", "now\n"), ("deadline", ""))
        return
    room.call("spawn", tool="run", id="h", args=args, wait="output", timeout_ms=20_000)
    state = room.call("apply", id="h", input={"line": "go"})
    assert (state["waited"], state["content"]) in (("output", "then\n"), ("deadline", ""))


@pytest.mark.parametrize("how", [{"wait": "output"}, {"timeout_ms": 20_000}])
def test_a_requested_wait_is_not_cut_short(room: Room, how: dict[str, object]) -> None:
    args = {"argv": ["sh", "-c", "sleep 1; echo late; exec sleep 300"]}
    state = room.call("spawn", tool="run", id="h", args=args, **how)
    assert state["waited"] == "output" and state["content"] == "late\n"


def test_a_fetch_waits_only_on_request(room: Room) -> None:
    room.spawn("h", "exec sleep 300")
    state = room.call("fetch", id="h")
    assert state["state"] == "running" and "waited" not in state


def test_quiet_is_counted_from_the_last_output(room: Room) -> None:
    args = {"argv": [sys.executable, "-S", "-c", DRIP]}
    room.call("spawn", tool="run", id="h", args=args, wait="output", view="tail", max_bytes=0)
    reply = room.call("fetch", id="h", wait="quiet", quiet_ms=300, cursor=0)
    answered = time.monotonic()
    shown = [float(line) for line in reply["content"].split()]
    assert reply["waited"] == "quiet" and reply["state"] == "running"
    assert answered - shown[-1] >= 0.3, "quiet was claimed sooner than that after the last output"
    whole = room.call("fetch", id="h", wait="pattern", pattern=r"(?:[\d.]+\n){10}", cursor=0)
    printed = [float(line) for line in whole["content"].split()]
    assert len(printed) == 10
    # All of it, unless the machine delayed the program for so long.
    rest = printed[len(shown) - 1 :]
    assert len(rest) == 1 or rest[1] - rest[0] >= 0.2


def test_quiet_that_does_not_come_ends_at_the_bound(room: Room) -> None:
    room.spawn("h", "while :; do echo tick; sleep 0.05; done")
    state = room.call("fetch", id="h", wait="quiet", quiet_ms=30_000, timeout_ms=300)
    assert state["waited"] == "deadline" and state["state"] == "running"


def test_a_wait_for_a_pattern_outlasts_output_without_a_match(room: Room) -> None:
    room.spawn("lines", "while read line; do echo $line; done")
    waiting = room.start("fetch", id="lines", wait="pattern", pattern="needle")
    room.call("apply", id="lines", input={"line": "hay"}, wait="pattern", pattern="hay")
    room.pause()
    assert not room.answered(waiting)
    room.call("apply", id="lines", input={"line": "a needle"})
    assert room.wire.finish(waiting)["waited"] == "matched"
