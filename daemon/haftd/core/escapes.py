"""Separate text from control sequences (ECMA-48) in output.

A string ends at BEL, ST, CAN, SUB or before another Escape; an unclosed one takes the rest of its
line. A control sequence without its final byte ends before the first byte that cannot belong to it.
Neither rule holds after an 8-bit introducer, which may be a letter of another encoding, and a sequence that
begins with one is not waited for.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from haft_protocol.terminal_queries import unfinished_character
from haftd.lazy_pattern import lazy_pattern

MAX_SEQUENCE = 4_096
"""Bytes before an offset that show an open sequence there, except for `long_strings`."""

_PIECE = 65_536
_MAX_BROKEN = 1_000
"""Invalid UTF-8 bytes above which data are binary, without 8-bit introducers."""

# Possessive, and no body contains an opener: each byte is visited a few times at most.
_SEQUENCE = lazy_pattern(
    rf"""
      \x1b\[ [0-?]*+ [ -/]*+ [@-~]?+
    | [\x9b\udc9b] [0-?]*+ [ -/]*+ [@-~]
    | \x1b[\]PX^_] [^\x07\x1b\x18\x1a\n\x9c\udc9c]*+ (?: \x07 | \x1b\\ | [\x18\x1a\x9c\udc9c] )?+
    | [\x90\x98\x9d-\x9f\udc90\udc98\udc9d-\udc9f]
      [^\x07\x1b\x18\x1a\n\x90\x98\x9b-\x9f\udc90\udc98\udc9b-\udc9f]{{0,{MAX_SEQUENCE}}}+
      (?: \x07 | \x1b\\ | [\x18\x1a\x9c\udc9c] )
    | \x1b [ -/]*+ [0-~]
    | \x1b
    | [\x90\x98\x9b-\x9f]
    """,
    re.VERBOSE,
)
_UNFINISHED = lazy_pattern(rb"\x1b(?:\[[0-?]*+[ -/]*+|[\]PX^_][^\x07\x1b\x18\x1a\n]*+|[ -/]*+)\Z")
_WHOLE = lazy_pattern(
    rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|[\]PX^_][^\x07\x1b\x18\x1a\n]*+(?:\x07|\x1b\\|[\x18\x1a])?+|[ -/]*+[0-~])"
)
_BROKEN_STRING = lazy_pattern(
    rb"(\x1b[\]PX^_][^\x07\x1b\x18\x1a\r\n]*+)[\r\n][^\x07\x1b\x18\x1a]*+\Z", re.DOTALL
)
_UNDECODED = lazy_pattern("[\udc80-\udcff]")
_C1 = b"\x90\x98\x9b\x9c\x9d\x9e\x9f"
_BEGINS = ("\x1b", *map(chr, _C1), *(chr(0xDC00 + byte) for byte in _C1))
"""Openers of sequences, and stand-ins for bytes that may be openers."""


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Replace each maximal invalid subpart of UTF-8 by U+FFFD, 8-bit introducers by a lone surrogate."""
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
    if data.isascii() and b"\x1b" not in data:
        return data.decode("ascii")
    pieces = [(piece, piece.decode("utf-8", "replace")) for piece in lines(data)]
    is_text = 0 < sum(text.count("\ufffd") for _, text in pieces) <= _MAX_BROKEN
    return "".join(
        strip(piece.decode("utf-8", _HANDLER) if is_text and "\ufffd" in text else text)
        for piece, text in pieces
    )


def lines(data: bytes) -> Iterator[bytes]:
    """Split bytes into pieces of whole lines, crossed by no character or sequence."""
    at = 0
    while len(data) - at > _PIECE:
        end = data.find(b"\n", at + _PIECE) + 1
        if not end:
            break
        yield data[at:end]
        at = end
    yield data[at:] if at else data


def strip(text: str) -> str:
    if text.isascii():
        return _SEQUENCE.sub("", text) if "\x1b" in text else text
    # Sixteen searches for one character take a tenth of one for sequences.
    if not any(introducer in text for introducer in _BEGINS) and _is_unicode(text):
        return text
    return _UNDECODED.sub("\ufffd", _SEQUENCE.sub("", text))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def pending(tail: bytes) -> int:
    """Count the last bytes that are an incomplete character or sequence; needs `MAX_SEQUENCE` bytes."""
    return _begun(tail) or unfinished_character(tail)


def _begun(tail: bytes) -> int:
    size = len(tail)
    first = max(0, size - MAX_SEQUENCE)
    begin = tail.rfind(b"\x1b", first)
    if begin < 0 or not _UNFINISHED.match(tail, begin):
        return 0
    if begin == size - 1:
        # A final Escape may be half of a terminator.
        string = tail.rfind(b"\x1b", first, begin)
        if string >= 0 and tail[string + 1] in b"]PX^_" and _UNFINISHED.match(tail[string:begin]):
            begin = string
    return size - begin


def continued(before: bytes, data: bytes) -> int:
    """Count the first bytes of `data` that continue a sequence of `before`.

    `MAX_SEQUENCE` bytes of each are enough.
    """
    begun = _begun(before)
    if not begun:
        return 0
    whole = _WHOLE.match(before[-begun:] + data[:MAX_SEQUENCE])
    return 0 if whole is None else max(0, whole.end() - begun)


def end_broken_string(data: bytes) -> bytes:
    """Cancel a string open at the end of `data`, at its first line end."""
    begun = _BROKEN_STRING.search(data)
    return data if begun is None else data[: begun.end(1)] + b"\x18" + data[begun.end(1) :]
