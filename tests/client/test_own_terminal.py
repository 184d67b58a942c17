"""The person's terminal: raw while taken, restored afterwards, and the signal that ends an attachment."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import termios
from collections.abc import Iterator

import pytest

from haft.cli.terminal.own_terminal import OwnTerminal


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """A terminal: the descriptor of the far end, and of the program's."""
    far, near = pty.openpty()
    yield far, near
    os.close(near)
    os.close(far)


def is_raw(descriptor: int) -> bool:
    return not termios.tcgetattr(descriptor)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)


def test_a_terminal_is_raw_while_taken_and_restored_afterwards(ends: tuple[int, int]) -> None:
    _, near = ends
    before = termios.tcgetattr(near)
    with OwnTerminal(near, near) as terminal:
        assert is_raw(near)
        terminal.give_back()
        assert termios.tcgetattr(near) == before
        terminal.take()
        assert is_raw(near)
    assert termios.tcgetattr(near) == before


def test_the_first_terminating_signal_ends_and_a_lost_terminal_counts_as_hup(
    ends: tuple[int, int],
) -> None:
    _, near = ends
    with OwnTerminal(near, near) as terminal:
        endings = [terminal.ended_by]
        terminal.is_hung_up = True
        endings.append(terminal.ended_by)
        signal.raise_signal(signal.SIGTERM)
        endings.append(terminal.ended_by)
        terminal.is_hung_up = False
        endings.append(terminal.ended_by)
    assert endings == [None, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM]


def test_a_signal_is_taken_once(ends: tuple[int, int]) -> None:
    _, near = ends
    before = signal.getsignal(signal.SIGWINCH)
    with OwnTerminal(near, near) as terminal:
        signal.raise_signal(signal.SIGWINCH)
        assert terminal.take_signal(signal.SIGWINCH)
        assert not terminal.take_signal(signal.SIGWINCH)
        assert terminal.ended_by is None
    assert signal.getsignal(signal.SIGWINCH) == before


def test_the_size_is_rows_and_columns_and_none_where_there_is_no_area(
    ends: tuple[int, int],
) -> None:
    far, near = ends
    with OwnTerminal(near, near) as terminal:
        assert terminal.size() is None
        termios.tcsetwinsize(far, (24, 80))
        assert terminal.size() == (24, 80)


def test_a_wait_ends_at_keys_and_when_the_other_side_can_go_on(ends: tuple[int, int]) -> None:
    far, near = ends
    own, other = socket.socketpair()
    with own, other, OwnTerminal(near, near) as terminal:

        def took(is_full: bool) -> tuple[bytes, bool]:
            """Return the keys, and whether the time had passed before an event."""
            polled: list[list[tuple[int, int]]] = []
            poll = select.poll

            class Recorded:
                def __init__(self) -> None:
                    self._poll = poll()
                    self.register = self._poll.register

                def poll(self, timeout: float | None) -> list[tuple[int, int]]:
                    polled.append(self._poll.poll(timeout))
                    return polled[-1]

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(select, "poll", Recorded)
                keys = terminal.wait(own.fileno(), is_full, 0.0)
            return keys, not polled[0]

        assert took(False) == (b"", True)
        assert took(True) == (b"", False)
        other.send(b"x")
        assert took(False) == (b"", False)
        assert own.recv(1) == b"x"
        os.write(far, b"k")
        assert took(False) == (b"k", False)
