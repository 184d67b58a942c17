"""Matches of one pattern in a handle's output, for a notice of kind `tool.content`.

All are counted, the first lines kept: the first error mostly causes the others.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from haft_protocol.states import Notice
from haftd.core.handles import Handle
from haftd.notice_settings import NoticePattern

_MAX_LINES = 8


class MatchedLine(msgspec.Struct, frozen=True):
    """Printable line with a match, and the offset after the match, approximate in rendered text.

    `has_more`: further matches of the slice were not counted.
    """

    pattern: NoticePattern
    line: str
    end: int
    has_more: bool = False


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

    def notice(self, handle: Handle, read: float, at: float) -> Notice:
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
