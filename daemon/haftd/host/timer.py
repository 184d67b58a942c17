"""High-resolution timer: trio's deadlines have epoll's milliseconds.

Each trio run has one timerfd, for its earliest callback. If the kernel grants none, no callback is
called: callers also set a trio deadline.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Callable

import trio

from haftd.host.readiness import LoopLocal

LOOP_RESOLUTION_S = 0.001
"""Resolution of trio's deadlines, which are rounded up; use them from this delay on."""

_CLOCK_MONOTONIC = 1
_NEVER = float("inf")
_SPEC = struct.Struct("=qqqq")
_NS = 1_000_000_000
_libc = ctypes.CDLL(None, use_errno=True)


class _Timer:
    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        self._callbacks: dict[Callable[[], object], float] = {}
        self._armed = _NEVER
        if self.fd >= 0:
            trio.lowlevel.spawn_system_task(self._run)

    def set(self, callback: Callable[[], object], when: float) -> None:
        self._callbacks[callback] = when
        if when < self._armed:
            self._arm(when)

    def _arm(self, when: float) -> None:
        self._armed = when
        # Zero would disarm the timer; a past time fires at once.
        ns = max(1, int((when - time.monotonic()) * _NS))
        _libc.timerfd_settime(self.fd, 0, _SPEC.pack(0, 0, ns // _NS, ns % _NS), None)

    async def _run(self) -> None:
        try:
            while True:
                await trio.lowlevel.wait_readable(self.fd)
                try:
                    os.read(self.fd, 8)
                except BlockingIOError:
                    continue  # set to a later time after the descriptor became readable
                self._armed = _NEVER
                now = time.monotonic()
                for callback in [due for due, when in self._callbacks.items() if when <= now]:
                    del self._callbacks[callback]
                    callback()
                if self._callbacks and (first := min(self._callbacks.values())) < self._armed:
                    self._arm(first)
        finally:
            os.close(self.fd)
            self.fd = -1


_timer = LoopLocal("timer", _Timer)


def call_in(seconds: float, callback: Callable[[], object]) -> None:
    """Call `callback` once after `seconds`; an equal callback's time is replaced.

    No cancellation: the callback runs even if its task has ended. It must not raise.
    """
    timer = _timer.get()
    if timer.fd >= 0:
        timer.set(callback, time.monotonic() + seconds)
