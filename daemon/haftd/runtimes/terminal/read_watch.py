"""Reads of a terminal by its process: the kernel's count of unread bytes, and inotify."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import termios

import trio

_IN_ACCESS = 1
_INT = struct.Struct("i")
_EVENT = struct.Struct("iIII")
_OVERFLOW = -1
_libc = ctypes.CDLL(None, use_errno=True)


def unread_bytes(slave: str) -> int:
    """Return the number of unread bytes; 0 without a terminal."""
    try:
        fd = os.open(slave, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return 0
    try:
        # Polling makes the kernel deliver pending input.
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(0)
        (unread,) = _INT.unpack(fcntl.ioctl(fd, termios.FIONREAD, bytes(_INT.size)))
        return int(unread)
    except OSError:
        return 0
    finally:
        os.close(fd)


class _Watcher:
    """The loop's inotify instance: closing one blocks up to 15 ms, removing a watch does not."""

    def __init__(self) -> None:
        self.fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._reads: dict[int, Reads] = {}
        if self.fd >= 0:
            trio.lowlevel.spawn_system_task(self._run)

    def watch(self, reads: Reads, path: str) -> int:
        """Add a watch; return its number, -1 on failure."""
        if self.fd < 0:
            return -1
        number: int = _libc.inotify_add_watch(self.fd, os.fsencode(path), _IN_ACCESS)
        if number >= 0:
            self._reads[number] = reads
        return number

    def leave(self, number: int) -> None:
        del self._reads[number]
        _libc.inotify_rm_watch(self.fd, number)

    async def _run(self) -> None:
        try:
            while True:
                await trio.lowlevel.wait_readable(self.fd)
                data = os.read(self.fd, 65_536)
                # Events of the file itself have no name.
                for number, *_ in _EVENT.iter_unpack(data):
                    if reads := self._reads.get(number):
                        reads.came.set()
                    elif number == _OVERFLOW:
                        for reads in self._reads.values():
                            reads.came.set()
        finally:
            os.close(self.fd)
            self.fd = -1


_watcher: trio.lowlevel.RunVar[_Watcher] = trio.lowlevel.RunVar("reads of terminals")


def _the_watcher() -> _Watcher:
    try:
        return _watcher.get()
    except LookupError:
        watcher = _Watcher()
        if watcher.fd >= 0:
            _watcher.set(watcher)
        return watcher


class Reads:
    """Reads of one terminal, watched while entered; one object a terminal."""

    def __init__(self, slave: str) -> None:
        self.came = trio.Event()
        self._slave = slave
        self._watcher: _Watcher | None = None
        self._number = -1

    def __enter__(self) -> Reads:
        self._watcher = _the_watcher()
        self._number = self._watcher.watch(self, self._slave)
        return self

    def __exit__(self, *_: object) -> None:
        if self._watcher is not None and self._number >= 0:
            self._watcher.leave(self._number)

    def clear(self) -> None:
        if self.came.is_set():
            self.came = trio.Event()

    async def wait(self) -> None:
        if self._number >= 0:
            await self.came.wait()
        else:  # not watchable: the timeout decides
            await trio.sleep_forever()
