"""Output for a terminal emulator, without queries and, by default, clipboard writes.

The daemon's screen has answered each query; a second answer would be typed into the process.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode

import msgspec

from .terminal_queries import (
    ASK_BY_A_FIELD,
    CONTROLS,
    SEQUENCE,
    UNFINISHED,
    command_asks,
    command_number,
    control_asks,
    string_asks,
)

__all__ = [
    "MAX_SEQUENCE",
    "FilteredBytes",
    "QueryFilter",
    "filter_bytes",
    "held_back",
    "is_withheld",
    "unfinished_character",
]

MAX_SEQUENCE = 4_096
"""Bytes of an incomplete sequence that are buffered; a longer one passes by its head."""

_CLIPBOARD = b"52"
_END_OF_STRING = re.compile(rb"\x07|\x1b\\|\x1b(?!\Z)")


class FilteredBytes(msgspec.Struct, frozen=True, gc=False):
    """Bytes without queries, the count of bytes filtered, and whether a filtered string goes on."""

    data: bytes
    size: int
    is_open: bool = False


def filter_bytes(data: bytes, *, clipboard: bool = False, final: bool = False) -> FilteredBytes:
    """Filter queries; the data after `size` are incomplete. `final` filters these, too."""
    held = held_back(data)
    done = data[: len(data) - held]
    is_open = False
    if b"\x1b" in done or b"\x05" in done:

        def shown(match: re.Match[bytes]) -> bytes:
            nonlocal is_open
            piece = _shown(match, clipboard, len(done))
            is_open = not piece and _is_cut(match, len(done))
            return piece

        done = SEQUENCE.sub(shown, done)
    if not final:
        return FilteredBytes(done, len(data) - held, is_open)
    rest = data[len(data) - held :]
    return FilteredBytes(done if rest[:1] == b"\x1b" else done + rest, len(data), is_open)


def held_back(data: bytes) -> int:
    """Count the last bytes that begin a sequence or a character."""
    match = UNFINISHED.search(data, max(0, len(data) - MAX_SEQUENCE))
    return unfinished_character(data) if match is None else len(match[0])


def unfinished_character(data: bytes) -> int:
    """Count the last bytes, up to three, of an incomplete character."""
    for size in range(1, min(3, len(data)) + 1):
        byte = data[-size]
        if byte >= 0xC0:
            return size if utf_8_decode(data[-size:], "replace", False)[1] == 0 else 0
        if byte < 0x80:
            return 0
    return 0


def _shown(match: re.Match[bytes], clipboard: bool, size: int) -> bytes:
    if match["control"] is not None:
        control: bytes = match["control"]
        bare = control.translate(None, CONTROLS)
        if not control_asks(bare):
            return match[0]
        return control.translate(None, bare + b"\x05") if bare != control else b""
    if match["command"] is None and match["string"] is None:
        return b"" if match["key"] in (None, b"Z") else match[0]
    is_whole = bool(match["closed"] or match["ended"])
    if (is_whole or _is_cut(match, size)) and is_withheld(match, clipboard, is_whole=is_whole):
        return b""
    return match[0]


def _is_cut(match: re.Match[bytes], size: int) -> bool:
    is_string = match["command"] is not None or match["string"] is not None
    return is_string and match.end() == size and not (match["closed"] or match["ended"])


def is_withheld(match: re.Match[bytes], clipboard: bool, *, is_whole: bool) -> bool:
    """Return True for a string that asks or writes the clipboard; a long one goes by its head."""
    if (command := match["command"]) is not None:
        number, rest = command_number(command)
        if number == _CLIPBOARD:
            return not clipboard or b"?" in rest.split(b";")
        return command_asks(number, rest) or (not is_whole and number in ASK_BY_A_FIELD)
    string = match["string"]
    return string is not None and string_asks(string)


class QueryFilter:
    r"""Filter of output that comes in pieces; incomplete sequences and characters wait for the next piece.

    >>> output = QueryFilter()
    >>> output.feed(b"a\x1b[6"), output.feed(b"nb")
    (b'a', b'b')
    """

    def __init__(self, *, clipboard: bool = False) -> None:
        self._clipboard = clipboard
        self._held = b""
        self._is_in_string = False

    def feed(self, data: bytes) -> bytes:
        data, self._held = self._held + data, b""
        if self._is_in_string:
            end = _END_OF_STRING.search(data)
            if end is None:
                self._held = data[-1:] if data[-1:] == b"\x1b" else b""
                return b""
            self._is_in_string = False
            data = data[end.start() if end[0] == b"\x1b" else end.end() :]
        filtered = filter_bytes(data, clipboard=self._clipboard)
        self._held = data[filtered.size :]
        self._is_in_string = filtered.is_open
        return filtered.data
