"""The person's own terminal: taken for an attachment, and restored on every exit.

A signal is only recorded, and wakes `wait`. The terminal is written through a non-blocking
description of its own, so a stalled terminal delays neither signals nor keys; `drop_late_messages`
is for stderr, after the exit. Code that ignores a terminating signal for `_OVERDUE_S` is
interrupted by `Overdue`, and the exit restores the terminal.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_CHUNK = 1 << 16
_LEAVING_S = 1.0
_OVERDUE_S = 3.0
"""Longer than leaving takes: `_LEAVING_S` twice."""

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
_OTHERS = (signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP)


class Overdue(BaseException):
    """A terminating signal was ignored for too long."""


@contextmanager
def drop_late_messages(seconds: float = _LEAVING_S) -> Iterator[None]:
    """Discard stderr from the moment when it has taken nothing for `seconds`.

    For lines after an `OwnTerminal`, which has consumed the signal: a stalled terminal may have had
    just the room for the bytes that restore it.
    """
    handler = signal.signal(signal.SIGALRM, _discard_full_stderr)
    # Repeated: an alarm before the write begins interrupts nothing.
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def _discard_full_stderr(number: int, _: FrameType | None) -> None:
    """Point descriptor 2 at /dev/null if it has no room. Python then repeats the interrupted write."""
    if not select.select([], [2], [], 0)[1]:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


class OwnTerminal:
    """A person's terminal in raw mode, for the length of a `with` block."""

    def __init__(self, keys: int, screen: int) -> None:
        """Read and set `keys`, write `screen`; both are terminals."""
        self._keys = keys
        self._inherited = screen
        self._screen = screen
        self._saved: list[Any] = termios.tcgetattr(keys)
        self._raw = False
        self._backlog = bytearray()
        self._handlers: list[tuple[signal.Signals, Any]] = []
        self._arrived: set[int] = set()
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._former_wakeup_fd = -1
        self._poll = select.poll()
        self.is_hung_up = False
        """The terminal has hung up."""
        self.has_dropped_output = False
        """True once a stalled terminal has lost output."""

    def __enter__(self) -> OwnTerminal:
        try:
            self._screen = os.open(
                os.ttyname(self._inherited),
                os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY,
            )
        except OSError:
            # The terminal of another user (su), or without a name in /dev: use the inherited
            # descriptor.
            self._screen = self._inherited
        self._former_wakeup_fd = signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        for number in (*_ENDING, *_OTHERS):
            if signal.getsignal(number) is not signal.SIG_IGN or number in _OTHERS:
                self._handlers.append((number, signal.signal(number, self._note)))
        self._handlers.append((signal.SIGALRM, signal.signal(signal.SIGALRM, self._overdue)))
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.give_back()
        for number, handler in self._handlers:
            # C-\ may be on its way, typed to detach just as the handle ended; in cooked mode it
            # raises SIGQUIT.
            signal.signal(number, signal.SIG_IGN if number == signal.SIGQUIT else handler)
        signal.set_wakeup_fd(self._former_wakeup_fd)
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        if self._screen != self._inherited:
            os.close(self._screen)

    def take(self) -> None:
        """Set raw mode; keep typed-ahead input."""
        self._raw = True
        try:
            tty.setraw(self._keys, termios.TCSANOW)
        except termios.error:
            self.is_hung_up = True

    def give_back(self) -> None:
        if self._raw:
            try:
                termios.tcsetattr(self._keys, termios.TCSANOW, self._saved)
            except termios.error:
                self.is_hung_up = True
            self._raw = False

    def size(self) -> tuple[int, int] | None:
        try:
            cols, rows = os.get_terminal_size(self._inherited)
        except OSError:
            return None
        return (rows, cols) if rows > 0 and cols > 0 else None

    def _note(self, number: int, _: FrameType | None) -> None:
        if number in _ENDING and self._arrived.isdisjoint(_ENDING):
            signal.setitimer(signal.ITIMER_REAL, _OVERDUE_S)
        self._arrived.add(number)

    def _overdue(self, number: int, _: FrameType | None) -> None:
        raise Overdue

    @property
    def ended_by(self) -> int | None:
        """Return the terminating signal; a lost terminal counts as HUP."""
        ending = next((number for number in _ENDING if number in self._arrived), None)
        return signal.SIGHUP if ending is None and self.is_hung_up else ending

    def take_signal(self, number: signal.Signals) -> bool:
        """True once for each signal that came."""
        if number not in self._arrived:
            return False
        self._arrived.discard(number)
        return True

    @property
    def is_stalled(self) -> bool:
        return bool(self._backlog)

    def write(self, data: bytes) -> None:
        """Write; `wait` writes the rest of the buffer."""
        self._backlog += data
        self._flush()

    def _flush(self) -> None:
        try:
            while self._backlog:
                del self._backlog[: os.write(self._screen, self._backlog[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            self.is_hung_up = True
            self._backlog.clear()

    def flush(self, seconds: float = _LEAVING_S, *, leaving: bool = False) -> None:
        """Wait at most `seconds` until all is written, and drop the rest.

        A signal ends the wait, but not when `leaving`: the bytes that restore the terminal come
        after the signal.
        """
        until = time.monotonic() + seconds
        while self._backlog and (leaving or self.ended_by is None):
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            self.wait(None, False, left_s)
        if self._backlog:
            self.has_dropped_output = True
            self._backlog.clear()
            self.write(b"\x18")  # ends a sequence that was cut

    def wait(self, other: int | None, other_is_full: bool, seconds: float | None) -> bytes:
        """Wait for keys, a signal, room to write, or the descriptor `other`; return the keys."""
        self._poll = select.poll()
        if other is not None:
            self._poll.register(self._keys, select.POLLIN)
            self._poll.register(other, select.POLLIN | (select.POLLOUT if other_is_full else 0))
        self._poll.register(self._wake_reader, select.POLLIN)
        if self._backlog:
            self._poll.register(self._screen, select.POLLOUT)
        keys = b""
        for fd, _ in self._poll.poll(None if seconds is None else seconds * 1000):
            if fd == self._wake_reader:
                os.read(self._wake_reader, _CHUNK)
            elif fd == self._keys:
                keys = self._read()
            elif fd == self._screen:
                self._flush()
        return keys

    def _read(self) -> bytes:
        try:
            keys = os.read(self._keys, _CHUNK)
        except OSError:
            keys = b""
        self.is_hung_up = self.is_hung_up or not keys
        return keys
