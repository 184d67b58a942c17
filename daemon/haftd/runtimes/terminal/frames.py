"""Synchronized output (mode 2026): a frame is shown when it is whole.

Rules:

- A frame begins with the mode set and ends with the mode reset, a reset of the terminal, or when the owner
  ends the frame (`end`): no clock is kept here.
- A frame that has a query in it, or more than `_MAX_FRAME` bytes, is shown as it comes: the program may
  wait for the answer.
- Offsets count the bytes that the program has printed.
"""

from __future__ import annotations

import re

_MAX_FRAME = 1 << 20

_TAIL = 128
"""How many bytes of a sequence that goes on in the next chunk are kept."""

_MODE = b"2026"
_SWITCH = re.compile(rb"\x1b(?:c|\[\?([\d;]{0,64}+)([hl]))")
_QUERY = re.compile(
    rb"\x1b(?:Z|\[[>=?]?[\d;]{0,32}+(?:[cntx]|\$p)|\[\?u|\[>\d?q|P[$+]q|\](?:[\d;]{1,32}+|21;[^\x07\x1b]{0,64}?)\?|_G)|\x05"
)


class Frames:
    """Where the frame begins that a program is drawing."""

    __slots__ = ("_tail", "start")

    def __init__(self) -> None:
        self.start: int | None = None
        """The offset where the frame begins that is not to be shown yet; None where there is none."""
        self._tail = b""

    def see(self, data: bytes, offset: int) -> None:
        """Take note of `data`, which stands at `offset`."""
        tail, whole = self._tail, self._tail + data
        self._tail = whole[-_TAIL:] if b"\x1b" in whole[-_TAIL:] else b""
        if self.start is None and _MODE not in whole:
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
        """Show what there is."""
        self.start = None
