"""Times of output, as at most `MAX_POINTS` points (offset, time).

Too many points double the grain, the minimum time between two.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import deque

GRAIN = 0.01
"""Seconds between two points at first."""

MAX_POINTS = 2_048
"""32 KiB."""

MAX_EVENTS = 1_024
"""Resizes, and inputs; the oldest go."""

_NO_RESIZES: deque[tuple[int, float, int, int]] = deque(maxlen=0)
_NO_INPUTS: deque[tuple[int, float, int]] = deque(maxlen=0)
"""An empty deque takes 0.7 KiB."""


class Timeline:
    """The times of one output, in seconds of the caller's clock.

    >>> timeline = Timeline()
    >>> timeline.record(0, 5.0)
    >>> timeline.record(10, 5.001)
    >>> timeline.record(12, 6.0)
    >>> timeline.since(0, 3)
    [(0, 5.0), (12, 6.0)]
    """

    __slots__ = (
        "_grain",
        "_next",
        "_offsets",
        "_times",
        "error",
        "initial_size",
        "inputs",
        "resizes",
    )

    def __init__(self) -> None:
        self._grain = GRAIN
        self.error = GRAIN
        """Seconds within which a point's bytes were appended."""
        self._offsets = array("Q")
        self._times = array("d")
        self._next = -math.inf
        self.initial_size: tuple[int, int] | None = None
        """Rows and columns of a terminal at its start."""
        self.resizes = _NO_RESIZES
        """Offset of the output, time, rows, columns."""
        self.inputs = _NO_INPUTS
        """Offset of the output, time, and size of typed input."""

    def add_resize(self, offset: int, now: float, rows: int, cols: int) -> None:
        if self.resizes is _NO_RESIZES:
            self.resizes = deque(maxlen=MAX_EVENTS)
        self.resizes.append((offset, now, rows, cols))

    def add_input(self, offset: int, now: float, size: int) -> None:
        """Record typed input; inputs within a grain are one."""
        if self.inputs is _NO_INPUTS:
            self.inputs = deque(maxlen=MAX_EVENTS)
        if self.inputs and now < self.inputs[-1][1] + GRAIN:
            first, at, before = self.inputs.pop()
            self.inputs.append((first, at, before + size))
        else:
            self.inputs.append((offset, now, size))

    def record(self, offset: int, now: float) -> None:
        if now < self._next:
            return
        while len(self._offsets) >= MAX_POINTS:
            self._thin()
        self._offsets.append(offset)
        self._times.append(now)
        self._next = now + self._grain

    def _thin(self) -> None:
        self._grain *= 2
        self.error += self._grain  # of a dropped point's bytes
        offsets, times = array("Q"), array("d")
        after = -math.inf
        for offset, at in zip(self._offsets, self._times, strict=True):
            if at >= after:
                offsets.append(offset)
                times.append(at)
                after = at + self._grain
        self._offsets, self._times = offsets, times

    def since(self, offset: int, limit: int) -> list[tuple[int, float]]:
        """Return up to `limit` points, from the point of the byte at `offset`."""
        first = max(bisect_right(self._offsets, offset) - 1, 0)
        last = first + limit
        return list(zip(self._offsets[first:last], self._times[first:last], strict=True))
