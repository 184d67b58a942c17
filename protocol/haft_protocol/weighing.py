"""How much there is in a long JSON text, told before anything decodes it, a slice at a time.

Rules: whoever weighs lets others run between two steps, each of which takes a millisecond or two. Names
and values are counted by what stands before them: a bracket, a comma, a colon. Of the text nothing is
kept but its brackets. A text that is not well-formed has some weight or other.
"""

from __future__ import annotations

import msgspec

__all__ = ["Scale", "Weight"]

_SLICE = 65_536
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'{}[],:"')
_NOT_BRACKETS = b",:"


class Weight(msgspec.Struct, frozen=True):
    """`values` counts names, too; `brackets` are those outside of texts, in their order."""

    values: int
    brackets: bytes


class Scale:
    """One message being weighed: call `step` until it says that it is done. That is so, too, when
    more than `most` names and values were found."""

    __slots__ = ("_at", "_brackets", "_inside", "_message", "_most", "_values")

    def __init__(self, message: bytes, most: int) -> None:
        self._message = message
        self._most = most
        self._at = 0
        self._inside = False  # a text
        self._values = 1
        self._brackets: list[bytes] = []

    @property
    def weight(self) -> Weight:
        """What was found so far."""
        return Weight(self._values, b"".join(self._brackets))

    def step(self) -> bool:
        """Weigh the next slice; returns whether no other has to be."""
        message, at = self._message, self._at
        piece = message[at : at + _SLICE]
        if piece.endswith(b"\\") and at + len(piece) < len(message):
            # What is escaped stays with its backslash. Where there are only these, they are pairs.
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
        return self._at >= len(message) or self._values > self._most
