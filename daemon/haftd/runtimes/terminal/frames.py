"""Synchronized output (mode 2026): a frame is shown when complete."""

from __future__ import annotations

from haftd.lazy_pattern import lazy_pattern

_MAX_FRAME = 1 << 20

_TAIL = 128
"""Bytes kept of an incomplete sequence."""

_MODE = b"2026"
_SWITCH = lazy_pattern(rb"\x1b(?:c|\[\?([\d;]{0,64}+)([hl]))")
_QUERY = lazy_pattern(
    rb"\x1b(?:Z|\[[>=?]?[\d;]{0,32}+(?:[cntx]|\$p)|\[\?u|\[>\d?q|P[$+]q|\](?:[\d;]{1,32}+|21;[^\x07\x1b]{0,64}?)\?|_G)|\x05"
)


class Frames:
    """Offset of the unfinished frame, which a reset of mode or terminal, or `end`, ends."""

    __slots__ = ("_tail", "start")

    def __init__(self) -> None:
        self.start: int | None = None
        self._tail = b""

    def feed(self, data: bytes, offset: int) -> None:
        """Parse `data` at `offset`. A frame with a query, or above `_MAX_FRAME` bytes, is shown
        immediately: the process may await the reply."""
        tail, whole = self._tail, self._tail + data
        self._tail = whole[-_TAIL:] if b"\x1b" in whole[-_TAIL:] else b""
        # An escape is found in a tenth of the time.
        if self.start is None and (b"\x1b" not in whole or _MODE not in whole):
            return
        base = offset - len(tail)
        for switch in _SWITCH.finditer(whole):
            modes, state = switch.groups()
            if switch.end() <= len(tail) or not (modes is None or _MODE in modes.split(b";")):
                continue
            if state != b"h":
                self.start = None
            elif self.start is None:
                self.start = base + switch.start()
        if self.start is None:
            return
        is_long = offset + len(data) - self.start > _MAX_FRAME
        if is_long or _QUERY.search(whole, max(0, self.start - base)):
            self.start = None

    def end(self) -> None:
        self.start = None
