"""Counter of names and values in long JSON text, in slices, before decoding.

The bracket, comma or colon before a name or value counts; malformed text has no meaningful count.
"""

from __future__ import annotations

import msgspec

__all__ = ["ValueCount", "ValueCounter"]

_SLICE = 65_536
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'{}[],:"')
_NOT_BRACKETS = b",:"


class ValueCount(msgspec.Struct, frozen=True):
    """`values` includes names; `brackets` are those outside of strings, in order."""

    values: int
    brackets: bytes


class ValueCounter:
    """Counter of one message: call `step` until True, at the end or past `max_values`.

    >>> counter = ValueCounter(b'{"a": [1, 2]}', max_values=100)
    >>> counter.step()
    True
    >>> counter.count
    ValueCount(values=5, brackets=b'{[]}')
    """

    __slots__ = ("_at", "_brackets", "_inside", "_max_values", "_message", "_values")

    def __init__(self, message: bytes, max_values: int) -> None:
        self._message = message
        self._max_values = max_values
        self._at = 0
        self._inside = False  # a string
        self._values = 1
        self._brackets: list[bytes] = []

    @property
    def count(self) -> ValueCount:
        return ValueCount(self._values, b"".join(self._brackets))

    def step(self) -> bool:
        """Count the next slice, in a millisecond or two; return True once finished."""
        message, at = self._message, self._at
        piece = message[at : at + _SLICE]
        if piece.endswith(b"\\") and at + len(piece) < len(message):
            # Do not split an escape; a slice of only backslashes holds whole pairs.
            piece = piece.rstrip(b"\\") or piece
        self._at = at + len(piece)
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        piece = piece.translate(None, _NOT_STRUCTURE)
        if b'"' in piece:
            parts = piece.split(b'"')
            piece = b"".join(parts[1::2] if self._inside else parts[::2])
            self._inside ^= not len(parts) % 2
        elif self._inside:
            piece = b""
        brackets = piece.translate(None, _NOT_BRACKETS)
        self._values += len(piece) - sum(map(brackets.count, (b"}", b"]")))
        self._brackets.append(brackets)
        return self._at >= len(message) or self._values > self._max_values
