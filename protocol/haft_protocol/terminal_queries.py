"""Sequences of a process's output that ask the terminal for a reply, and the filter that leaves them and, by
default, clipboard writes out.

A terminal's answers are typed into the process, so an output that one terminal has answered is shown
by other terminals without its queries. Source: xterm's ctlseqs, ECMA-48, and the documents of kitty
and iTerm2.

>>> control_asks(b"6n"), control_asks(b"31m")
(True, False)
"""

from __future__ import annotations

import re
from codecs import utf_8_decode

import msgspec

__all__ = [
    "ASK_BY_A_FIELD",
    "COLOURS",
    "CONTROLS",
    "MAX_SEQUENCE",
    "SEQUENCE",
    "UNFINISHED",
    "FilteredBytes",
    "QueryFilter",
    "command_asks",
    "command_number",
    "control_asks",
    "filter_bytes",
    "held_back",
    "is_withheld",
    "string_asks",
    "unfinished_character",
]

# Processes choose the output, so these never backtrack: repetitions are possessive and of one
# class; only the repetition for a run of Escapes contains an Escape.
SEQUENCE = re.compile(
    rb"\x05"
    rb"|(?<!\x1b)\x1b++(?:"
    rb"\[(?P<control>[\x00-\x17\x19\x1c-?\x7f]*+[@-~])"
    rb"|\](?P<command>[^\x07\x1b]*+)(?P<closed>\x07|\x1b\\)?+"
    rb"|(?P<string>[P_][^\x1b]*+)(?P<ended>\x1b\\)?+"
    rb"|(?P<key>[Zc=])"
    rb")"
)
"""ENQ, a control sequence, an operating system command, a device control string or a graphics
command, or a key: of these ENQ and the key `Z` ask."""

UNFINISHED = re.compile(
    rb"(?<!\x1b)\x1b++(?:\[[\x00-\x17\x19\x1c-?\x7f]*+|[ -/]++"
    rb"|\][^\x07\x1b]*+\x1b?+|[P_][^\x1b]*+\x1b?+)?+\Z"
)
"""A sequence's beginning at the end of the data."""

CONTROLS = bytes(range(0x20)) + b"\x7f"
"""Executed inside a control sequence, which continues."""

COLOURS = frozenset(b"%d" % number for number in (4, *range(10, 20)))
"""Numbers of the operating system commands for colours."""

ASK_BY_A_FIELD = COLOURS | {b"5", b"22", b"50", b"52"}
"""Numbers of the commands that ask by a field `?`."""

_ASKS = re.compile(
    rb"[>=]?+[\d;]*+c|\??+[\d;]*+n|\??+[\d;]*+\$p|[\d;]*+x|>[\d;]*+q|\?u|&u|\??+[\d;]*+\$[uw]"
    rb"|(?:1[1345689]|2[01])(?:;[\d;]*+)?+t|\?[\d;]*+[Sm]|[\d;]*+\*y|\d*+'\||\"v|[\d;]*+#R"
)


def control_asks(bare: bytes) -> bool:
    """True for a control sequence, without its introducer and `CONTROLS`, that asks."""
    return _ASKS.fullmatch(bare) is not None


def command_number(command: bytes) -> tuple[bytes, bytes]:
    """Return the number of an operating system command (OSC), without leading zeros, and the rest."""
    number, _, rest = command.partition(b";")
    return number.lstrip(b"0") or number[:1], rest


def command_asks(number: bytes, rest: bytes) -> bool:
    """True for an operating system command that asks."""
    if number in ASK_BY_A_FIELD:
        return b"?" in rest.split(b";")
    match number:
        case b"21":
            return b"?" in rest
        case b"99":
            return b"p=?" in rest
        case b"60" | b"61":
            return not rest
        case b"1337":
            return rest.startswith(b"Report")
    return False


def string_asks(string: bytes) -> bool:
    """True for a device control string (DCS) or a graphics command (APC) that asks."""
    if string[:1] == b"P":
        return string[1:2] in (b"$", b"+") and string[2:3] in (b"q", b"Q")
    keys = string[2:].partition(b";")[0].split(b",")
    return string[1:2] == b"G" and any(key.startswith(b"a=q") for key in keys)


MAX_SEQUENCE = 4_096
"""Bytes of an incomplete sequence that are buffered; a longer one passes by its head."""

_CLIPBOARD = b"52"
_END_OF_STRING = re.compile(rb"\x07|\x1b\\|\x1b(?!\Z)")


class FilteredBytes(msgspec.Struct, frozen=True, gc=False):
    """Bytes without queries, the count of bytes filtered, and True if a filtered string continues."""

    data: bytes
    size: int
    is_open: bool = False


def filter_bytes(data: bytes, *, clipboard: bool = False, final: bool = False) -> FilteredBytes:
    """Filter queries; the data after `size` are incomplete. `final` also filters these."""
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
    """True for a string that asks or writes the clipboard; a long one goes by its head."""
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
