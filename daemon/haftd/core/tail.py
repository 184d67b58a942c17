"""Following a handle's output: a reader's own offset, and what it is given next.

Rules: pure. The spool is the only queue, so a reader that is behind costs no memory, and moves no
mark. What is given in a row is the output, as text: in order, nothing twice, no character and no
sequence split. Who is further behind than `FAR` goes on near the end, and is told what it missed.
"""

from __future__ import annotations

import msgspec

from .handles import Handle
from .text import cut

__all__ = ["FAR", "PIECE", "Piece", "Tail"]

PIECE = 32_768
"""Bytes that are given at once."""

FAR = 4_194_304
"""How many bytes a reader may be behind."""

_KEPT = 65_536
"""With how many of the newest it goes on."""

_LINE = 4_096
"""How much of these is given up to begin with a whole line."""


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A text, the offset after it, and how many bytes before it are left out from which offset on."""

    text: str
    cursor: int
    omitted: int = 0
    omitted_from: int = 0


class Tail:
    """One reader of one handle; `offset` is how far it has come."""

    __slots__ = ("_handle", "offset")

    def __init__(self, handle: Handle, offset: int) -> None:
        self._handle = handle
        self.offset = offset

    def take(self) -> Piece | None:
        """The next piece; None when nothing more is there, or not yet whole."""
        handle, spool, begun = self._handle, self._handle.spool, self.offset
        start = max(begun, spool.start)
        if spool.end - start > FAR:
            start = self._near_the_end()
        stop = min(start + PIECE, spool.end)
        final = stop == spool.end and handle.stopped and handle.output_complete
        if stop < spool.end:
            # At a line end if there is one: what is rewritten within a line is then read as one.
            line = spool.read(start, stop).rfind(b"\n") + 1
            stop = start + line if line else stop
        if start < spool.start:
            return self.take()  # The file failed while it was read; that happens once.
        piece = cut(spool, start, stop, PIECE, final=final, rendering=handle.rendering)
        if piece.cursor <= begun:
            return None
        self.offset = piece.cursor
        omitted = start - begun + piece.omitted
        return Piece(piece.text, piece.cursor, omitted, begun if omitted else 0)

    def _near_the_end(self) -> int:
        spool = self._handle.spool
        start = max(spool.end - _KEPT, spool.start)
        return start + spool.read(start, start + _LINE).find(b"\n") + 1
