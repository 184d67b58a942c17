"""Match clients' regular expressions against coming output.

`slice_size` bounds the time of one match. `$` also matches at the end of the output so far, for
prompts.
"""

from __future__ import annotations

import re

from haft_protocol.errors import invalid_params, shown
from haft_protocol.patterns import InvalidPattern
from haftd.lazy_pattern import lazy_pattern
from haftd.regex import Pattern, compile_expression

from .long_strings import LongStrings
from .spool import Spool
from .text import STRIPPED, Rendering, shown_end

_MAX_SLICE_COST = 4_000_000
"""Instructions times bytes of one match, 20 ms at worst; at least 1 KiB."""

_MAY_CROSS_LINES = lazy_pattern(
    r"[\x00-\x1f] | \\[^wdbBAzS.\\\[\](){}*+?|^$/\-'\" :;,=<>@#&%!~`_] | \[\^ | \[: | \(\?[a-zA-Z]*s",
    re.VERBOSE,
)
"""Matches an expression that can match a line end, conservatively."""


_BETWEEN = frozenset(b" \t\r\n\a\b")
"""Bytes that a terminal inserts in a wrapped line."""


def compile_pattern(text: str, *, within_lines: bool = False) -> Pattern:
    """Compile an expression, `within_lines` without matches of line ends; raises `invalid_params`."""
    try:
        return compile_expression(text, within_lines=within_lines)
    except InvalidPattern as bad:
        raise invalid_params(
            f"`pattern` {shown(text)} cannot be used: {bad}", field="pattern"
        ) from None


def slice_size(pattern: Pattern) -> int:
    """Return the number of bytes to match at once."""
    return max(1_024, min(262_144, _MAX_SLICE_COST // max(1, pattern.programsize)))


class OutputMatcher:
    """Finds the first match in output of any pieces.

    Carries over the unfinished last line, or any lines if the expression can match a line end: up
    to 64 KiB or 16 KiB, less for a large expression; misses longer matches across pieces. Skips a
    leading `echo` of typed input.
    """

    __slots__ = (
        "_carried",
        "_context",
        "_echo",
        "_held",
        "_limit",
        "_lines",
        "_pattern",
        "_rendering",
        "_size",
        "match_range",
        "offset",
    )

    def __init__(
        self,
        pattern: Pattern,
        start: int = 0,
        before: bytes = b"",
        rendering: Rendering = STRIPPED,
        echo: bytes = b"",
    ) -> None:
        self.offset = start
        """Output offset after the matched text."""
        self.match_range: tuple[int, int] | None = None
        """Offsets of the first match; off by bytes that rendering stripped."""
        self._rendering = rendering
        self._echo = b"".join(echo.split())
        self._held = b""
        self._pattern = pattern
        self._size = slice_size(pattern)
        self._lines = _MAY_CROSS_LINES.search(pattern.pattern[4:]) is None
        self._limit = min(65_536 if self._lines else 16_384, self._size)
        # Context of `^` and `\b`.
        self._carried = before[-1:]
        self._context = len(self._carried)

    def feed(self, data: bytes) -> bool:
        for at in range(0, len(data), self._size):
            if self.match_range is not None:
                break
            piece = data if len(data) <= self._size else data[at : at + self._size]
            self._match_output(piece, self.offset + len(piece))
        return self.match_range is not None

    def scan_spool(self, spool: Spool) -> bool:
        """Match one slice of the spool after `offset`; return True after a match.

        Call while `has_unread`, with checkpoints between. Skips dropped output.
        """
        if self.match_range is not None or not self.has_unread(spool):
            return self.match_range is not None
        if spool.start > self.offset:
            self.offset = spool.start
            self._carried, self._context = b"", 0
        start, strings = self.offset, spool.strings
        stop = min(spool.end, strings.forward(start, self._size))
        data = spool.read_shown(start, stop)
        whole = data[: len(data) - self._rendering.pending(data)] or data
        if len(whole) < len(data):
            stop = strings.offset_of(start, len(whole))
        self._match_output(whole, stop)
        if strings.between(start, stop):
            self._set_true_range(strings, stop)
        return self.match_range is not None

    def _set_true_range(self, strings: LongStrings, stop: int) -> None:
        if self.match_range is not None:
            begin, end = self.match_range
            self.match_range = strings.back(stop, stop - begin), strings.back(stop, stop - end)

    def has_unread(self, spool: Spool) -> bool:
        return self.offset < spool.end and self.offset < shown_end(spool, self._rendering)

    def _match_output(self, data: bytes, stop: int) -> None:
        text = self._rendering.plain(data)
        self.offset = stop
        if self._echo:
            text = self._strip_echo(text)
        self._search(text)

    def finish(self) -> bool:
        """Match the text held back as possible echo, once no output is awaited."""
        if self.match_range is None and self._held:
            held, self._held, self._echo = self._held, b"", b""
            self._search(held)
        return self.match_range is not None

    def _strip_echo(self, text: bytes) -> bytes:
        """Return the text after the echo, perhaps wrapped; without an echo, all."""
        held, self._held = self._held + text, b""
        echo, at = self._echo, 0
        for place, byte in enumerate(held):
            if at == len(echo):
                self._echo = b""
                return held[place:]
            if byte == echo[at]:
                at += 1
            elif byte not in _BETWEEN:
                self._echo = b""
                return held
        if at == len(echo):
            self._echo = b""
        else:
            self._held = held
        return b""

    def _search(self, text: bytes) -> None:
        text = self._carried + text
        match = self._pattern.search(text, self._context)
        if match is not None:
            base = self.offset - len(text)
            self.match_range = (base + match.start(), base + match.end())
            self._carried = b""
            return
        keep = text.rfind(b"\n") + 1 if self._lines else 0
        keep = max(keep, self._context, len(text) - self._limit)
        self._context = min(keep, 1)
        self._carried = text[keep - self._context :]
