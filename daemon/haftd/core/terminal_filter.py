"""Output for a reader with a terminal emulator, without queries and, by default, clipboard writes.

Cursors are offsets of the original output, never within a character or a sequence of up to
`MAX_SEQUENCE` bytes: a reader resumes without state. Within a longer string the head is looked up.
"""

from __future__ import annotations

import msgspec

from haft_protocol.terminal_queries import (
    MAX_SEQUENCE,
    SEQUENCE,
    filter_bytes,
    held_back,
    is_withheld,
)

from .spool import Spool

_LEAST_WINDOW = 2 * MAX_SEQUENCE
"""Bytes to read where less shows only the beginning of a sequence: the longest one and text after it."""
_HEAD = 64
"""Bytes of a long string that hold its introducer and number, such as `ESC ] 52 ;`."""


class TerminalChunk(msgspec.Struct, frozen=True, gc=False):
    """Filtered bytes, the offset after them in the original output, and the number of bytes before
    them that the spool no longer has."""

    data: bytes
    cursor: int
    omitted: int = 0


class TerminalReader(msgspec.Struct, frozen=True, gc=False):
    """Options of a reader with a terminal emulator."""

    clipboard: bool = False
    """True permits clipboard writes."""

    def read(self, spool: Spool, start: int, max_bytes: int, *, final: bool) -> TerminalChunk:
        """Return filtered output from `start`, of up to `max_bytes` of the original.

        An incomplete sequence or character waits, or with `final` is left out. If `max_bytes` show only
        the beginning of a sequence, up to `_LEAST_WINDOW` bytes are read.
        """
        if max_bytes <= 0 or start >= spool.end:
            return TerminalChunk(b"", start)
        chunk = _read(spool, start, max_bytes, self.clipboard, final)
        begin = start + chunk.omitted
        if chunk.cursor == begin and max_bytes < _LEAST_WINDOW and begin + max_bytes < spool.end:
            chunk = _read(spool, start, _LEAST_WINDOW, self.clipboard, final)
        return chunk

    def is_held_back(self, spool: Spool, start: int, *, final: bool) -> bool:
        """True if nothing can be read from `start` yet: there is no output, or only the beginning of a
        sequence or character, which with `final` is left out."""
        return self.read(spool, start, _LEAST_WINDOW, final=final).cursor == start


def _read(spool: Spool, start: int, count: int, clipboard: bool, final: bool) -> TerminalChunk:
    begin = max(start, spool.start)
    stop = min(spool.end, begin + count)
    data = spool.read(begin, stop)
    begin = stop - len(data)
    is_last = final and stop == spool.end
    body = _count_filtered_rest(spool, begin, stop, clipboard)
    filtered = filter_bytes(data[body:], clipboard=clipboard, final=is_last)
    return TerminalChunk(filtered.data, begin + body + filtered.size, begin - start)


def find_complete_end(spool: Spool) -> int:
    """Return the end of the output without an incomplete sequence or character at its end."""
    return spool.end - held_back(spool.read(spool.end - MAX_SEQUENCE, spool.end))


def _count_filtered_rest(spool: Spool, start: int, stop: int, clipboard: bool) -> int:
    """Count the bytes at `start` that continue a long control string that the filter leaves out."""
    head_at = spool.strings.begin_of(start)
    if head_at == start:
        return 0
    head = SEQUENCE.match(spool.read(head_at, min(head_at + _HEAD, start)))
    if head is None or not is_withheld(head, clipboard, is_whole=False):
        return 0
    # `end_of` returns `start` for a string without an end yet.
    end = spool.strings.end_of(start)
    return (stop if end == start else min(end, stop)) - start
