"""Control sequences in what a program prints: what of it is text, and what only speaks to a terminal.

Rules: pure. Sequences are those of ECMA-48: CSI, the strings OSC DCS APC PM SOS, the short ones, each
also behind an 8-bit introducer. A string is as long as its program made it and ends, as on a terminal, at
BEL, ST, CAN or SUB or before another Escape. One that was never closed takes the rest of its line along, no
more: it ends before the line end. An 8-bit introducer may be a letter of another encoding: it begins a string only
where that is closed within `LONGEST` characters. Line ends, tabs and the other control characters are text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

LONGEST = 4_096
"""How many bytes before an offset show each sequence that goes on there, but for the strings that
`long_strings` has."""

_PIECE = 65_536
_MOST_BROKEN = 1_000
"""Bytes that are no UTF-8; what has more of them is no text, and its introducers are none."""

# Possessive, and no body holds what begins another: no byte is looked at more than a few times.
_SEQUENCE = re.compile(
    rf"""
      (?: \x1b\[ | [\x9b\udc9b] ) [0-?]*+ [ -/]*+ [@-~]
    | \x1b[\]PX^_] [^\x07\x1b\x18\x1a\n\x9c\udc9c]*+ (?: \x07 | \x1b\\ | [\x18\x1a\x9c\udc9c] )?+
    | [\x90\x98\x9d-\x9f\udc90\udc98\udc9d-\udc9f]
      [^\x07\x1b\x18\x1a\n\x90\x98\x9b-\x9f\udc90\udc98\udc9b-\udc9f]{{0,{LONGEST}}}+
      (?: \x07 | \x1b\\ | [\x18\x1a\x9c\udc9c] )
    | \x1b [ -/]*+ [0-~]
    | \x1b
    | [\x90\x98\x9b-\x9f]
    """,
    re.VERBOSE,
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*+[ -/]*+|[\]PX^_][^\x07\x1b\x18\x1a\n]*+|[ -/]*+)\Z")
_WHOLE = re.compile(
    rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|[\]PX^_][^\x07\x1b\x18\x1a\n]*+(?:\x07|\x1b\\|[\x18\x1a])?+|[ -/]*+[0-~])"
)
_BROKEN_STRING = re.compile(
    rb"(\x1b[\]PX^_][^\x07\x1b\x18\x1a\r\n]*+)[\r\n][^\x07\x1b\x18\x1a]*+\Z", re.DOTALL
)
_UNDECODED = re.compile("[\udc80-\udcff]")
_C1 = b"\x90\x98\x9b\x9c\x9d\x9e\x9f"
_BEGINS = ("\x1b", *map(chr, _C1), *(chr(0xDC00 + byte) for byte in _C1))
"""What a sequence begins with, and what stands for a byte that may be one."""


def _replace(error: UnicodeError) -> tuple[str, int]:
    """What stands for bytes that are no UTF-8: U+FFFD, once for each stretch as the standard has it.

    A byte that is an 8-bit introducer is let through as a lone surrogate, for `strip` to see."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    byte = error.object[error.start]
    if error.end - error.start == 1 and byte in _INTRODUCERS:
        return chr(0xDC00 + byte), error.end
    return "\ufffd", error.end


_INTRODUCERS = frozenset(_C1)
_HANDLER = "haft-introducers"
codecs.register_error(_HANDLER, _replace)


def decode(data: bytes) -> str:
    """Return the text of whole bytes: no sequence in it, U+FFFD for what is no UTF-8."""
    pieces = [(piece, piece.decode("utf-8", "replace")) for piece in lines(data)]
    is_text = 0 < sum(text.count("\ufffd") for _, text in pieces) <= _MOST_BROKEN
    return "".join(
        strip(piece.decode("utf-8", _HANDLER) if is_text and "\ufffd" in text else text)
        for piece, text in pieces
    )


def lines(data: bytes) -> Iterator[bytes]:
    """Cut bytes into pieces of whole lines. No character and no sequence goes on behind a line end, and
    a thread that works on one piece after the other lets other threads run in between."""
    at = 0
    while len(data) - at > _PIECE:
        end = data.find(b"\n", at + _PIECE) + 1
        if not end:
            break
        yield data[at:end]
        at = end
    yield data[at:] if at else data


def strip(text: str) -> str:
    """Return the text without sequences."""
    if text.isascii():
        return _SEQUENCE.sub("", text) if "\x1b" in text else text
    # Sixteen searches for one character take a tenth of one search for sequences.
    if not any(introducer in text for introducer in _BEGINS) and _is_unicode(text):
        return text
    return _UNDECODED.sub("\ufffd", _SEQUENCE.sub("", text))


def _is_unicode(text: str) -> bool:
    """Whether nothing in it stands for a byte that was no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def pending(tail: bytes) -> int:
    """Count the bytes at the end of an output that are not to be shown yet: a character or a
    sequence that has not arrived whole. The last `LONGEST` bytes are enough."""
    return _begun(tail) or unfinished(tail)


def _begun(tail: bytes) -> int:
    """Count the bytes at the end of `tail` that are a sequence not yet whole."""
    size = len(tail)
    first = max(0, size - LONGEST)
    begin = tail.rfind(b"\x1b", first)
    if begin < 0 or not _UNFINISHED.match(tail, begin):
        return 0
    if begin == size - 1:
        # An Escape at the end may be the half of the terminator of a string.
        string = tail.rfind(b"\x1b", first, begin)
        if string >= 0 and tail[string + 1] in b"]PX^_" and _UNFINISHED.match(tail[string:begin]):
            begin = string
    return size - begin


def continued(before: bytes, data: bytes) -> int:
    """Count the bytes at the start of `data` that belong to a sequence begun in `before`; the last
    `LONGEST` bytes of the one and the first of the other are enough."""
    begun = _begun(before)
    if not begun:
        return 0
    whole = _WHOLE.match(before[-begun:] + data[:LONGEST])
    return 0 if whole is None else max(0, whole.end() - begun)


def end_broken_string(data: bytes) -> bytes:
    """Return `data` with a string that has not ended at their end cancelled at the first line end in it."""
    begun = _BROKEN_STRING.search(data)
    return data if begun is None else data[: begun.end(1)] + b"\x18" + data[begun.end(1) :]


def unfinished(data: bytes) -> int:
    """Count the bytes at the end of `data` that are a character not yet whole; three are enough."""
    for size in range(1, min(3, len(data)) + 1):
        byte = data[-size]
        if byte >= 0xC0:
            return size if codecs.utf_8_decode(data[-size:], "replace", False)[1] == 0 else 0
        if byte < 0x80:
            return 0
    return 0
