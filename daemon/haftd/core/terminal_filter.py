"""Output for a reader with a terminal emulator, without queries and, by default, clipboard writes.

Cursors are offsets of the original output, never within an incomplete sequence: a reader resumes
without state.
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
"""Bytes that show the longest held back sequence whole."""
_HEAD = 64


class TerminalChunk(msgspec.Struct, frozen=True, gc=False):
    """Filtered bytes, the offset after them in the original output, and the bytes dropped before."""

    data: bytes
    cursor: int
    omitted: int = 0


class TerminalReader(msgspec.Struct, frozen=True, gc=False):
    """Reader with a terminal emulator."""

    clipboard: bool = False
    """True permits clipboard writes."""

    def read(self, spool: Spool, start: int, max_bytes: int, *, final: bool) -> TerminalChunk:
        """Return up to `max_bytes` of filtered output from `start`.

        An incomplete sequence waits, or with `final` is left out. A sequence of up to
        `MAX_SEQUENCE` bytes may exceed `max_bytes`.
        """
        if max_bytes <= 0 or start >= spool.end:
            return TerminalChunk(b"", start)
        chunk = _read(spool, start, max_bytes, self.clipboard, final)
        begin = start + chunk.omitted
        if chunk.cursor == begin and max_bytes < _LEAST_WINDOW and begin + max_bytes < spool.end:
            chunk = _read(spool, start, _LEAST_WINDOW, self.clipboard, final)
        return chunk

    def is_held_back(self, spool: Spool, start: int, *, final: bool) -> bool:
        """True if all output from `start` is the beginning of one sequence."""
        return self.read(spool, start, _LEAST_WINDOW, final=final).cursor == start


def _read(spool: Spool, start: int, count: int, clipboard: bool, final: bool) -> TerminalChunk:
    begin = max(start, spool.start)
    stop = min(spool.end, begin + count)
    data = spool.read(begin, stop)
    begin = stop - len(data)
    is_last = final and stop == spool.end
    body = _withheld_body(spool, begin, stop, clipboard)
    filtered = filter_bytes(data[body:], clipboard=clipboard, final=is_last)
    return TerminalChunk(filtered.data, begin + body + filtered.size, begin - start)


def boundary(spool: Spool) -> int:
    """Return the last offset outside an incomplete sequence."""
    return spool.end - held_back(spool.read(spool.end - MAX_SEQUENCE, spool.end))


def _withheld_body(spool: Spool, start: int, stop: int, clipboard: bool) -> int:
    """Count the bytes at `start` that continue a long string without its head."""
    parts = spool.strings.between(start, start + 1)
    if not parts:
        return 0
    head_at = spool.strings.begin_of(start)
    if head_at == start:
        return 0
    head = SEQUENCE.match(spool.read(head_at, min(head_at + _HEAD, start)))
    if head is None or not is_withheld(head, clipboard, is_whole=False):
        return 0
    end = spool.strings.end_of(start)
    return (stop if end == start else min(end, stop)) - start
