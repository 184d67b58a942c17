"""Waking up in less than a millisecond: the loop's own timers are as coarse as its epoll.

Rules: one timer of the kernel for a loop, made when it is first wanted and closed with the loop. It
stands while somebody waits for it and no longer. Where there is none to be had nobody is woken:
whoever asks has a timer of the loop beside it.
"""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Callable

import trio

__all__ = ["LOOP_RESOLUTION_S", "call_in"]

LOOP_RESOLUTION_S = 0.001
"""What is further off is in good hands with the loop: it rounds up to whole ones of these."""

_CLOCK_MONOTONIC = 1
_NEVER = float("inf")
_SPEC = struct.Struct("=qqqq")
_NS = 1_000_000_000
_libc = ctypes.CDLL(None, use_errno=True)


class _Timer:
    """The timer of one loop, and whom it wakes."""

    def __init__(self) -> None:
        self.fd: int = _libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        self._rings: dict[Callable[[], object], float] = {}
        self._armed = _NEVER
        if self.fd >= 0:
            trio.lowlevel.spawn_system_task(self._run)

    def set(self, ring: Callable[[], object], when: float) -> None:
        self._rings[ring] = when
        if when < self._armed:
            self._arm(when)

    def _arm(self, when: float) -> None:
        self._armed = when
        # Zero would stop it, and what is past is to ring at once.
        ns = max(1, int((when - time.monotonic()) * _NS))
        _libc.timerfd_settime(self.fd, 0, _SPEC.pack(0, 0, ns // _NS, ns % _NS), None)

    async def _run(self) -> None:
        try:
            while True:
                await trio.lowlevel.wait_readable(self.fd)
                try:
                    os.read(self.fd, 8)
                except BlockingIOError:
                    continue  # It was set anew meanwhile.
                self._armed = _NEVER
                now = time.monotonic()
                for ring in [one for one, when in self._rings.items() if when <= now]:
                    del self._rings[ring]
                    ring()
                if self._rings and (first := min(self._rings.values())) < self._armed:
                    self._arm(first)
        finally:
            os.close(self.fd)
            self.fd = -1


_alarm: trio.lowlevel.RunVar[_Timer] = trio.lowlevel.RunVar("alarm")


def call_in(seconds: float, ring: Callable[[], object]) -> None:
    """Call `ring` in so long, once, whatever was asked for it before. It may come although nobody
    waits any more, and must not raise."""
    try:
        one = _alarm.get()
    except LookupError:
        one = _Timer()
        _alarm.set(one)
    if one.fd >= 0:
        one.set(ring, time.monotonic() + seconds)
