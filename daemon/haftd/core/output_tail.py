"""Follow a handle's output from an offset of each reader; the spool is the only queue.

A reader that lags by more than `MAX_LAG` resumes near the end. Chunks of text split no character or escape
sequence, chunks of bytes for a `terminal` reader no sequence.
"""

from __future__ import annotations

import msgspec

from .handles import Handle
from .terminal_filter import TerminalReader
from .text import cut

MAX_CHUNK = 32_768
"""Bytes of output in one chunk, at most."""

MAX_LAG = 4_194_304
"""Maximum lag of a reader in bytes."""

_RESUME_SIZE = 65_536
"""Bytes before the end at which a late reader resumes."""

_MAX_LINE_SEARCH = 4_096
"""Bytes from there on in which a line start is searched."""


class OutputChunk(msgspec.Struct, frozen=True, gc=False):
    """Text of an output."""

    text: str
    cursor: int
    """Offset after the text."""
    omitted: int = 0
    """Bytes left out before the text, from `omitted_from` on."""
    omitted_from: int = 0


class BytesChunk(msgspec.Struct, frozen=True, gc=False):
    """Bytes of an output."""

    data: bytes
    cursor: int
    """Offset after the bytes."""
    omitted: int = 0
    """Bytes left out before the bytes, from `omitted_from` on."""
    omitted_from: int = 0


class BytesTail:
    """Reader of a handle's bytes, at `offset`. For a `terminal` reader the queries to the terminal are
    left out. With `keeps_all` the reader may lag by all kept output."""

    __slots__ = ("_handle", "_keeps_all", "_terminal", "offset")

    def __init__(
        self,
        handle: Handle,
        offset: int,
        terminal: TerminalReader | None = None,
        *,
        keeps_all: bool = False,
    ) -> None:
        self._handle = handle
        self._terminal = terminal
        self._keeps_all = keeps_all
        self.offset = offset

    def read_chunk(self) -> BytesChunk | None:
        """Return the next chunk; None until more is complete."""
        handle, spool, begun = self._handle, self._handle.spool, self.offset
        start = max(begun, spool.start)
        if spool.end - start > MAX_LAG and not self._keeps_all:
            start = _resume_offset(handle)
        if self._terminal is not None:
            final = handle.stopped and handle.output_complete
            chunk = self._terminal.read(spool, start, MAX_CHUNK, final=final)
            data, stop, start = chunk.data, chunk.cursor, start + chunk.omitted
        else:
            stop = min(start + MAX_CHUNK, spool.end)
            data = spool.read(start, stop)
            start = stop - len(data)
        if stop <= begun:
            return None
        self.offset = stop
        omitted = start - begun
        return BytesChunk(data, stop, omitted, begun if omitted else 0)


class OutputTail:
    """Reader of a handle's output as rendered text, at `offset`."""

    __slots__ = ("_handle", "offset")

    def __init__(self, handle: Handle, offset: int) -> None:
        self._handle = handle
        self.offset = offset

    def read_chunk(self) -> OutputChunk | None:
        """Return the next chunk, which may have no text; None until more is complete."""
        handle, spool, begun = self._handle, self._handle.spool, self.offset
        start = max(begun, spool.start)
        if spool.end - start > MAX_LAG:
            start = _resume_offset(handle)
        stop = min(spool.strings.forward(start, MAX_CHUNK), spool.end)
        final = stop == spool.end and handle.stopped and handle.output_complete
        if stop < spool.end:
            # Stop at a line end, so that a rewritten line is rendered whole.
            line = spool.read_shown(start, stop).rfind(b"\n") + 1
            stop = spool.strings.offset_of(start, line) if line else stop
        if start < spool.start:
            # The spool's file failed during the read, which happens once at most.
            return self.read_chunk()
        piece = cut(spool, start, stop, MAX_CHUNK, final=final, rendering=handle.rendering)
        if piece.cursor <= begun:
            return None
        self.offset = piece.cursor
        omitted = start - begun + piece.omitted
        return OutputChunk(piece.text, piece.cursor, omitted, begun if omitted else 0)


def _resume_offset(handle: Handle) -> int:
    spool = handle.spool
    start = max(spool.end - _RESUME_SIZE, spool.start)
    # Without a line end there, `find` returns -1: resume at `start`.
    return start + spool.read(start, start + _MAX_LINE_SEARCH).find(b"\n") + 1
