"""Parts of a handle's output that are standard error, as spans of offsets.

Only where standard error has a pipe of its own. The order of the two streams is that in which the
daemon has read them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

MAX_CHANGES = 65_536
"""Changes between the streams; of older ones nothing is known, and those bytes count as standard
output. 512 KiB."""


class StderrSpans:
    """Spans of standard error in one output.

    >>> spans = StderrSpans()
    >>> spans.mark(0, is_stderr=False)
    >>> spans.mark(10, is_stderr=True)
    >>> spans.mark(14, is_stderr=False)
    >>> spans.between(0, 12)
    ((10, 12),)
    """

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes = array("Q")
        """The offset of each change of the stream; the first is one to standard error."""

    def mark(self, offset: int, *, is_stderr: bool) -> None:
        """Record that the output from `offset` on is of this stream."""
        changes = self._changes
        if is_stderr == bool(len(changes) % 2):
            return
        changes.append(offset)
        if len(changes) > MAX_CHANGES:
            # An even number, so that the first is still a change to standard error.
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
"""The spans of an output without standard error; never marked."""
