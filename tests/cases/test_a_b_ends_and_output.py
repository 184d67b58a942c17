from __future__ import annotations

import re
import sys

import pytest

from tests.cases.conftest import Desk, text
from tests.wire import Refused


@pytest.mark.parametrize(
    ("sh", "pty", "code"),
    [
        ("sleep 300 & echo done", False, 0),
        ("sleep 300 </dev/null >/dev/null & echo done", False, 0),
        ("sleep 300 & echo done; exit 1", True, 1),
    ],
)
def test_RB_001_a_background_child_does_not_delay_the_end(
    desk: Desk, sh: str, pty: bool, code: int
) -> None:
    handle = desk.spawn(sh=sh, pty=pty)
    state = desk.done(handle)
    assert state["exit"] == {"code": code}
    assert "done" in text(state)
    if pty:
        # The kernel hangs up the terminal's foreground job when its leader ends.
        return
    assert len(state["left_behind"]) == 1
    desk.left_behind(handle, [f"sleep {sh.split()[1]}"])
    desk.complete(handle)
    closed = desk.abort(handle)
    assert "left_behind" not in closed or closed["left_behind"] == []


def test_RB_002_output_of_a_background_child_is_detached(desk: Desk) -> None:
    handle = desk.spawn(sh="(while :; do echo tick; sleep 0.1; done) & sleep 1; echo fg-done")
    state = desk.done(handle)
    assert state["exit"] == {"code": 0} and "fg-done" in text(state)
    assert state["left_behind"]
    state = desk.complete(handle)
    assert desk.fetch(handle, wait="quiet", quiet_ms=700)["cursor"] == state["cursor"]
    try:
        desk.abort(handle)
    except Refused as refused:
        # The ticker was ended by its broken pipe before.
        assert refused.code == -32008


@pytest.mark.parametrize("rounds", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_RB_006_output_of_a_process_that_exits_at_once_is_kept(desk: Desk, rounds: int) -> None:
    for _ in range(rounds):
        state = desk.done(desk.spawn(sh="echo boom >&2; exit 1"))
        assert state["content"] == "boom\n" and state["exit"] == {"code": 1}
    state = desk.done(desk.spawn(sys.executable, "-c", "import no_such_module_x"))
    assert "no_such_module_x" in state["content"]


def test_RB_007_output_before_an_abort_is_kept(desk: Desk) -> None:
    handle = desk.spawn(sh="i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done")
    desk.fetch(handle, wait="pattern", pattern="line 5", cursor=0, view="tail", max_bytes=0)
    state = desk.abort(handle)
    assert state["ended_by"]["by"] == "abort"
    assert re.match(r"line 1\nline 2\nline 3\nline 4\nline 5\n", state["content"])
    assert desk.fetch(handle)["content"] == state["content"]


def test_RB_007_output_before_a_time_limit_is_kept(desk: Desk) -> None:
    state = desk.done(desk.spawn(sh="echo before; sleep 60", timeout_s=1))
    assert state["ended_by"]["by"] == "limit" and "wall_s" in state["error"]["message"]
    assert state["content"] == "before\n"
