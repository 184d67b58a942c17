"""Output for a reader with a terminal emulator: without queries, by default without clipboard writes.

The daemon's screen has answered each query; an emulator's second answer would be typed into the
process. Cursors are offsets of the original output, never within an incomplete sequence, so a reader
resumes without state.
"""

from __future__ import annotations

import re

import msgspec

from haft_protocol.terminal_queries import (
    ASK_BY_A_FIELD,
    CONTROLS,
    SEQUENCE,
    UNFINISHED,
    command_asks,
    command_number,
    control_asks,
    string_asks,
)

from .escapes import MAX_SEQUENCE, unfinished
from .spool import Spool

_LEAST_WINDOW = 2 * MAX_SEQUENCE
"""Bytes that show the longest sequence held back, whole."""
_HEAD = 64

_CLIPBOARD = b"52"


class TerminalChunk(msgspec.Struct, frozen=True, gc=False):
    """Filtered bytes, the offset after them in the original output, and the bytes dropped before."""

    data: bytes
    cursor: int
    omitted: int = 0


class TerminalReader(msgspec.Struct, frozen=True, gc=False):
    """A reader with a terminal emulator; `clipboard` permits writes of the clipboard."""

    clipboard: bool = False

    def read(self, spool: Spool, start: int, max_bytes: int, *, final: bool) -> TerminalChunk:
        """Return up to `max_bytes` of filtered output from `start` on.

        An incomplete sequence waits; with `final` it is left out. One sequence of up to `MAX_SEQUENCE` bytes
        may come on top of `max_bytes`.
        """
        if max_bytes <= 0 or start >= spool.end:
            return TerminalChunk(b"", start)
        chunk = _read(spool, start, max_bytes, self.clipboard, final)
        begin = start + chunk.omitted
        if chunk.cursor == begin and max_bytes < _LEAST_WINDOW and begin + max_bytes < spool.end:
            chunk = _read(spool, start, _LEAST_WINDOW, self.clipboard, final)
        return chunk

    def is_held_back(self, spool: Spool, start: int, *, final: bool) -> bool:
        """Return True if all output from `start` on is the beginning of one sequence."""
        return self.read(spool, start, _LEAST_WINDOW, final=final).cursor == start


def _read(spool: Spool, start: int, count: int, clipboard: bool, final: bool) -> TerminalChunk:
    begin = max(start, spool.start)
    stop = min(spool.end, begin + count)
    data = spool.read(begin, stop)
    begin = stop - len(data)
    is_last = final and stop == spool.end
    body = _withheld_body(spool, begin, stop, clipboard)
    filtered, size = filter_bytes(data[body:], clipboard=clipboard, final=is_last)
    return TerminalChunk(filtered, begin + body + size, begin - start)


def boundary(spool: Spool) -> int:
    """Return the last offset of the output outside an incomplete sequence."""
    return spool.end - held_back(spool.read(spool.end - MAX_SEQUENCE, spool.end))


def _withheld_body(spool: Spool, start: int, stop: int, clipboard: bool) -> int:
    """Count the bytes at `start` that continue a long string with a head that was left out."""
    parts = spool.strings.between(start, start + 1)
    if not parts:
        return 0
    head_at = spool.strings.begin_of(start)
    if head_at == start:
        return 0
    head = SEQUENCE.match(spool.read(head_at, min(head_at + _HEAD, start)))
    if head is None or not _is_withheld(head, clipboard, is_whole=False):
        return 0
    end = spool.strings.end_of(start)
    return (stop if end == start else min(end, stop)) - start


def held_back(data: bytes) -> int:
    """Count the last bytes that begin a sequence or a character."""
    match = UNFINISHED.search(data, max(0, len(data) - MAX_SEQUENCE))
    return unfinished(data) if match is None else len(match[0])


def filter_bytes(data: bytes, *, clipboard: bool = False, final: bool = False) -> tuple[bytes, int]:
    """Return the data without queries, and the count of bytes filtered; the rest is incomplete."""
    held = held_back(data)
    done = data[: len(data) - held]
    if b"\x1b" in done or b"\x05" in done:
        done = SEQUENCE.sub(lambda match: _shown(match, clipboard, len(done)), done)
    if not final:
        return done, len(data) - held
    rest = data[len(data) - held :]
    return (done if rest[:1] == b"\x1b" else done + rest), len(data)


def _shown(match: re.Match[bytes], clipboard: bool, size: int) -> bytes:
    if match["control"] is not None:
        control: bytes = match["control"]
        bare = control.translate(None, CONTROLS)
        if not control_asks(bare):
            return match[0]
        return control.translate(None, bare + b"\x05") if bare != control else b""
    is_whole = bool(match["closed"] or match["ended"])
    is_cut = match.end() == size and not is_whole
    if match["command"] is None and match["string"] is None:
        return b"" if match["key"] in (None, b"Z") else match[0]
    return b"" if (is_whole or is_cut) and _is_withheld(match, clipboard, is_whole) else match[0]


def _is_withheld(match: re.Match[bytes], clipboard: bool, is_whole: bool) -> bool:
    """Return True for a string that asks or writes the clipboard.

    The head decides about a string that is too long to be held back.
    """
    if (command := match["command"]) is not None:
        number, rest = command_number(command)
        if number == _CLIPBOARD:
            return not clipboard or b"?" in rest.split(b";")
        return command_asks(number, rest) or (not is_whole and number in ASK_BY_A_FIELD)
    string = match["string"]
    return string is not None and string_asks(string)
