"""Keep U+FE0F on a terminal that does not cluster graphemes.

Rules: the terminal library drops the emoji presentation selector behind a character that is no emoji by
itself, as in the keycap 1️⃣, unless mode 2027 is set. Without that mode the selector has no width, so an
unassigned selector is drawn in its place, which the library keeps, and is translated back in all that is
read. With the mode it makes a character wide, and is drawn as it is.
"""

from __future__ import annotations

import re
from typing import Any

_EMOJI, _STAND_IN = "\ufe0f", "\ufe0d"
_EMOJI_BYTES, _STAND_IN_BYTES = _EMOJI.encode(), _STAND_IN.encode()
_CLUSTERS = 2027
_SET_CLUSTERS = re.compile(rb"\x1b(?:c|\[\?[\d;]{0,32}?2027[\d;]{0,32}[hl])")


class SelectorFilter:
    """Draw on one terminal of the library. A selector may come in pieces."""

    __slots__ = ("_last", "_terminal")

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal
        self._last = b""

    def feed(self, data: bytes) -> None:
        """Draw `data`."""
        if _EMOJI_BYTES in self._last + data:
            at = 0
            for change in _SET_CLUSTERS.finditer(data):
                self._feed(data[at : change.end()])
                at = change.end()
            data = data[at:]
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        whole = self._last + data
        if _EMOJI_BYTES in whole and not self._terminal.mode(_CLUSTERS):
            data = whole.replace(_EMOJI_BYTES, _STAND_IN_BYTES)[len(self._last) :]
        self._last = whole[-2:]
        self._terminal.feed(data)


def restore(text: str) -> str:
    """Return a text of the library as the program printed it."""
    return text.replace(_STAND_IN, _EMOJI)


def restore_bytes(data: bytes) -> bytes:
    """Return what the library has written as the program printed it."""
    return data.replace(_STAND_IN_BYTES, _EMOJI_BYTES)
