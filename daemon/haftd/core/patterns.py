"""Regular expressions from outside, on output that is still coming.

Rules: what cannot be compiled is the caller's mistake and gets a sentence. Linear time is not enough, since a large expression still costs microseconds a byte:
`slice_size` says how much text may be given to one in one go so that nobody else waits long.
`^` and `$` mean lines, and `$` also the end of what has been printed so far, as a prompt needs it.
"""

from __future__ import annotations

import re

from haft_protocol.errors import invalid_params, shown
from haftd.expressions import BadExpression, Match, Pattern, compile_expression

from .spool import Spool
from .text import STRIPPED, Rendering, shown_end

__all__ = ["Match", "OutputMatcher", "Pattern", "compile_pattern", "slice_size"]

_MAX_SLICE_COST = 4_000_000
"""Instructions times bytes in one go, 20 ms of the worst there is; at least 1 KiB is taken."""

_MAY_CROSS_LINES = re.compile(
    r"[\x00-\x1f] | \\[^wdbBAzS.\\\[\](){}*+?|^$/\-'\" :;,=<>@#&%!~`_] | \[\^ | \[: | \(\?[a-zA-Z]*s",
    re.VERBOSE,
)
"""Anything that can match a line end; when in doubt, it does."""


_BETWEEN = frozenset(b" \t\r\n\a\b")
"""What a terminal puts between the letters of a line that it wraps."""


def compile_pattern(text: str, *, within_lines: bool = False) -> Pattern:
    """Compile an expression; `within_lines`: nothing in it ever matches a line end.

    Raises `invalid_params`.
    """
    try:
        return compile_expression(text, within_lines=within_lines)
    except BadExpression as bad:
        raise invalid_params(
            f"`pattern` {shown(text)} cannot be used: {bad}", field="pattern"
        ) from None


def slice_size(pattern: Pattern) -> int:
    """Return how many bytes `pattern` should be given in one go."""
    return max(1_024, min(262_144, _MAX_SLICE_COST // max(1, pattern.programsize)))


class OutputMatcher:
    """Finds the first match in output as it comes, in pieces of any size.

    What can still become a match is carried over: the unfinished last line, or a stretch of any
    lines if the expression can match a line end; 64 KiB or 16 KiB of it at most, less for a
    large expression. A longer match that comes in pieces is not seen. What is looked at is the
    text of the output as `rendering` has it plainly, but for an `echo` that it begins with: what
    was typed is no answer to it.
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
        "found",
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
        """The offset in the output after what was looked at."""
        self.found: tuple[int, int] | None = None
        """The offsets of the first match; off by what was stripped from the text that it is in."""
        self._rendering = rendering
        self._echo = b"".join(echo.split())
        self._held = b""
        self._pattern = pattern
        self._size = slice_size(pattern)
        self._lines = _MAY_CROSS_LINES.search(pattern.pattern[4:]) is None
        self._limit = min(65_536 if self._lines else 16_384, self._size)
        # One byte before what is carried, if there is one, tells `^` and `\b` what they follow.
        self._carried = before[-1:]
        self._context = len(self._carried)

    def feed(self, data: bytes) -> bool:
        """Look at what was printed next; returns whether there is a match by now."""
        for at in range(0, len(data), self._size):
            if self.found is not None:
                break
            self._match_output(data if len(data) <= self._size else data[at : at + self._size])
        return self.found is not None

    def scan_spool(self, spool: Spool) -> bool:
        """Look at one slice of what the spool has behind `offset`; returns as `feed` does.

        Call it until not `behind`, letting others run in between. Dropped output is skipped.
        """
        if self.found is not None or not self.has_unread(spool):
            return self.found is not None
        if spool.start > self.offset:
            self.offset = spool.start
            self._carried, self._context = b"", 0
        data = spool.read(self.offset, self.offset + self._size)
        held_back = self._rendering.pending(data)
        self._match_output(data[: len(data) - held_back] or data)
        return self.found is not None

    def has_unread(self, spool: Spool) -> bool:
        """Whether there is output that was not looked at."""
        return self.offset < spool.end and self.offset < shown_end(spool, self._rendering)

    def _match_output(self, data: bytes) -> None:
        text = self._rendering.plain(data)
        self.offset += len(data)
        if self._echo:
            text = self._strip_echo(text)
        self._search(text)

    def finish(self) -> bool:
        """Nothing more is waited for: look also at what may be no more than an echo."""
        if self.found is None and self._held:
            held, self._held, self._echo = self._held, b"", b""
            self._search(held)
        return self.found is not None

    def _strip_echo(self, text: bytes) -> bytes:
        """What follows the echo, which comes in pieces and wrapped; all that was held back where it
        turns out to be none."""
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
            self.found = (base + match.start(), base + match.end())
            self._carried = b""
            return
        keep = text.rfind(b"\n") + 1 if self._lines else 0
        keep = max(keep, self._context, len(text) - self._limit)
        self._context = min(keep, 1)
        self._carried = text[keep - self._context :]
