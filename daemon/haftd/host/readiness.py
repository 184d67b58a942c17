"""Callbacks for readable descriptors: one task of the loop waits for all of them. A callback must
not raise. `unwatch` comes before the descriptor is closed."""

from __future__ import annotations

import select
from collections.abc import Callable

import trio

_MAX_EVENTS = 64
"""Callbacks between two passes of the loop."""


class _Watch:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        trio.lowlevel.spawn_system_task(self._run)

    def add(self, fd: int, callback: Callable[[], None]) -> None:
        self._epoll.register(fd, select.EPOLLIN)
        self._callbacks[fd] = callback

    def remove(self, fd: int) -> None:
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    async def _run(self) -> None:
        with self._epoll:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                self._call_back()

    def _call_back(self) -> None:
        for fd, _ in self._epoll.poll(0, _MAX_EVENTS):
            # An earlier callback may have ended this watch.
            if (callback := self._callbacks.get(fd)) is not None:
                callback()


_watch: trio.lowlevel.RunVar[_Watch] = trio.lowlevel.RunVar("readable descriptors")


def _loop_watch() -> _Watch:
    try:
        return _watch.get()
    except LookupError:
        watch = _Watch()
        _watch.set(watch)
        return watch


def watch(fd: int, callback: Callable[[], None]) -> None:
    """Call `callback` in each pass in which `fd` is readable, until `unwatch`; raise OSError."""
    _loop_watch().add(fd, callback)


def unwatch(fd: int) -> None:
    """End the watch of `fd`, if any."""
    _loop_watch().remove(fd)
