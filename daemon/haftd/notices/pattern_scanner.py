"""Scan a handle's output for its notices' patterns, line by line.

A slice shrinks with the expressions' cost. A pattern matches a line once, even in pieces. Its matches
are counted, up to `_MAX_SLICE_MATCHES` of a slice, and the first lines kept: the first error mostly
causes the later errors.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from haft_protocol.states import Notice
from haftd.core.handles import Handle
from haftd.core.patterns import cut_slice, read_slice, slice_size
from haftd.core.text import shown_end
from haftd.core.views import printable
from haftd.match_scheduler import MatchScheduler
from haftd.notice_settings import NoticePattern
from haftd.regex import Pattern, compile_expression, find_match, is_undecided

_MAX_SLICE = 65_536
"""Bytes."""
_COST_DIVISOR = 4
"""Divisor of a waiting reader's slice."""

_MAX_CARRIED_LINE = 4_096
"""Bytes of an unfinished line, searched again when it grows."""

_MAX_SLICE_MATCHES = 64
"""Matches of one pattern, beyond which the rest of the slice is not searched for it."""
_MAX_SHOWN_CHARS = 200
"""Characters of a line in a notice."""


_MAX_LINES = 8
"""Lines of a notice."""


class MatchedLine(msgspec.Struct, frozen=True):
    """Printable line with a match."""

    pattern: NoticePattern
    line: str
    end: int
    """Offset after the match, approximate in rendered text."""
    has_more: bool = False
    """Further matches of the slice were not counted."""


class PatternMatches:
    __slots__ = ("_lines", "count", "end", "has_more", "pattern")

    def __init__(self, pattern: NoticePattern, matches: Iterable[MatchedLine] = ()) -> None:
        self.pattern = pattern
        self.count = 0
        self.end = 0
        self.has_more = False
        """Some matches were not counted."""
        self._lines: list[MatchedLine] = []
        for match in matches:
            self.add(match)

    def add(self, match: MatchedLine) -> None:
        self.count += 1
        self._take((match,), match.end, match.has_more)

    def merge(self, others: PatternMatches) -> None:
        """Add later matches of the same pattern."""
        self.count += others.count
        self._take(others._lines, others.end, others.has_more)

    def _take(self, lines: Iterable[MatchedLine], end: int, more: bool) -> None:
        self._lines = [*self._lines, *lines][:_MAX_LINES]
        self.end = max(self.end, end)
        self.has_more = self.has_more or more

    def make_notice(self, handle: Handle, read: float, at: float) -> Notice:
        """Return the notice of the matches after the offset `read`."""
        unread = [match for match in self._lines if match.end > read]
        count = self.count - (len(self._lines) - len(unread))
        name = self.pattern.name
        if count > 1 or self.has_more:
            at_least = "at least " if self.has_more else ""
            predicate = f"has printed {at_least}{count} lines that match `{name}`"
        else:
            predicate = f"has printed a line that matches `{name}`"
        first = f": {unread[0].line}" if unread else "."
        return Notice(
            kind="tool.content",
            level=self.pattern.level,
            message=f"`{handle.id}` ({handle.tool}) {predicate}{first}",
            at=at,
            id=handle.id,
            pattern=name,
            lines=tuple(match.line for match in unread),
            count=count,
        )


class Slice(msgspec.Struct, frozen=True):
    """Output from `start` to `stop`, its `text` behind the unfinished line before, searched from `context`
    on; `reported` are the patterns that this line has matched. With `has_more` output follows, and decides on a match that
    reaches the end of the text."""

    patterns: tuple[tuple[NoticePattern, Pattern], ...]
    text: bytes
    context: int
    start: int
    stop: int
    reported: frozenset[str]
    has_more: bool

    def find_matches(self) -> list[MatchedLine]:
        """Return the matches of each pattern. Takes a tenth of a second at worst, and can run in a
        thread."""
        return [
            match
            for watched, pattern in self.patterns
            for match in self._matches_of(watched, pattern)
        ]

    def _matches_of(self, watched: NoticePattern, pattern: Pattern) -> list[MatchedLine]:
        matches: list[MatchedLine] = []
        text = self.text
        base = self.stop - len(text)
        last = text.rfind(b"\n") + 1
        carried = _carried_from(text) if self.has_more else None
        # A match is not repeated when its unfinished line grows.
        pos = self.context
        if watched.name in self.reported:
            first = text.find(b"\n")
            pos = len(text) + 1 if first < 0 else first + 1
        while pos < len(text):
            match = find_match(pattern, text, pos, carried)
            if match is None or is_undecided(match, text, carried):
                break
            match_start, match_end = match
            if match_start == len(text) and last == len(text):
                break
            begin = text.rfind(b"\n", 0, match_start) + 1
            end = text.find(b"\n", match_end)
            end = len(text) if end < 0 else end
            is_enough = len(matches) + 1 >= _MAX_SLICE_MATCHES
            line = _cut_line(text[begin:end], match_start - begin, match_end - begin)
            matches.append(MatchedLine(watched, line, base + match_end, is_enough))
            pos = end + 1
            if is_enough:
                break
        return matches


class PatternScanner:
    """Scans the output of a handle: `read`, `Slice.find_matches` and `take` in turn."""

    __slots__ = (
        "_carried",
        "_context",
        "_handle",
        "_patterns",
        "_reported",
        "_size",
        "matching",
        "offset",
    )

    def __init__(self, handle: Handle) -> None:
        """Compile the patterns; raises `InvalidPattern`, never for a loaded definition."""
        self._handle = handle
        self._patterns = tuple(
            (pattern, compile_expression(pattern.match, within_lines=True))
            for pattern in handle.settings.notify.patterns
        )
        self.matching = MatchScheduler(sum(pattern.programsize for _, pattern in self._patterns))
        costly = min(slice_size(pattern) for _, pattern in self._patterns)
        share = costly // (_COST_DIVISOR * len(self._patterns))
        self._size = max(1_024, min(_MAX_SLICE, share))
        self._carried = b""
        """The unfinished last line, or its end."""
        self._context = 0
        """Bytes of `_carried` before the text to search: 1 in the middle of a line, for `^`."""
        self._reported: set[str] = set()
        """Patterns matched in the unfinished line."""
        self.offset = 0

    @property
    def has_unread(self) -> bool:
        spool = self._handle.spool
        return self.offset < spool.end and (
            self._is_complete or self.offset < shown_end(spool, self._handle.rendering)
        )

    @property
    def _is_complete(self) -> bool:
        return self._handle.stopped and self._handle.output_complete

    @property
    def carried_size(self) -> int:
        """Bytes that the text of the next slice has before its new ones."""
        return len(self._carried)

    def read(self, size: int = _MAX_SLICE) -> Slice | None:
        """Read the next slice, with `size` new bytes at most; None if it is outside the text. Call while
        `has_unread`."""
        spool, rendering = self._handle.spool, self._handle.rendering
        if spool.start > self.offset:
            self.offset, self._carried, self._context = spool.start, b"", 0
            self._reported.clear()
        start = self.offset
        data, stop = read_slice(spool, start, min(size, self._size), spool.end)
        if not data and not self._carried:
            # The spool was closed, or the slice is one long control string.
            self.offset = stop
            return None
        if not (stop >= spool.end and self._is_complete):
            data, stop = cut_slice(spool, start, data, stop, rendering)
        self.offset = stop
        text = self._carried + rendering.plain(data)
        return Slice(
            self._patterns,
            text,
            self._context,
            start,
            stop,
            frozenset(self._reported),
            self.has_unread,
        )

    def take(self, part: Slice, matches: list[MatchedLine]) -> list[MatchedLine]:
        """Take the matches of the slice that was read last; return them in order."""
        self._carry(part.text, matches)
        matches.sort(key=lambda match: match.end)
        strings, stop = self._handle.spool.strings, part.stop
        if strings.between(part.start, stop):
            matches = [
                replace(match, end=strings.back(stop, stop - match.end)) for match in matches
            ]
        return matches

    def _carry(self, text: bytes, matches: list[MatchedLine]) -> None:
        begin = text.rfind(b"\n") + 1
        if begin:
            self._reported.clear()
        start = self.offset - len(text) + begin
        if begin < len(text):
            self._reported.update(match.pattern.name for match in matches if match.end > start)
        keep = _carried_from(text)
        if begin or keep:
            self._context = min(keep - begin, 1)
        self._carried = text[keep - self._context if keep else 0 :]


def _carried_from(text: bytes) -> int:
    return max(text.rfind(b"\n") + 1, len(text) - _MAX_CARRIED_LINE)


def _cut_line(line: bytes, start: int, end: int) -> str:
    begin = line.rfind(b"\r", 0, start) + 1
    stop = line.find(b"\r", end)
    piece = line[begin : len(line) if stop < 0 else stop]
    at = start - begin
    cut = (
        max(0, min(at - _MAX_SHOWN_CHARS // 4, len(piece) - _MAX_SHOWN_CHARS))
        if len(piece) > _MAX_SHOWN_CHARS
        else 0
    )
    text = (
        piece[cut : cut + 4 * _MAX_SHOWN_CHARS]
        .decode("utf-8", "replace")
        .lstrip("\ufffd" if cut else "")
    )
    return printable(("…" if cut else "") + text, _MAX_SHOWN_CHARS)
