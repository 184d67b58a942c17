"""What several waits come to when they are put together, and how what they wait for is read."""

from __future__ import annotations

import ctypes
import errno
import os
import termios
import tty

import pytest

from haftd.host import reads, waits
from haftd.host.waits import Blocked


def told(*seen: Blocked, look: reads._Look | None = None) -> reads.ReadState:
    """What these waits come to, each of a process of its own: 1, 2 …"""
    look = reads._Look() if look is None else look
    found = [reads._Wait(pid, pid, one) for pid, one in enumerate(seen, 1)]
    return reads._reads(look, found, "key", 500)


def test_of_waits_that_all_end_the_longest_counts() -> None:
    assert told(Blocked("watches", 10), Blocked("watches", 30)).within_ms == 30
    assert told(Blocked("reads"), Blocked("watches", 30)).within_ms == 500
    assert told(Blocked("watches"), Blocked("watches", 30)).within_ms is None


def test_who_only_reads_decides_that_nothing_is_passed_on_and_no_loop_waits() -> None:
    look = reads._Look(outward={1})
    assert told(Blocked("watches"), look=look).relays
    assert not told(Blocked("watches"), Blocked("reads"), look=look).relays
    assert told(Blocked("watches", loops=True)).loops
    assert not told(Blocked("watches", loops=True), Blocked("reads")).loops


def test_a_grandchild_in_the_foreground_is_work_of_who_waits_too() -> None:
    look = reads._Look(members=[1, 3], parents={1: 0, 2: 1, 3: 2})
    assert told(Blocked("reads"), look=look).at_work
    assert not told(Blocked("reads"), look=reads._Look(members=[1, 3], parents={3: 2})).at_work


def test_a_set_is_read_bit_by_bit() -> None:
    bits = ctypes.create_string_buffer(bytes([0b1001, 0, 0b10, 0xFF]))
    at = ctypes.addressof(bits)
    assert waits._selected(os.getpid(), at, 18) == [0, 3, 17]
    assert waits._selected(os.getpid(), 0, 18) == []
    with pytest.raises(waits._Unclear):
        waits._selected(os.getpid(), at, waits._MOST_WATCHED + 1)


def test_what_is_there_in_part_is_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pread", lambda fd, size, at: b"x" * (size - 1))
    with pytest.raises(waits._Unclear):
        waits._memory(os.getpid(), 0x1000, 8)


def test_a_descriptor_that_stands_for_another_file_by_now_is_unclear() -> None:
    """An epoll goes on watching the file that it was given, whatever has its number."""
    r, w = os.pipe()
    try:
        inode = os.fstat(r).st_ino
        assert waits._file(os.getpid(), r, inode, lambda what: False).kind == "pipe"
        assert waits._file(os.getpid(), r, inode + 1, lambda what: False).kind == "unclear"
    finally:
        os.close(r)
        os.close(w)


@pytest.mark.parametrize(
    ("least", "tenths", "patience_ms"), [(1, 0, None), (1, 5, None), (0, 5, 500), (0, 0, 0)]
)
def test_a_read_gives_up_where_it_needs_no_byte(
    least: int, tenths: int, patience_ms: int | None
) -> None:
    """With a least number of bytes the time is that between two of them."""
    master, slave = os.openpty()
    try:
        tty.setraw(slave)
        modes = termios.tcgetattr(slave)
        modes[6][termios.VMIN], modes[6][termios.VTIME] = least, tenths
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        assert reads._kind(slave) == ("key", patience_ms)
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize(
    ("error", "is_empty"), [(None, False), (PermissionError, False), (ProcessLookupError, True)]
)
def test_a_group_of_another_user_s_is_not_empty(
    monkeypatch: pytest.MonkeyPatch, error: type[OSError] | None, is_empty: bool
) -> None:
    def signal(group: int, number: int) -> None:
        if error is not None:
            raise error(errno.ESRCH if error is ProcessLookupError else errno.EPERM, "")

    monkeypatch.setattr(os, "killpg", signal)
    assert reads._is_empty(7) == is_empty
