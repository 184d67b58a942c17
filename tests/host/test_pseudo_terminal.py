from __future__ import annotations

import os
import termios
from collections.abc import Iterator

import pytest

from haftd.host.tty import pseudo_terminal
from tests.host.launch_helpers import open_fds, plan, read_line, running


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    master, slave = pseudo_terminal.open_terminal(24, 80)
    yield master, slave
    os.close(master)


def test_a_terminal_has_its_size_from_the_start() -> None:
    before = open_fds()
    master, slave = pseudo_terminal.open_terminal(50, 132)
    try:
        assert os.get_terminal_size(master) == (132, 50)
        other = os.open(slave, os.O_RDWR | os.O_NOCTTY)
        assert os.get_terminal_size(other) == (132, 50)
        os.close(other)
    finally:
        os.close(master)
    assert open_fds() == before


@pytest.mark.parametrize("size", [(0, 80), (24, 0), (-1, 80), (65_536, 80), (24, 65_536)])
def test_an_invalid_size_is_refused_and_changes_nothing(
    terminal: tuple[int, str], size: tuple[int, int]
) -> None:
    before = open_fds()
    with pytest.raises(ValueError, match="rows and columns"):
        pseudo_terminal.set_size(terminal[0], *size)
    assert os.get_terminal_size(terminal[0]) == (80, 24)
    with pytest.raises(ValueError, match="rows and columns"):
        pseudo_terminal.open_terminal(*size)
    assert open_fds() == before


def test_the_master_neither_blocks_nor_is_inherited(terminal: tuple[int, str]) -> None:
    assert not os.get_blocking(terminal[0]) and not os.get_inheritable(terminal[0])


def test_modes_are_those_of_the_slave(terminal: tuple[int, str]) -> None:
    master, slave = terminal
    modes = pseudo_terminal.modes(master)
    assert modes == pseudo_terminal.Modes(canonical=True, echo=True, maps_cr=True, eof=b"\x04")
    other = os.open(slave, os.O_RDWR | os.O_NOCTTY)
    attributes = termios.tcgetattr(other)
    attributes[0] &= ~termios.ICRNL
    attributes[6][termios.VEOF] = b"\0"
    termios.tcsetattr(other, termios.TCSANOW, attributes)
    assert pseudo_terminal.modes(master).eof == b""
    attributes[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(other, termios.TCSANOW, attributes)
    modes = pseudo_terminal.modes(master)
    assert not (modes.canonical or modes.echo or modes.maps_cr or modes.eof)
    assert modes.signals
    attributes[3] &= ~termios.ISIG
    termios.tcsetattr(other, termios.TCSANOW, attributes)
    assert not pseudo_terminal.modes(master).signals
    os.close(other)


def test_modes_of_a_non_terminal_are_an_os_error() -> None:
    read, write = os.pipe()
    with pytest.raises(OSError, match="ioctl"):
        pseudo_terminal.modes(read)
    os.close(read)
    os.close(write)


def test_erase_removes_a_whole_character(terminal: tuple[int, str]) -> None:
    master, slave = terminal
    other = os.open(slave, os.O_RDWR | os.O_NOCTTY)
    os.write(master, "aé\x7fb\n".encode())
    assert os.read(other, 100) == b"ab\n"
    os.close(other)


def test_a_terminal_without_a_session_has_no_foreground(terminal: tuple[int, str]) -> None:
    assert pseudo_terminal.foreground(terminal[0]) is None


def test_a_line_over_the_maximum_is_cut_silently(terminal: tuple[int, str]) -> None:
    """The reason for the limit."""
    master, slave = terminal
    other = os.open(slave, os.O_RDWR | os.O_NOCTTY)
    for length in (pseudo_terminal.MAX_LINE, pseudo_terminal.MAX_LINE + 100):
        sent = b"x" * length + b"\n"
        while sent:
            sent = sent[os.write(master, sent) :]
            try:
                while True:
                    os.read(master, 65_536)  # the echo, which would fill up
            except BlockingIOError:
                pass
        assert len(os.read(other, 65_536)) == pseudo_terminal.MAX_LINE + 1
    os.close(other)


async def test_the_foreground_is_the_running_job() -> None:
    spec = plan("bash", "-c", "echo $$; set -m; sh -c 'echo $$; read x'; read x", terminal=True)
    async with running(spec) as (it, _):
        assert it.master is not None
        assert await read_line(it) == str(it.pid)
        job = int(await read_line(it))
        assert pseudo_terminal.foreground(it.master) == job != it.pid


async def test_without_processes_there_is_no_foreground() -> None:
    async with running(plan("true", terminal=True)) as (it, _):
        await it.wait_exit()
        assert it.master is not None
        assert pseudo_terminal.foreground(it.master) is None


async def test_a_new_size_is_signalled() -> None:
    spec = plan("bash", "-c", "trap 'stty size' WINCH; echo up; sleep 60 & wait", terminal=True)
    async with running(spec) as (it, _):
        assert await read_line(it) == "up"
        assert it.master is not None
        pseudo_terminal.set_size(it.master, 10, 20)
        assert await read_line(it) == "10 20"
