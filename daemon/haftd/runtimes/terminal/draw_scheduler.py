"""Bounds the time of drawing in a pass of the loop, over all terminals, by the estimated cost of
output; `screen` finds other slow sequences by the clock."""

from __future__ import annotations

import re
from collections.abc import Callable

import trio

from haftd.host.readiness import LoopLocal
from haftd.lazy_pattern import lazy_pattern

PIECE = 128
"""Bytes of a first call, and the maximum at unknown cost."""

MAX_PIECE = 4_096
"""Maximum bytes of cheap output in a call, less on a large screen."""

_MAX_CELLS_BYTES = 10_000 * MAX_PIECE
"""Product of a cheap piece's bytes and the screen's cells: a line feed may move all rows."""

_MAX_COST_US = 250.0

_HEAVY = lazy_pattern(
    rb"\x1b(?:(?P<reset>c)|\[(?P<count>\d{0,9})b|(?P<mode>\[\?[\d;]*[hl])"
    rb"|M|\#8|\[[\d;]*[JLMSTr])"
)
_CHEAP = lazy_pattern(rb"(?:[^\x1b]++|\x1b\[[\d;:]{0,32}+[mHABCDGK])*+")


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
    """Return the end of the piece at `at`: at most `most` bytes, beyond `PIECE` only text, colours
    and cursor moves; or before an expensive sequence."""
    end = min(at + most, len(data))
    if end - at > PIECE:
        stop = max(min(end, at + _MAX_CELLS_BYTES // (rows * cols)), at + PIECE)
        if data.find(b"\x1b", at, stop) < 0:
            return stop
        cheap = _CHEAP.match(data, at, stop)
        if cheap is not None and cheap.end() - at > PIECE:
            return cheap.end()
        end = at + PIECE
    if data.find(b"\x1b", at, end) < 0:
        return end
    total = 0.0
    for heavy in _HEAVY.finditer(data, at, end):
        total += cost_us(heavy, rows, cols)
        if total > _MAX_COST_US and heavy.start() > at:
            return heavy.start()
    return end


class LoopPass(trio.abc.Instrument):
    """Current pass of the loop, and its seconds of drawing."""

    def __init__(self) -> None:
        self.number = 0
        self.spent = 0.0
        self.turn = trio.Lock()

    def before_io_wait(self, timeout: float) -> None:
        self.number += 1
        self.spent = 0.0


def _begin() -> LoopPass:
    began = LoopPass()
    trio.lowlevel.add_instrument(began)
    return began


_loop_pass = LoopLocal("drawing", _begin)


def current() -> LoopPass | None:
    """Return the current pass; None outside a loop, where drawing is unbounded."""
    try:
        return _loop_pass.get()
    except RuntimeError:
        return None


async def in_turn(draw: Callable[[], bool]) -> bool:
    """Run `draw` in order of the calls, one per pass of the loop; return its result."""
    now = current()
    if now is None:
        raise AssertionError("called outside of a loop")
    async with now.turn:
        return draw()
