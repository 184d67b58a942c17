"""JSON text before it is decoded: its nesting depth, and the number of its names and values.

`decode_text` reads JSON inside a text, as models write arguments; a message counts it as one value.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

__all__ = [
    "MAX_VALUES",
    "TooManyValues",
    "ValueCount",
    "ValueCounter",
    "decode_text",
    "measure_depth",
]

MAX_VALUES = 100_000
"""Names and values of one text."""

MAX_NESTING = 64
_ROUNDS = 8
_SLICE = 65_536
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'{}[],:"')
_NOT_BRACKETS = b",:"
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")


class ValueCount(msgspec.Struct, frozen=True):
    """`values` includes names; `brackets` are those outside of strings, in order."""

    values: int
    brackets: bytes


class ValueCounter:
    """Counter of one message: call `step` until True, at the end or past `max_values`. The bracket,
    comma or colon before a name or value counts; malformed text has no meaningful count.

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


def measure_depth(message: bytes) -> int:
    """Return the depth of well-formed JSON, 0 for a scalar; 8 MiB take less than a second.

    `message` may be the brackets alone. The innermost are removed, a level per round.
    """
    counter = ValueCounter(message, len(message) + 1)
    while not counter.step():
        pass
    brackets = counter.count.brackets.translate(_TO_SQUARE)
    for depth in range(_ROUNDS):
        if not brackets:
            return depth
        brackets = brackets.replace(b"[]", b"")
    # Few innermost brackets remain: a walk is cheap.
    runs = re.findall(rb"\[+|\]+", brackets)
    level = deepest = 0
    for opening, closing in zip(runs[::2], runs[1::2], strict=False):
        level += len(opening)
        deepest = max(deepest, level)
        level -= len(closing)
    return _ROUNDS + deepest


class TooManyValues(ValueError):
    """Text with more than `MAX_VALUES` names and values; nothing was decoded."""


def decode_text(text: str) -> Any:
    """Decode a JSON text; raise `TooManyValues`, or another ValueError if malformed."""
    data = text.strip().encode()
    if len(data) > MAX_VALUES:  # a shorter text cannot hold as many
        counter = ValueCounter(data, MAX_VALUES)
        while not counter.step():
            pass
        if counter.count.values > MAX_VALUES:
            raise TooManyValues(f"it has more than {MAX_VALUES} names and values")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if isinstance(value, dict | list) and measure_depth(data) > MAX_NESTING:
        raise ValueError(f"it is nested deeper than {MAX_NESTING}")
    return value
