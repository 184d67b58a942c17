"""Parts of an output that are standard error, if that has its own pipe, in the order of the
daemon's reads."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

MAX_CHANGES = 65_536
"""Changes between the streams (512 KiB); older bytes count as standard output."""


class StderrSpans:
    """Spans of standard error in one output.

    >>> spans = StderrSpans()
    >>> spans.record(0, is_stderr=False)
    >>> spans.record(10, is_stderr=True)
    >>> spans.record(14, is_stderr=False)
    >>> spans.between(0, 12)
    ((10, 12),)
    """

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes = array("Q")
        """Offsets of changes; the first is one to standard error."""

    def record(self, offset: int, *, is_stderr: bool) -> None:
        """Record the stream of output from `offset` on."""
        changes = self._changes
        if is_stderr == bool(len(changes) % 2):
            return
        changes.append(offset)
        if len(changes) > MAX_CHANGES:
            # An even number: the first is still a change to standard error.
            del changes[: MAX_CHANGES // 2]

    def between(self, start: int, stop: int) -> tuple[tuple[int, int], ...]:
        """Return the spans within [start, stop)."""
        changes = self._changes
        first = bisect_right(changes, start)
        first -= first % 2
        spans = []
        for at in range(first, len(changes), 2):
            if changes[at] >= stop:
                break
            end = changes[at + 1] if at + 1 < len(changes) else stop
            if min(end, stop) > max(changes[at], start):
                spans.append((max(changes[at], start), min(end, stop)))
        return tuple(spans)


NO_SPANS: Final = StderrSpans()
"""Never marked."""
