from __future__ import annotations

import re
import sys

import pytest

from tests.cases.conftest import Desk, text

HELLO = "import sys;sys.stdout.write('hello'*4096)"
LAST = "import os;os.write(1,b'x'*{size});os.write(1,b'LAST');os._exit(7)"


@pytest.mark.parametrize("rounds", [8, pytest.param(100, marks=pytest.mark.soak)])
def test_RB_005_every_byte_of_a_terminal_precedes_its_end(desk: Desk, rounds: int) -> None:
    for _ in range(rounds):
        state = desk.done(desk.spawn(sys.executable, "-S", "-c", HELLO, pty=True))
        assert text(state) == "hello" * 4096
        assert state["output_complete"] is True and state["exit"] == {"code": 0}
    expected = "".join(f"{n}\n" for n in range(1, 10_001))
    for _ in range(rounds):
        state = desk.done(desk.spawn("seq", "10000", pty=True))
        assert text(state) == expected and state["exit"] == {"code": 0}


@pytest.mark.parametrize("rounds", [1, pytest.param(100, marks=pytest.mark.soak)])
@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 8192, 13_824, 65_536])
def test_RB_005_final_output_arrives_from_a_full_terminal(
    desk: Desk, size: int, rounds: int
) -> None:
    """The sizes are those around the kernel's buffer for a process that has ended."""
    for _ in range(rounds):
        handle = desk.spawn(sys.executable, "-S", "-c", LAST.format(size=size), pty=True)
        state = desk.done(handle, max_bytes=1 << 20)
        assert state["exit"] == {"code": 7} and state["output_complete"] is True
        assert text(state) == "x" * size + "LAST"


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_RB_005_final_output_of_many_terminals_at_once(desk: Desk, rounds: int) -> None:
    for _ in range(rounds):
        handles = [desk.spawn("seq", "3000", pty=True) for _ in range(20)]
        for handle in handles:
            assert text(desk.done(handle, seconds=30)).endswith("2999\n3000\n")


def test_RB_005_joined_deltas_are_the_whole_output(desk: Desk) -> None:
    handle = desk.spawn("seq", "10000", pty=True)
    parts: list[str] = []
    while True:
        state = desk.fetch(handle, wait="output", timeout_ms=20_000)
        parts.append(text(state))
        if state["state"] == "stopped":
            break
    assert "".join(parts) == "".join(f"{n}\n" for n in range(1, 10_001))


@pytest.mark.parametrize("rounds", [8, pytest.param(100, marks=pytest.mark.soak)])
def test_RB_006_output_of_a_process_that_exits_at_once_is_kept(desk: Desk, rounds: int) -> None:
    for _ in range(rounds):
        state = desk.done(desk.spawn(sh="echo boom >&2; exit 1", pty=True))
        assert state["content"] == "boom\n" and state["exit"] == {"code": 1}
    state = desk.done(desk.spawn(sys.executable, "-c", "import no_such_module_x", pty=True))
    assert "no_such_module_x" in state["content"] and state["exit"] == {"code": 1}


def test_RB_007_output_before_an_abort_is_kept(desk: Desk) -> None:
    script = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done"
    handle = desk.spawn(sh=script, pty=True)
    desk.fetch(handle, wait="pattern", pattern="line 5", cursor=0, view="tail", max_bytes=0)
    state = desk.abort(handle)
    assert state["ended_by"]["by"] == "abort"
    assert re.match(r"line 1\nline 2\nline 3\nline 4\nline 5\n", state["content"])
    assert desk.fetch(handle)["content"] == state["content"]


def test_RB_007_output_before_a_time_limit_is_kept(desk: Desk) -> None:
    state = desk.done(desk.spawn(sh="echo before; sleep 60", timeout_s=1, pty=True))
    assert state["ended_by"]["by"] == "limit" and "wall_s" in state["error"]["message"]
    assert state["content"] == "before\n"


def test_RB_007_output_printed_during_an_abort_is_kept(desk: Desk) -> None:
    script = "trap 'echo cleaning; exit 3' TERM; echo up; while :; do sleep 0.05; done"
    handle = desk.spawn(sh=script, pty=True)
    desk.fetch(handle, wait="pattern", pattern="up", cursor=0, view="tail", max_bytes=0)
    state = desk.abort(handle, grace_ms=5000)
    # The shell may report that the same signal ended the sleep.
    lines = state["content"].splitlines()
    assert (lines[0], lines[-1]) == ("up", "cleaning") and state["exit"] == {"code": 3}
