"""A terminal that no process has open: nothing spins, and later output is not missed."""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from haftd.host import pump
from haftd.host.tty import pseudo_terminal
from haftd.host.tty.hangup import TerminalChanges, is_hung_up
from tests.patience import PATIENCE_S


class Terminal:
    """A terminal whose other end is opened and closed at will."""

    def __init__(self) -> None:
        self.master, self.slave = pseudo_terminal.open_terminal(24, 80)
        self.got = bytearray()
        self.is_over = False
        self._came = trio.Event()

    def open(self) -> int:
        return os.open(self.slave, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)

    def say(self, data: bytes) -> None:
        """Print `data` from a program that has the terminal open for just that."""
        fd = self.open()
        os.write(fd, data)
        os.close(fd)

    async def pump(self) -> None:
        await pump.pump(self.master, self._take, is_final=lambda: self.is_over)

    def _take(self, data: bytes) -> None:
        self.got += data
        self._came.set()
        self._came = trio.Event()

    async def until(self, output: bytes) -> None:
        """Wait until this is all the output, and all tasks sleep."""
        with trio.fail_after(PATIENCE_S):
            while len(self.got) < len(output):
                await self._came.wait()
            await wait_all_tasks_blocked()
        assert self.got == output


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    os.close(terminal.master)


async def until_asleep() -> None:
    """Wait until all tasks sleep, which is never where a task is woken again and again."""
    with trio.fail_after(PATIENCE_S):
        await wait_all_tasks_blocked()


async def test_the_pump_goes_on_when_the_terminal_is_opened_again(terminal: Terminal) -> None:
    async with trio.open_nursery() as nursery:
        terminal.say(b"a")
        nursery.start_soon(terminal.pump)
        for count in range(1, 5):
            await terminal.until(b"a" * count)
            assert is_hung_up(terminal.master)
            terminal.say(b"a")
        await terminal.until(b"aaaaa")
        fd = terminal.open()
        await until_asleep()
        os.write(fd, b"bc")
        await terminal.until(b"aaaaabc")
        assert not is_hung_up(terminal.master)
        terminal.is_over = True
        os.close(fd)  # This end is final: the pump returns, and so does the nursery.


async def test_a_final_end_ends_a_pump_that_ignores_hangups(
    terminal: Terminal,
) -> None:
    async with trio.open_nursery() as nursery:
        terminal.say(b"first")
        nursery.start_soon(terminal.pump)
        await terminal.until(b"first")
        terminal.is_over = True
        terminal.say(b", last")
    assert terminal.got == b"first, last"


async def test_a_writer_sleeps_until_the_terminal_is_read_again(terminal: Terminal) -> None:
    line = b"x" * 99 + b"\n"
    attributes = termios.tcgetattr(terminal.master)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(terminal.master, termios.TCSANOW, attributes)
    terminal.say(b"-")
    writer = pump.Writer(terminal.master)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        nursery.start_soon(terminal.pump)
        while not writer.waiting:
            writer.put(line)
            await until_asleep()
        fd = terminal.open()
        read = 0
        while writer.waiting:
            while select.select([fd], [], [], 0)[0]:
                read += len(os.read(fd, 4096))
            await until_asleep()
        assert read > 0
        os.close(fd)
        nursery.cancel_scope.cancel()


async def test_each_waiter_is_woken_and_none_is_kept(terminal: Terminal) -> None:
    terminal.say(b"-")
    woken = []

    async def wait() -> None:
        with TerminalChanges(terminal.master) as changes:
            await changes.next()
            woken.append(True)

    for _ in range(2):
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await until_asleep()
            assert not woken
            terminal.say(b"-")
        assert len(woken) == 3
        woken.clear()


async def test_without_a_watch_descriptor_the_terminal_is_polled(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    def none_left() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(select, "epoll", none_left)
    terminal.say(b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(terminal.pump)
        await trio.sleep(0.5)
        terminal.say(b"b")
        await trio.sleep(1)
        assert terminal.got == b"ab"
        nursery.cancel_scope.cancel()
