"""How much of what a program prints may be drawn in one go: few bytes can ask for a lot.

Rules:

- The estimate is of what is heavy by the number in it or by the size of the screen, in
  microseconds as measured; all other bytes count as nothing, for a piece has few of them.
- A cut is made before what is heavy, never because of what stands behind it: one that is alone
  in its piece may take longer than a piece should.
- It knows the usual forms only. What is slow in any other is found by the clock; see `screen`.
"""

from __future__ import annotations

import re

PIECE = 128
"""Bytes that are drawn in one go, at most."""

_MAX_WORK = 250.0
"""Microseconds."""

_HEAVY = re.compile(
    rb"\x1b(?:(?P<reset>c)|\[(?P<count>\d{0,9})b|(?P<mode>\[\?[\d;]*[hl])"
    rb"|M|\#8|\[[\d;]*[JLMSTr])"
)


def work(heavy: re.Match[bytes], rows: int, cols: int) -> float:
    """How long this takes on a screen of this size."""
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


def cut(data: bytes, at: int, most: int, rows: int, cols: int) -> int:
    """Where the piece of `data` ends that begins at `at`: `most` bytes on, or before what would be
    too much."""
    end = min(at + most, len(data))
    if data.find(b"\x1b", at, end) < 0:
        return end
    spent = 0.0
    for heavy in _HEAVY.finditer(data, at, end):
        spent += work(heavy, rows, cols)
        if spent > _MAX_WORK and heavy.start() > at:
            return heavy.start()
    return end
