"""A program's read of typed input, as the kernel reports."""

from __future__ import annotations

import os
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from haftd.runtimes.terminal.read_watch import Reads, unread_bytes
from tests.patience import PATIENCE_S


@pytest.fixture
def terminal() -> Iterator[tuple[int, int, str]]:
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, slave, os.ttyname(slave)
    os.close(master)
    os.close(slave)


def watches() -> list[int]:
    """Return the number of watches of each inotify instance."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        if path.is_symlink() and "inotify" in os.readlink(path):
            lines = Path("/proc/self/fdinfo", path.name).read_text().splitlines()
            found.append(sum(line.startswith("inotify wd:") for line in lines))
    return found


async def test_a_read_wakes_its_waiter(terminal: tuple[int, int, str]) -> None:
    master, slave, name = terminal
    for _ in range(3):
        os.write(master, b"typed")
        assert unread_bytes(name) == 5
        with Reads(name) as reads:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reads.wait)
                await trio.testing.wait_all_tasks_blocked()
                os.read(slave, 100)
        assert unread_bytes(name) == 0


async def test_each_of_two_terminals_has_its_own_reads(terminal: tuple[int, int, str]) -> None:
    master, slave = os.openpty()
    try:
        os.write(terminal[0], b"typed")
        with Reads(terminal[2]) as one, Reads(os.ttyname(slave)) as other:
            os.read(terminal[1], 100)
            await one.wait()
            with trio.move_on_after(0) as patience:
                await other.wait()
            assert patience.cancelled_caught
            one.clear()
            assert not one.came.is_set(), "what was is forgotten"
            with trio.move_on_after(0) as patience:
                await one.wait()
            assert patience.cancelled_caught
    finally:
        os.close(master)
        os.close(slave)


async def test_ending_a_watch_does_not_block(terminal: tuple[int, int, str]) -> None:
    """Closing an inotify instance may take 15 ms; one is kept, and the watches come and go."""
    master, slave = os.openpty()
    try:
        for _ in range(3):
            with Reads(terminal[2]):
                with Reads(os.ttyname(slave)):
                    assert watches() == [2]
                assert watches() == [1]
            assert watches() == [0]
    finally:
        os.close(master)
        os.close(slave)


async def test_a_cancelled_wait_leaves_nothing_watched(
    terminal: tuple[int, int, str],
) -> None:
    with trio.move_on_after(0), Reads(terminal[2]) as reads:
        await reads.wait()
    assert watches() == [0]


async def test_after_an_event_overflow_all_waiters_look_again(
    terminal: tuple[int, int, str],
) -> None:
    """Behind the kernel's queue limit only an overflow is reported."""
    others = [os.openpty() for _ in range(2)]
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    try:
        for _, slave in others:
            tty.setraw(slave)
        os.write(terminal[0], b"typed")
        with (
            Reads(terminal[2]) as reads,
            Reads(os.ttyname(others[0][1])) as one,
            Reads(os.ttyname(others[1][1])) as other,
        ):
            # Successive reads of one terminal count as one; and the loop has no turn meanwhile.
            for at in range(most + 2):
                master, slave = others[at % 2]
                os.write(master, b"x")
                os.read(slave, 1)
            os.read(terminal[1], 100)
            with trio.fail_after(PATIENCE_S):
                for each in (one, other, reads):
                    await each.wait()
    finally:
        for fd in (fd for pair in others for fd in pair):
            os.close(fd)


async def test_an_unwatchable_terminal_is_waited_for_in_vain() -> None:
    with Reads("/nowhere") as reads, trio.move_on_after(0.01) as patience:
        await reads.wait()
    assert patience.cancelled_caught
