"""Control sequences in what a program prints: what of it is text, and what only speaks to a terminal.

Rules: pure. Sequences are those of ECMA-48: CSI, the strings OSC DCS APC PM SOS, the short ones, each
also behind an 8-bit introducer. A string ends at BEL, ST, CAN, SUB or, broken, at a line end or after
`LONGEST` characters: then only its introducer is taken out, since no text may be lost to a sequence
that never ends. Line ends, tabs and the other control characters are text.
"""

from __future__ import annotations

import codecs
import re

__all__ = ["LONGEST", "decode", "pending", "strip", "unfinished"]

LONGEST = 4_096
"""How many bytes an unfinished sequence may have; what is longer is text."""

_MOST_BROKEN = 1_000
"""Bytes that are no UTF-8; what has more of them is no text, and its introducers are none."""

# Possessive, and no body holds what begins another: no byte is looked at more than a few times.
_SEQUENCE = re.compile(
    rf"""
      (?: \x1b\[ | [\x9b\udc9b] ) [0-?]*+ [ -/]*+ [@-~]
    | (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f\udc90\udc98\udc9d-\udc9f] )
      [^\x07\x1b\x18\x1a\n\x90\x98\x9b-\x9f\udc90\udc98\udc9b-\udc9f]{{0,{LONGEST}}}+
      (?: \x07 | \x1b\\ | [\x18\x1a\x9c\udc9c] )
    | \x1b [ -/]*+ [0-~]
    | \x1b
    | [\x90\x98\x9b-\x9f]
    """,
    re.VERBOSE,
)
_UNFINISHED = re.compile(
    rb"\x1b(?:\[[0-?]*+[ -/]*+|[\]PX^_][^\x07\x1b\x18\x1a\n]*+\x1b?|[ -/]*+)\Z", re.DOTALL
)
_UNDECODED = re.compile("[\udc80-\udcff]")


def _replace(error: UnicodeError) -> tuple[str, int]:
    """What stands for bytes that are no UTF-8: U+FFFD, once for each stretch as the standard has it.

    A byte that is an 8-bit introducer is let through as a lone surrogate, for `strip` to see."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    byte = error.object[error.start]
    if error.end - error.start == 1 and byte in _INTRODUCERS:
        return chr(0xDC00 + byte), error.end
    return "\ufffd", error.end


_INTRODUCERS = frozenset(b"\x90\x98\x9b\x9c\x9d\x9e\x9f")
_HANDLER = "haft-introducers"
codecs.register_error(_HANDLER, _replace)


def decode(data: bytes) -> str:
    """Return the text of whole bytes: no sequence in it, U+FFFD for what is no UTF-8."""
    text = data.decode("utf-8", "replace")
    if 0 < text.count("\ufffd") <= _MOST_BROKEN:
        text = data.decode("utf-8", _HANDLER)
    return strip(text)


def strip(text: str) -> str:
    """Return the text without sequences."""
    if text.isascii():
        return _SEQUENCE.sub("", text) if "\x1b" in text else text
    return _UNDECODED.sub("\ufffd", _SEQUENCE.sub("", text))


def pending(tail: bytes) -> int:
    """Count the bytes at the end of an output that are not to be shown yet: a character or a
    sequence that has not arrived whole. The last `LONGEST` bytes are enough."""
    if b"\x1b" in tail:
        begun = _UNFINISHED.search(tail, max(0, len(tail) - LONGEST))
        if begun is not None:
            return len(tail) - begun.start()
    return unfinished(tail)


def unfinished(data: bytes) -> int:
    """Count the bytes at the end of `data` that are a character not yet whole; three are enough."""
    for size in range(1, min(3, len(data)) + 1):
        byte = data[-size]
        if byte >= 0xC0:
            return size if codecs.utf_8_decode(data[-size:], "replace", False)[1] == 0 else 0
        if byte < 0x80:
            return 0
    return 0
