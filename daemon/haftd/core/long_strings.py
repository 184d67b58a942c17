"""Offsets of long control strings in an output (OSC 52 clipboards, sixel pictures), for reads that
begin or end inside one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from haftd.lazy_pattern import lazy_pattern

from .escapes import MAX_SEQUENCE

_ESCAPE = b"\x1b"
_INTRODUCERS = b"]PX^_"
_END = lazy_pattern(rb"[\x07\x1b\x18\x1a\n]")
_WINDOW = MAX_SEQUENCE // 2 - 64
"""A string of more than `MAX_SEQUENCE` bytes fills an aligned window of this size without an Escape."""
_MAX_UNPRUNED = 1_024


class LongStrings:
    """Ranges [begin, end) of strings longer than `MAX_SEQUENCE` bytes."""

    __slots__ = ("_after_escape", "_begins", "_ends", "_head", "open")

    def __init__(self, head: int) -> None:
        """Strings that begin before the offset `head` are never pruned."""
        self.open = -1
        """Start of the string, of any length, that is open at the output's end; else -1."""
        self._head = head
        self._after_escape = False
        self._begins: list[int] = []
        self._ends: list[int] = []

    def append(self, data: bytes, at: int, kept_from: int) -> None:
        """Scan `data` at offset `at`; output before `kept_from` was dropped."""
        if self.open < 0 and not self._after_escape and _ESCAPE not in data:
            return
        pos, size = 0, len(data)
        if self._after_escape and size:
            self._after_escape = False
            is_terminator = self.open >= 0 and data[0] == 0x5C
            if self.open >= 0:
                self._close(at + 1 if is_terminator else at - 1, kept_from)
            if is_terminator:
                pos = 1
            elif data[0] in _INTRODUCERS:
                self.open, pos = at - 1, 1
        while pos < size:
            if self.open < 0:
                begin = _next(data, pos)
                if begin < 0:
                    return
                if begin + 1 == size:
                    self._after_escape = True
                    return
                self.open, pos = at + begin, begin + 2
            match = _END.search(data, pos)
            if match is None:
                return
            pos = match.start()
            if data[pos] == 0x1B:
                if pos + 1 == size:
                    self._after_escape = True
                    return
                pos += 2 if data[pos + 1] == 0x5C else 0
            elif data[pos] != 0x0A:
                pos += 1
            self._close(at + pos, kept_from)

    def _close(self, end: int, kept_from: int) -> None:
        begin, self.open = self.open, -1
        if end - begin <= MAX_SEQUENCE:
            return
        self._begins.append(begin)
        self._ends.append(end)
        if len(self._begins) % _MAX_UNPRUNED == 0:
            first = bisect_left(self._begins, self._head)
            last = max(first, bisect_right(self._ends, kept_from))
            del self._begins[first:last], self._ends[first:last]

    def between(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the parts of [start, stop) inside strings, in order."""
        if not self._begins and self.open < 0:
            return []
        first = bisect_right(self._ends, start)
        last = bisect_left(self._begins, stop)
        parts = [
            (max(begin, start), min(end, stop))
            for begin, end in zip(self._begins[first:last], self._ends[first:last], strict=True)
        ]
        if 0 <= self.open < stop:
            parts.append((max(self.open, start), stop))
        return parts

    def length(self, start: int, stop: int) -> int:
        """Count the bytes of [start, stop) outside strings."""
        if not self._begins and self.open < 0:
            return max(0, stop - start)
        return max(0, stop - start) - sum(end - begin for begin, end in self.between(start, stop))

    def end_of(self, offset: int) -> int:
        """Return the end of the finished string around `offset`, else `offset`."""
        if not self._begins:
            return offset
        at = bisect_right(self._begins, offset) - 1
        return max(offset, self._ends[at]) if at >= 0 and self._begins[at] < offset else offset

    def begin_of(self, offset: int) -> int:
        """Return the beginning of the string around `offset`, else `offset`."""
        if 0 <= self.open < offset:
            return self.open
        at = bisect_right(self._begins, offset) - 1
        return self._begins[at] if at >= 0 and offset < self._ends[at] else offset

    def forward(self, start: int, count: int) -> int:
        """Return the offset after `count` bytes outside strings, from `start`."""
        stop = start + count
        if self._begins:
            for at in range(bisect_right(self._ends, start), len(self._begins)):
                begin = max(start, self._begins[at])
                if begin >= stop:
                    break
                stop += self._ends[at] - begin
        return stop

    def offset_of(self, start: int, index: int) -> int:
        """Return the offset of byte `index` outside strings, counted from `start`."""
        offset = start + index
        for begin, end in zip(self._begins, self._ends, strict=True):
            if end > start:
                if begin >= offset:
                    break
                offset += end - max(begin, start)
        return offset

    def back(self, stop: int, count: int) -> int:
        """Return the offset from which `count` bytes outside strings lead up to `stop`."""
        if 0 <= self.open < stop:
            stop = self.open
        start = stop - count
        for at in range(bisect_left(self._begins, stop) - 1, -1, -1):
            end = min(stop, self._ends[at])
            if end <= start:
                break
            start -= end - self._begins[at]
        return start


def _next(data: bytes, pos: int) -> int:
    """Find the start of a string that is long or continues after `data`, or a final Escape; else -1."""
    had_escape = False
    for window in range(pos, len(data) - _WINDOW + 1, _WINDOW):
        has_escape = data.find(_ESCAPE, window, window + _WINDOW) >= 0
        if had_escape and not has_escape:
            begin = data.rfind(_ESCAPE, window - _WINDOW, window)
            if data[begin + 1] in _INTRODUCERS:
                return begin
        had_escape = has_escape
    begin = data.rfind(_ESCAPE, pos)
    return begin if begin >= 0 and data[begin + 1 : begin + 2] in _LAST else -1


_LAST = (b"", *(bytes((byte,)) for byte in _INTRODUCERS))

NO_STRINGS = LongStrings(0)
"""Strings of an output without an Escape; never appended to."""
