"""Line search in a spool's kept output: read a slice, match its lines, take the matches. Only the
matching may take long; `match_lines` knows no spool, and can run in a thread.

Each matching line is returned once, oldest first, long lines cut around the match. The searches of a
reply share a `LineBudget`. A search ignores output that is appended meanwhile.
"""

from __future__ import annotations

import msgspec

from haftd.regex import Pattern, find_match

from .patterns import cut_slice, read_slice, slice_size
from .spool import Spool
from .text import STRIPPED, Rendering, read_head

_MAX_LINE = 4_096
"""Bytes of a line in the reply, at most."""

MAX_REPLY = 2 * 1024 * 1024
"""Bytes of the matches of a call, at most."""

MAX_BATCHED = 1024 * 1024
"""Bytes of the matches of all calls of a batch, at most: half of its text."""

_MATCH_SIZE = 128
"""Bytes of a match beside its line."""

_MAX_STEP_MATCHES = 500
"""Lines matched in one step, at most: two milliseconds."""


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


class LineMatch(msgspec.Struct, frozen=True, gc=False):
    """Offsets in a text: a line's first byte and its end, -1 without a line end; the match in the line."""

    begin: int
    end: int
    match_start: int
    match_end: int


class Slice(msgspec.Struct, frozen=True, gc=False):
    """Part of the output from `offset` on: `raw` without long control strings, `text` as rendered. At
    most `count` of its lines are matched in one step. A slice of a long line follows the byte `before`, and
    `is_cut` if the line goes on behind it."""

    pattern: Pattern
    offset: int
    raw: bytes
    text: bytes
    count: int
    before: bytes
    is_cut: bool


def match_lines(part: Slice) -> list[LineMatch]:
    """Return the first matching lines of the slice, in order. Takes a tenth of a second at worst, without
    the interpreter's lock."""
    pattern, text, shift = part.pattern, part.before + part.text, len(part.before)
    pos = shift
    carried = len(text) + 1 if part.is_cut else None
    lines: list[LineMatch] = []
    while pos < len(text) and len(lines) < part.count:
        match = find_match(pattern, text, pos, carried)
        if match is None or (match[0] == len(text) and text.endswith(b"\n")):
            break
        match_start, match_end = (at - shift for at in match)
        begin = part.text.rfind(b"\n", 0, match_start) + 1
        end = part.text.find(b"\n", match_start)
        pos = shift + end + 1 if end >= 0 else len(text) + 1
        lines.append(LineMatch(begin, end, match_start, match_end))
    return lines


class Search:
    """Search for a pattern compiled `within_lines`: `read`, `match_lines` and `take` in turn, with
    checkpoints between, until `read` returns None."""

    __slots__ = (
        "_at",
        "_before",
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
        """Offset of the next slice."""
        self._line = 0
        """Offset of the line in which the slice begins."""
        self._before = b""
        """Last byte of the slice before, in the same line."""
        self._stop = spool.end

    def read(self) -> Slice | None:
        """Return the next slice, which ends at a line end if it has one; None at the end, or with
        `more`."""
        at, stop = self._at, self._stop
        if at >= stop or self.more:
            return None
        spool, strings = self._spool, self._spool.strings
        if at < spool.start:
            data, end = read_head(spool, at, min(spool.start, at + self._size))
            if end == at:
                # The kept stretch resumes in the middle of the output.
                self._at = self._line = spool.start
                self._before = b""
                return self.read()
        else:
            data, end = read_slice(spool, at, self._size, stop)
            if end < stop and b"\n" not in data:  # a long line is not cut sooner than others
                end = min(stop, strings.forward(at, self._size))
                data = spool.read_shown(at, end)
            at = max(at, spool.start)
        if end < stop:
            whole = data[: data.rfind(b"\n") + 1]
            if not whole:
                data, end = cut_slice(spool, at, data, end, self._rendering)
            elif len(whole) < len(data):
                data, end = whole, strings.offset_of(at, len(whole))
        self._at = end
        before, text = self._before, self._rendering.plain(data)
        self._before = b"" if data.endswith(b"\n") else text[-1:] or before
        is_cut = bool(self._before) and strings.length(end, stop) > 0
        count = min(_MAX_STEP_MATCHES, self._limit - len(self.matches) + 1)
        return Slice(self._pattern, at, data, text, count, before, is_cut)

    def take(self, part: Slice, lines: list[LineMatch]) -> None:
        """Take the matching lines of the slice that was read last."""
        strings, at, raw, text = self._spool.strings, part.offset, part.raw, part.text
        counted = start = 0
        for line in lines:
            # The line in the raw output follows as many line ends as in the rendered text.
            for _ in range(text.count(b"\n", counted, line.begin)):
                start = raw.find(b"\n", start) + 1
            counted = line.begin
            self._found(text, line, strings.offset_of(at, start) if start else self._line)
            if self.more:
                return
        # The matching stopped at `count` lines: the next slice begins after the last of them.
        is_cut = len(lines) == part.count and lines[-1].end >= 0
        if is_cut and (next_line := raw.find(b"\n", start) + 1):
            self._at = self._line = strings.offset_of(at, next_line)
            self._before = b""
            return
        last = raw.rfind(b"\n")
        if last >= 0:
            self._line = strings.offset_of(at, last + 1)

    def _found(self, text: bytes, line: LineMatch, cursor: int) -> None:
        if self.matches and self.matches[-1][0] == cursor:
            return
        if len(self.matches) >= self._limit:
            self.more = True
            return
        begin = line.begin
        whole = text[begin : line.end if line.end >= 0 else len(text)]
        shown = _shown(whole, line.match_start - begin, line.match_end - begin)
        if self._budget.take(shown):
            self.matches.append((cursor, shown))
        else:
            self.more = True


def _shown(line: bytes, start: int, end: int) -> str:
    line = line.removesuffix(b"\r")
    if len(line) <= _MAX_LINE:
        return line.decode("utf-8", "replace")
    begin = 0 if end <= _MAX_LINE else max(0, min(start - 1_024, len(line) - _MAX_LINE))
    piece = line[begin : begin + _MAX_LINE].decode("utf-8", "replace").strip("\ufffd")
    return ("…" if begin else "") + piece + ("…" if begin + _MAX_LINE < len(line) else "")
