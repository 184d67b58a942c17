"""Callbacks for readable descriptors: one task of the loop waits for all of them.

A callback must not raise. Call `unwatch` before a descriptor is closed. `get_call_after` saves a
pass of the loop for the consequences of several callbacks, `call_now` one before a wait for output
that may be there already.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import trio

_MAX_EVENTS = 64
"""Callbacks between two passes of the loop."""


T = TypeVar("T")


class LoopLocal(Generic[T]):
    """One value per trio run, made on first use."""

    __slots__ = ("_make", "_var")

    def __init__(self, name: str, make: Callable[[], T]) -> None:
        self._var: trio.lowlevel.RunVar[T] = trio.lowlevel.RunVar(name)
        self._make = make

    def get(self) -> T:
        """Return the value; raise RuntimeError outside a run."""
        try:
            return self._var.get()
        except LookupError:
            value = self._make()
            self._var.set(value)
            return value


class _Watch:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self.after: list[Callable[[], None]] | None = None
        """Calls after the callbacks that run now; None while none runs."""
        trio.lowlevel.spawn_system_task(self._run)

    def add(self, fd: int, callback: Callable[[], None]) -> None:
        self._epoll.register(fd, select.EPOLLIN)
        self._callbacks[fd] = callback

    def remove(self, fd: int) -> None:
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    async def _run(self) -> None:
        with self._epoll:
            fd = self._epoll.fileno()
            while True:
                await trio.lowlevel.wait_readable(fd)
                self.call_back([ready for ready, _ in self._epoll.poll(0, _MAX_EVENTS)])

    def call_after(self, call: Callable[[], None]) -> bool:
        if self.after is None:
            return False
        self.after.append(call)
        return True

    def call_back(self, fds: Iterable[int]) -> None:
        """Call the callbacks of these descriptors, then all that `call_after` was given meanwhile."""
        after: list[Callable[[], None]] = []
        self.after = after
        for fd in fds:
            # An earlier callback may have ended this watch.
            if (callback := self._callbacks.get(fd)) is not None:
                callback()
        self.after = None
        for call in after:
            call()


_watch = LoopLocal("readable descriptors", _Watch)


def watch(fd: int, callback: Callable[[], None]) -> None:
    """Call `callback` in each pass in which `fd` is readable, until `unwatch`; raise OSError."""
    _watch.get().add(fd, callback)


def call_now(fds: Iterable[int]) -> None:
    """Call the callbacks of those descriptors that are watched, readable or not, unless callbacks
    run now."""
    watch = _watch.get()
    if watch.after is None:
        watch.call_back(fds)


def get_call_after() -> Callable[[Callable[[], None]], bool]:
    """Return the function of this trio run that calls another one after the callbacks that run now, once;
    it returns False, and calls nothing, if no callbacks run."""
    return _watch.get().call_after


def unwatch(fd: int) -> None:
    _watch.get().remove(fd)


class LateEvent:
    """As `trio.Event`, in a quarter of the memory while no task waits."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: trio.Event | None = None

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        if self._is_set:
            await trio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()
