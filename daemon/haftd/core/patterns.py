"""Match clients' regular expressions against coming output.

`slice_size` bounds the time of one match, `read_slice` the time of the conversion to text. `$` also matches
at the end of the output so far, for prompts; the end of a slice is not such an end: a match there is searched
again together with the output behind the slice.
"""

from __future__ import annotations

import re

import msgspec

from haft_protocol.errors import invalid_params, shown
from haft_protocol.patterns import InvalidPattern
from haftd.lazy_pattern import lazy_pattern
from haftd.regex import Pattern, compile_expression, find_match, is_undecided

from .escapes import MAX_SEQUENCE, continued
from .spool import Spool
from .text import STRIPPED, Rendering, shown_end

_MAX_SLICE_COST = 4_000_000
"""Instructions times bytes of one match, 20 ms at worst; at least 1 KiB."""

_MAY_CROSS_LINES = lazy_pattern(
    r"[\x00-\x1f] | \\[^wdbBAzS.\\\[\](){}*+?|^$/\-'\" :;,=<>@#&%!~`_] | \[\^ | \[: | \(\?[a-zA-Z]*s",
    re.VERBOSE,
)
"""Matches an expression that can match a line end, conservatively."""

_MAX_RENDERED = 16_384
"""Bytes with control characters converted to text at once: three milliseconds at worst."""

_MIN_SLICE = 4
"""Bytes of the longest UTF-8 character."""

_BETWEEN = frozenset(b" \t\r\n\a\b")
"""Bytes that a terminal inserts in a wrapped line."""
_MAX_BETWEEN = 1_024
"""Bytes more than four times the echo that may still be an echo."""


def compile_pattern(text: str, *, within_lines: bool = False) -> Pattern:
    """Compile an expression, `within_lines` without matches of line ends; raises `invalid_params`."""
    try:
        return compile_expression(text, within_lines=within_lines)
    except InvalidPattern as bad:
        raise invalid_params(
            f"`pattern` {shown(text)} cannot be used: {bad}", field="pattern"
        ) from None


def slice_size(pattern: Pattern) -> int:
    """Return the number of bytes to match in one step."""
    return max(1_024, min(262_144, _MAX_SLICE_COST // max(1, pattern.programsize)))


def read_slice(spool: Spool, start: int, size: int, stop: int) -> tuple[bytes, int]:
    """Return the output from `start` to `stop` without long control strings, some `size` bytes at most,
    fewer with control characters; and the offset behind."""
    data, end = _read(spool, start, max(_MIN_SLICE, min(size, _MAX_RENDERED)), stop)
    if size > _MAX_RENDERED and end < stop and not _has_controls(data):
        longer, longer_end = _read(spool, start, size, stop)
        if not _has_controls(longer):
            return longer, longer_end
    return data, end


def cut_slice(
    spool: Spool, start: int, data: bytes, end: int, rendering: Rendering
) -> tuple[bytes, int]:
    """Return a slice of the output from `start` to `end` without an unfinished last character or sequence;
    with the rest of a sequence that is longer than the slice."""
    size = len(data)
    kept = size - rendering.pending(data)
    if size and not kept and end >= spool.start:
        more, _ = _read(spool, end, MAX_SEQUENCE, spool.end)
        kept = size + continued(data, more)
        data += more[: kept - size]
    if kept in (0, size):
        return data, end
    return data[:kept], spool.strings.offset_of(start, kept)


def _read(spool: Spool, start: int, size: int, stop: int) -> tuple[bytes, int]:
    end = min(stop, spool.strings.forward(start, size))
    return spool.read_shown(start, end), end


def _has_controls(data: bytes) -> bool:
    return b"\x1b" in data or b"\r" in data


class Text(msgspec.Struct, frozen=True, gc=False):
    """Text to search from `context` on."""

    pattern: Pattern
    text: bytes
    context: int
    keep: int
    """Offset from which the text is searched again with more output, if it has no match."""
    has_more: bool
    """Output follows the text."""

    @property
    def carried(self) -> int | None:
        return self.keep if self.has_more else None

    def search(self) -> tuple[int, int] | None:
        """Return the first match. Takes a tenth of a second at worst, without the interpreter's lock, and
        can run in a thread."""
        return find_match(self.pattern, self.text, self.context, self.carried)


class OutputMatcher:
    """Finds the first match in output of any pieces: `next_text`, `Text.search` and `take` in turn.

    Carries over the unfinished last line, or any lines if the expression can match a line end: up
    to 64 KiB or 16 KiB, less for a large expression; misses longer matches across pieces. Skips a
    leading `echo` of typed input.
    """

    __slots__ = (
        "_carried",
        "_context",
        "_echo",
        "_echoed",
        "_held",
        "_limit",
        "_lines",
        "_pattern",
        "_rendering",
        "_undecided",
        "_unsearched",
        "match_range",
        "offset",
        "size",
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
        """Output offset after the text that was read."""
        self.match_range: tuple[int, int] | None = None
        """Offsets of the first match; off by bytes that rendering stripped."""
        self.size = slice_size(pattern)
        """Bytes of a text, at most."""
        self._rendering = rendering
        self._echo = b"".join(echo.split())
        self._echoed = 0
        """Bytes of the echo in `_held`."""
        self._held = bytearray()
        self._unsearched = b""
        self._undecided = False
        """The carried text ends with a match, to be searched again."""
        self._pattern = pattern
        self._lines = _MAY_CROSS_LINES.search(pattern.pattern[4:]) is None
        self._limit = min(65_536 if self._lines else 16_384, self.size)
        # Context of `^` and `\b`.
        self._carried = before[-1:]
        self._context = len(self._carried)

    @property
    def carried_size(self) -> int:
        """Bytes that the next text has before its new ones."""
        return len(self._carried)

    @property
    def has_unsearched(self) -> bool:
        """True if text was read that no `next_text` has returned, or has a match at its end that the output
        behind it decides on."""
        return bool(self._unsearched) or self._undecided

    def has_unread(self, spool: Spool) -> bool:
        if self.has_unsearched:
            return True
        return self.offset < spool.end and self.offset < shown_end(spool, self._rendering)

    def next_text(self, spool: Spool, size: int) -> Text:
        """Read the next text, with some `size` new bytes at most. Call while `has_unread`; skips dropped
        output."""
        if not self._unsearched:
            self._read(spool, size)
        text, self._unsearched = self._unsearched[:size], self._unsearched[size:]
        self._undecided = False
        text = self._carried + text
        keep = text.rfind(b"\n") + 1 if self._lines else 0
        keep = max(keep, self._context, len(text) - self._limit)
        return Text(self._pattern, text, self._context, keep, self.has_unread(spool))

    def _read(self, spool: Spool, size: int) -> None:
        if spool.start > self.offset:
            self.offset = spool.start
            self._carried, self._context = b"", 0
        start = self.offset
        data, stop = read_slice(
            spool, start, min(size, _MAX_RENDERED) if self._echo else size, spool.end
        )
        self.read(*cut_slice(spool, start, data, stop, self._rendering))

    def read(self, data: bytes, stop: int) -> None:
        """Read output that ends at the offset `stop`."""
        text = self._rendering.plain(data)
        self._unsearched = self._strip_echo(text) if self._echo else text
        self.offset = stop

    def take(self, text: Text, match: tuple[int, int] | None, spool: Spool | None = None) -> bool:
        """Take the first match of the last text, if any; return True for one that no more output can change."""
        self._undecided = match is not None and is_undecided(match, text.text, text.carried)
        if match is not None and not self._undecided:
            stop = self.offset - len(self._unsearched)
            begin, end = (len(text.text) - at for at in match)
            if spool is None:
                self.match_range = stop - begin, stop - end
            else:
                self.match_range = spool.strings.back(stop, begin), spool.strings.back(stop, end)
            self._carried = b""
            return True
        self._context = min(text.keep, 1)
        self._carried = text.text[text.keep - self._context :]
        return False

    def release_echo(self) -> bool:
        """Take what was held back as possible echo for output, once no output is awaited; return True
        for some."""
        held, self._held, self._echo = bytes(self._held), bytearray(), b""
        self._unsearched += held
        return bool(held)

    def _strip_echo(self, text: bytes) -> bytes:
        """Return the text after the echo, which may be wrapped; without an echo, all."""
        echo, echoed = self._echo, self._echoed
        for place, byte in enumerate(text):
            if echoed == len(echo):
                self._echo, self._held = b"", bytearray()
                return text[place:]
            if byte == echo[echoed]:
                echoed += 1
            elif byte not in _BETWEEN:
                return self._without_echo(text)
        self._echoed = echoed
        if echoed == len(echo):
            self._echo, self._held = b"", bytearray()
            return b""
        if len(self._held) + len(text) > 4 * len(echo) + _MAX_BETWEEN:
            return self._without_echo(text)
        self._held += text
        return b""

    def _without_echo(self, text: bytes) -> bytes:
        held, self._held, self._echo = bytes(self._held), bytearray(), b""
        return held + text
