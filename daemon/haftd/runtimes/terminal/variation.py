"""Keep U+FE0F on a terminal that does not cluster graphemes, as in the keycap 1️⃣.

Without mode 2027 the library drops it after a non-emoji. An unassigned selector, which the library
keeps, is drawn instead and translated back on read.
"""

from __future__ import annotations

from typing import Any

from haftd.lazy_pattern import lazy_pattern

_EMOJI, _STAND_IN = "\ufe0f", "\ufe0d"
_EMOJI_BYTES, _STAND_IN_BYTES = _EMOJI.encode(), _STAND_IN.encode()
_CLUSTERS = 2027
_SET_CLUSTERS = lazy_pattern(rb"\x1b(?:c|\[\?[\d;]{0,32}?2027[\d;]{0,32}[hl])")


class SelectorFilter:
    """Filter for one terminal; a selector may come in pieces."""

    __slots__ = ("_last", "_terminal")

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal
        self._last = b""

    def feed(self, data: bytes) -> None:
        if data.isascii():
            self._last = b""
            self._terminal.feed(data)
            return
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
    return text.replace(_STAND_IN, _EMOJI)


def restore_bytes(data: bytes) -> bytes:
    return data.replace(_STAND_IN_BYTES, _EMOJI_BYTES)
