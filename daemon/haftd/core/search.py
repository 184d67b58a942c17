"""Line search in a spool's kept output.

Each matching line is returned once, oldest first, long lines cut around the match. The searches of a
reply share a `LineBudget`. Ignores output appended meanwhile.
"""

from __future__ import annotations

from haftd.regex import Match, Pattern

from .patterns import slice_size
from .spool import Spool
from .text import STRIPPED, Rendering, read_head

_MAX_LINE = 4_096
"""Bytes of a line in the reply."""

MAX_REPLY = 2 * 1024 * 1024
"""Bytes of the matches of a call."""

MAX_BATCHED = 1024 * 1024
"""Bytes of the matches of all calls of a batch: half of its text."""

_MATCH_SIZE = 128
"""Bytes of a match beside its line."""

_MAX_STEP_MATCHES = 500
"""Lines matched in one step: two milliseconds."""


class LineBudget:
    """Bytes of matches that a reply still has room for.

    >>> budget = LineBudget(1_000)
    >>> budget.take("x" * 800), budget.take("x" * 800), budget.spent
    (True, False, 928)
    """

    __slots__ = ("_size", "spent")

    def __init__(self, size: int) -> None:
        self._size = size
        self.spent = 0

    def take(self, line: str) -> bool:
        """Take the room of a match; False if there is too little."""
        size = _MATCH_SIZE + len(line.encode())
        if self.spent + size > self._size:
            return False
        self.spent += size
        return True


class Search:
    """Search by steps, with checkpoints between, for a pattern compiled `within_lines`."""

    __slots__ = (
        "_at",
        "_budget",
        "_limit",
        "_line",
        "_pattern",
        "_rendering",
        "_size",
        "_spool",
        "_stop",
        "matches",
        "more",
    )

    def __init__(
        self,
        spool: Spool,
        pattern: Pattern,
        limit: int,
        budget: LineBudget,
        rendering: Rendering = STRIPPED,
    ) -> None:
        self.matches: list[tuple[int, str]] = []
        """Offsets and texts of matching lines."""
        self.more = False
        """Stopped early: there may be further matches."""
        self._spool = spool
        self._rendering = rendering
        self._pattern = pattern
        self._size = slice_size(pattern)
        self._limit = limit
        self._budget = budget
        self._at = 0
        self._line = 0
        self._stop = spool.end

    def step(self) -> bool:
        at, stop = self._at, self._stop
        if at >= stop or self.more:
            return True
        spool, strings = self._spool, self._spool.strings
        if at < spool.start:
            data, end = read_head(spool, at, min(spool.start, at + self._size))
            if end == at:
                # The kept stretch resumes in the middle of the output.
                self._at = self._line = spool.start
                return self._at >= stop
        else:
            end = min(stop, strings.forward(at, self._size))
            data = spool.read_shown(at, end)
            at = max(at, spool.start)
        if end < stop:
            whole = data[: data.rfind(b"\n") + 1] or data
            if len(whole) < len(data):
                data, end = whole, strings.offset_of(at, len(whole))
        self._at = end
        self._match_block(data, at)
        return self._at >= stop or self.more

    def _match_block(self, raw: bytes, at: int) -> None:
        strings, data = self._spool.strings, self._rendering.plain(raw)
        pos = counted = start = count = 0
        while pos < len(data) and not self.more:
            match = self._pattern.search(data, pos)
            if match is None or (match.start() == len(data) and data.endswith(b"\n")):
                break
            begin = data.rfind(b"\n", 0, match.start()) + 1
            end = data.find(b"\n", match.start())
            pos = end + 1 if end >= 0 else len(data) + 1
            # The line in the raw output follows as many line ends as in the rendered text.
            for _ in range(data.count(b"\n", counted, begin)):
                start = raw.find(b"\n", start) + 1
            counted = begin
            line = strings.offset_of(at, start) if start else self._line
            self._found(data[begin : pos - 1], begin, match, line)
            count += 1
            if (
                count == _MAX_STEP_MATCHES
                and end >= 0
                and (next_line := raw.find(b"\n", start) + 1)
            ):
                self._at = self._line = strings.offset_of(at, next_line)
                return
        last = raw.rfind(b"\n")
        if last >= 0:
            self._line = strings.offset_of(at, last + 1)

    def _found(self, line: bytes, begin: int, match: Match, cursor: int) -> None:
        if self.matches and self.matches[-1][0] == cursor:
            return
        if len(self.matches) >= self._limit:
            self.more = True
            return
        text = _shown(line, match.start() - begin, match.end() - begin)
        if self._budget.take(text):
            self.matches.append((cursor, text))
        else:
            self.more = True


def _shown(line: bytes, start: int, end: int) -> str:
    line = line.removesuffix(b"\r")
    if len(line) <= _MAX_LINE:
        return line.decode("utf-8", "replace")
    begin = 0 if end <= _MAX_LINE else max(0, min(start - 1_024, len(line) - _MAX_LINE))
    piece = line[begin : begin + _MAX_LINE].decode("utf-8", "replace").strip("\ufffd")
    return ("…" if begin else "") + piece + ("…" if begin + _MAX_LINE < len(line) else "")
