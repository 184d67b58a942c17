"""The lines that one pattern has matched in one handle's output and that nobody was told of yet.

Rules: bounded: the first lines are kept, as the first error is mostly the cause of the others, and all
are counted. What the session has read since is not told. Section 7, `tool.content`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from haft_protocol.states import Notice

from .handles import Handle
from .notify_settings import NotifyPattern

__all__ = ["MatchedLine", "PatternMatches"]

_MAX_LINES = 8


class MatchedLine(msgspec.Struct, frozen=True):
    """A line that matches a pattern, as it may be shown, and the offset in the output behind it; no
    more than about, where the text is shorter than what was printed. `more`: there are others that
    were not looked at."""

    pattern: NotifyPattern
    line: str
    end: int
    has_more: bool = False


class PatternMatches:
    """What one pattern has found."""

    __slots__ = ("_lines", "count", "end", "has_more", "pattern")

    def __init__(self, watched: NotifyPattern, found: Iterable[MatchedLine] = ()) -> None:
        self.pattern = watched
        self.count = 0
        self.end = 0
        """The offset behind the last one."""
        self.has_more = False
        """There are more than were counted."""
        self._lines: list[MatchedLine] = []
        for one in found:
            self.add(one)

    def add(self, found: MatchedLine) -> None:
        """One more."""
        self.count += 1
        self._take((found,), found.end, found.has_more)

    def merge(self, others: PatternMatches) -> None:
        """What was found after these."""
        self.count += others.count
        self._take(others._lines, others.end, others.has_more)

    def _take(self, lines: Iterable[MatchedLine], end: int, more: bool) -> None:
        self._lines = [*self._lines, *lines][:_MAX_LINES]
        self.end = max(self.end, end)
        self.has_more = self.has_more or more

    def notice(self, handle: Handle, read: float, at: float) -> Notice:
        """What there is to tell of those behind what was read up to `read`."""
        unread = [one for one in self._lines if one.end > read]
        count = self.count - (len(self._lines) - len(unread))
        name = self.pattern.name
        if count > 1 or self.has_more:
            least = "at least " if self.has_more else ""
            what = f"has printed {least}{count} lines that match `{name}`"
        else:
            what = f"has printed a line that matches `{name}`"
        first = f": {unread[0].line}" if unread else "."
        return Notice(
            kind="tool.content",
            level=self.pattern.level,
            message=f"`{handle.id}` ({handle.tool}) {what}{first}",
            at=at,
            id=handle.id,
            pattern=name,
            lines=tuple(one.line for one in unread),
            count=count,
        )
