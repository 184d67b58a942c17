"""That a program has read what was typed is told by the kernel, and costs nobody's time."""

from __future__ import annotations

import os
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from haftd.runtimes.taken import Reads, unread_bytes


@pytest.fixture
def terminal() -> Iterator[tuple[int, int, str]]:
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, slave, os.ttyname(slave)
    os.close(master)
    os.close(slave)


async def test_a_read_is_told_to_who_waits_for_it(terminal: tuple[int, int, str]) -> None:
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


async def test_of_two_terminals_each_has_its_own_reads(terminal: tuple[int, int, str]) -> None:
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
            with trio.move_on_after(0) as patience:
                await one.wait()
            assert patience.cancelled_caught
    finally:
        os.close(master)
        os.close(slave)


async def test_to_stop_watching_holds_nobody_up(terminal: tuple[int, int, str]) -> None:
    """Closing an instance of inotify may take 15 ms; one is kept, and the watches come and go."""
    taken, instances = [], set[tuple[str, ...]]()
    for _ in range(20):
        with Reads(terminal[2]):
            began = time.monotonic()
        taken.append(time.monotonic() - began)
        links = (os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
        instances.add(tuple(link for link in links if "inotify" in link))
    assert sorted(taken)[10] < 0.002
    assert len(instances) == 1 and len(instances.pop()) == 1


async def test_what_cannot_be_watched_is_waited_for_in_vain() -> None:
    with Reads("/nowhere") as reads, trio.move_on_after(0.01) as patience:
        await reads.wait()
    assert patience.cancelled_caught
