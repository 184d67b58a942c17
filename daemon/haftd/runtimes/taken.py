"""Whether a program has taken what was typed on its terminal.

Rules: the kernel is asked: how much is unread, and, by inotify, when something was read. The end of
a terminal counts as read: nobody will read any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import struct
import termios

import trio

__all__ = ["Reads", "unread_bytes"]

_IN_ACCESS = 1
_INT = struct.Struct("i")
_libc = ctypes.CDLL(None, use_errno=True)


def unread_bytes(slave: str) -> int:
    """How much of what was typed is still unread; 0 when the terminal is gone."""
    try:
        fd = os.open(slave, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        # A poll of the terminal makes the kernel hand over what is on its way to it.
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(0)
        (unread,) = _INT.unpack(fcntl.ioctl(fd, termios.FIONREAD, bytes(_INT.size)))
        return int(unread)
    except OSError:
        return 0
    finally:
        os.close(fd)


class Reads:
    """The reads of one terminal, as events; there is one only while somebody waits for them."""

    def __init__(self, slave: str) -> None:
        fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if fd >= 0 and _libc.inotify_add_watch(fd, os.fsencode(slave), _IN_ACCESS) < 0:
            os.close(fd)
            fd = -1
        self._fd: int = fd

    def __enter__(self) -> Reads:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def clear(self) -> None:
        """Forget the reads that were."""
        if self._fd >= 0:
            with contextlib.suppress(BlockingIOError):
                os.read(self._fd, 4096)

    async def wait(self) -> None:
        """Wait for the next read."""
        if self._fd >= 0:
            await trio.lowlevel.wait_readable(self._fd)
        else:  # No instance of inotify is to be had: the patience alone decides.
            await trio.sleep_forever()
