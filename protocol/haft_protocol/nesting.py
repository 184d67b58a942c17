"""Nesting depth of a JSON text, found before decoding.

Rules: the result is defined for well-formed text only. Time grows with length, not with nesting.
"""

from __future__ import annotations

import re

__all__ = ["nesting"]

_ROUNDS = 8
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'{}[]"')


def nesting(message: bytes) -> int:
    """Return the depth of well-formed JSON: 0 for a scalar. 8 MiB of anything take less than a second.

    Strings are removed first, then the innermost pairs of brackets, a level a round: most messages are empty
    after a few.
    """
    if b"\\" in message:
        # In this order: a run of backslashes pairs up from its left, so an escaped quote is
        # whatever is left of `\"` after that.
        message = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    message = message.translate(_TO_SQUARE, _NOT_STRUCTURE)
    # Two quotes side by side are an empty string, or the seam of two strings: either way what
    # follows is as much inside or outside as before.
    message = message.replace(b'""', b"")
    if b'"' in message:
        message = b"".join(message.split(b'"')[::2])
    for depth in range(_ROUNDS):
        if not message:
            return depth
        message = message.replace(b"[]", b"")
    # What is left has few tips for its length, so walking it run by run is cheap.
    runs = re.findall(rb"\[+|\]+", message)
    level = deepest = 0
    for opening, closing in zip(runs[::2], runs[1::2], strict=False):
        level += len(opening)
        deepest = max(deepest, level)
        level -= len(closing)
    return _ROUNDS + deepest
