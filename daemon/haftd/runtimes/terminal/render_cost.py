"""Estimated cost of drawing output: a few bytes can take long. `screen` finds other slow sequences
by the clock.
"""

from __future__ import annotations

import re

PIECE = 128
"""Maximum bytes drawn in one call."""

_MAX_COST_US = 250.0

_HEAVY = re.compile(
    rb"\x1b(?:(?P<reset>c)|\[(?P<count>\d{0,9})b|(?P<mode>\[\?[\d;]*[hl])"
    rb"|M|\#8|\[[\d;]*[JLMSTr])"
)


def cost_us(heavy: re.Match[bytes], rows: int, cols: int) -> float:
    """Return the measured microseconds of a sequence on a screen of this size."""
    cells = rows * cols
    match heavy.lastgroup:
        case "reset":
            return 80 + cells / 6_000
        case "count":
            count = min(int(heavy["count"] or 1), 65_535)
            return 1 + count * (0.005 + 0.045 / cols)
        case "mode":
            return 1 + 0.75 * rows + cells / 1_300
    return 1 + 0.02 * rows + cells / 1_300


def split_by_cost(data: bytes, at: int, most: int, rows: int, cols: int) -> int:
    """Return the end of the piece of `data` at `at`: at most `most` bytes, or before an expensive
    sequence."""
    end = min(at + most, len(data))
    if data.find(b"\x1b", at, end) < 0:
        return end
    total = 0.0
    for heavy in _HEAVY.finditer(data, at, end):
        total += cost_us(heavy, rows, cols)
        if total > _MAX_COST_US and heavy.start() > at:
            return heavy.start()
    return end
