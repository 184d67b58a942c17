"""The combination of several waits, and the parsing of their targets."""

from __future__ import annotations

import errno
import os
import termios
import tty
from collections.abc import Mapping, Sequence, Set

import pytest

from haftd.host.input_state import read_state
from haftd.host.input_state.thread_wait import ThreadState
from haftd.host.input_state.wait_snapshot import Wait, WaitSnapshot, find_related
from haftd.host.process.identity import Stat
from haftd.host.tty import pseudo_terminal


def snapshot(
    members: Sequence[int] = (),
    processes: Mapping[int, Stat] | None = None,
    outward: Set[int] = frozenset(),
) -> WaitSnapshot:
    """Return a snapshot with these parts."""
    snapshot = WaitSnapshot()
    snapshot.members += members
    snapshot.processes.update(processes or {})
    snapshot.outward |= outward
    return snapshot


def told(*seen: ThreadState, look: WaitSnapshot | None = None) -> read_state.ReadState:
    """Return the combined state of these waits, each of its own process: 1, 2 …"""
    look = WaitSnapshot() if look is None else look
    found = [Wait(pid, pid, one) for pid, one in enumerate(seen, 1)]
    return read_state._make_reads(look, found, "key", 500)


def test_of_timed_waits_the_longest_counts() -> None:
    assert told(ThreadState("watches", 10), ThreadState("watches", 30)).within_ms == 30
    assert told(ThreadState("reads"), ThreadState("watches", 30)).within_ms == 500
    assert told(ThreadState("watches"), ThreadState("watches", 30)).within_ms is None


def test_a_plain_reader_decides_that_nothing_is_relayed_and_no_loop_waits() -> None:
    look = snapshot(outward={1})
    assert told(ThreadState("watches"), look=look).relays
    assert not told(ThreadState("watches"), ThreadState("reads"), look=look).relays
    assert told(ThreadState("watches", loops=True)).loops
    assert not told(ThreadState("watches", loops=True), ThreadState("reads")).loops


def processes(*those: tuple[int, int, int]) -> dict[int, Stat]:
    """Processes by pid, parent and group."""
    return {
        pid: Stat(pid, "S", parent, group, session=1, flags=0, reaped=0, ticks=pid)
        for pid, parent, group in those
    }


def test_a_foreground_grandchild_is_work_of_the_waiter() -> None:
    look = snapshot(members=[1, 3], processes=processes((1, 0, 1), (2, 1, 1), (3, 2, 1)))
    assert told(ThreadState("reads"), look=look).at_work
    look = snapshot(members=[1, 3], processes=processes((3, 2, 1)))
    assert not told(ThreadState("reads"), look=look).at_work


def test_other_jobs_are_unrelated_to_the_foreground() -> None:
    """A shell (2) below another program (1), its job (3) with its child (4), and background
    processes (5, 6)."""
    known = processes((1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 3, 4), (5, 2, 5), (6, 5, 5))
    front = find_related(snapshot(processes=known), 3)
    assert sorted(one.pid for one in front) == [1, 2, 3, 4]
    assert len(find_related(snapshot(processes=known), None)) == 6
    assert find_related(snapshot(processes=known), 7) == []


@pytest.mark.parametrize(
    ("least", "tenths", "patience_ms"), [(1, 0, None), (1, 5, None), (0, 5, 500), (0, 0, 0)]
)
def test_a_read_without_a_minimum_times_out(
    least: int, tenths: int, patience_ms: int | None
) -> None:
    """With a minimum of bytes the time is that between two of them."""
    master, slave = os.openpty()
    try:
        tty.setraw(slave)
        modes = termios.tcgetattr(slave)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = least, tenths
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        assert read_state._read_kind(slave) == ("key", patience_ms)
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize(
    ("error", "is_empty"), [(None, False), (PermissionError, False), (ProcessLookupError, True)]
)
def test_another_users_process_group_is_not_empty(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError] | None, is_empty: bool
) -> None:
    def signal(group: int, number: int) -> None:
        if error is not None:
            raise error(errno.ESRCH if error is ProcessLookupError else errno.EPERM, "")

    monkeypatch.setattr(os, "killpg", signal)
    assert pseudo_terminal.is_empty_group(7) == is_empty
