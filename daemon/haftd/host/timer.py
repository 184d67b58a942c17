"""High-resolution timer: trio's deadlines have epoll's milliseconds.

Each trio run has one timerfd, for its earliest callback, called among the callbacks of readable
descriptors. If the kernel grants none, callers set a trio deadline.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Callable

import trio

from haftd.host import readiness

LOOP_RESOLUTION_S = 0.001
"""Resolution of trio's deadlines, which are rounded up; use them from this delay on."""

_CLOCK_MONOTONIC = 1  # linux/time.h
_NEVER = float("inf")
_SPEC = struct.Struct("=qqqq")  # itimerspec of timerfd_create(2)
_DISARMED = bytes(_SPEC.size)
_NS = 1_000_000_000
_libc = ctypes.CDLL(None, use_errno=True)


class _Timer:
    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        self._callbacks: dict[Callable[[], object], float] = {}
        self._armed = _NEVER
        if self.fd >= 0:
            readiness.watch(self.fd, self._call_due)
            trio.lowlevel.spawn_system_task(self._close_at_end)

    async def _close_at_end(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            os.close(self.fd)
            self.fd = -1

    def set(self, callback: Callable[[], object], when: float) -> None:
        self._callbacks[callback] = when
        if when < self._armed:
            self._arm(when)

    def cancel(self, callback: Callable[[], object]) -> None:
        if self._callbacks.pop(callback, None) is not None and not self._callbacks:
            self._armed = _NEVER
            _libc.timerfd_settime(self.fd, 0, _DISARMED, None)

    def _arm(self, when: float) -> None:
        self._armed = when
        # Zero would disarm the timer; a past time fires at once.
        ns = max(1, int((when - time.monotonic()) * _NS))
        _libc.timerfd_settime(self.fd, 0, _SPEC.pack(0, 0, ns // _NS, ns % _NS), None)

    def _call_due(self) -> None:
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return  # set to a later time after the descriptor became readable
        self._armed = _NEVER
        now = time.monotonic()
        for callback in [due for due, when in self._callbacks.items() if when <= now]:
            if self._callbacks.pop(callback, None) is not None:
                callback()
        if self._callbacks and (first := min(self._callbacks.values())) < self._armed:
            self._arm(first)


_timer = readiness.LoopLocal("timer", _Timer)


def call_in(seconds: float, callback: Callable[[], object]) -> bool:
    """Call `callback` once after `seconds`; an equal callback's time is replaced. The callback must
    not raise.

    Returns False without a timer, and then never calls.
    """
    timer = _timer.get()
    if timer.fd < 0:
        return False
    timer.set(callback, time.monotonic() + seconds)
    return True


def cancel(callback: Callable[[], object]) -> None:
    """Cancel a callback, if it is still to come: an idle loop is not woken."""
    _timer.get().cancel(callback)
