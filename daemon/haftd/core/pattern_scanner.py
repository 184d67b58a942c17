"""What the patterns of a handle's definition match in its output, line by line, as it comes.

Rules: pure, a slice at a time: how much one slice is depends on what the expressions cost, so that no
program holds up anybody by what it prints. A line counts once for a pattern, also one that comes
in pieces; of an unfinished line the end is looked at, as a prompt has no line end. Output that the
spool has dropped by then is skipped. What a slice has too much of is counted no further, and said.
"""

from __future__ import annotations

from haftd.expressions import Pattern, compile_expression

from .handles import Handle
from .last_lines import printable
from .matches import MatchedLine
from .notify_settings import NotifyPattern
from .patterns import slice_size
from .text import shown_end

__all__ = ["PatternScanner"]

_MAX_SLICE = 65_536
_COST_DIVISOR = 4
"""A slice is this part of what one who waits for a match would look at: nobody waits for this."""

_MAX_CARRIED_LINE = 4_096
"""How much of an unfinished line is looked at again when more of it has come."""

_MAX_SLICE_MATCHES = 64
_MAX_SHOWN_CHARS = 200
"""Characters of a line that are shown."""


class PatternScanner:
    """Looks at the output of `handle` once, from its beginning."""

    __slots__ = ("_carried", "_handle", "_patterns", "_reported", "_size", "offset")

    def __init__(self, handle: Handle) -> None:
        """Raises `BadExpression`; a definition whose patterns were read raises nothing."""
        self._handle = handle
        self._patterns: list[tuple[NotifyPattern, Pattern]] = [
            (one, compile_expression(one.match, within_lines=True))
            for one in handle.notify.patterns
        ]
        costly = min(slice_size(pattern) for _, pattern in self._patterns)
        share = costly // (_COST_DIVISOR * len(self._patterns))
        self._size = max(1_024, min(_MAX_SLICE, share))
        self._carried = b""
        """The unfinished last line, or its end."""
        self._reported: set[str] = set()
        """The patterns that have matched in it already."""
        self.offset = 0

    @property
    def has_unread(self) -> bool:
        """Whether there is output that was not looked at."""
        spool = self._handle.spool
        return self.offset < spool.end and (
            self._is_complete or self.offset < shown_end(spool, self._handle.rendering)
        )

    @property
    def _is_complete(self) -> bool:
        return self._handle.stopped and self._handle.output_complete

    def scan_slice(self) -> list[MatchedLine]:
        """Look at the next slice."""
        spool, rendering = self._handle.spool, self._handle.rendering
        if spool.start > self.offset:
            self.offset, self._carried = spool.start, b""
            self._reported.clear()
        data = spool.read(self.offset, self.offset + self._size)
        if not data:
            # The output was let go.
            self.offset = spool.end
            return []
        is_last = self.offset + len(data) >= spool.end
        if not (is_last and self._is_complete):
            data = data[: len(data) - rendering.pending(data)] or data
        self.offset += len(data)
        text = self._carried + rendering.plain(data)
        found = [
            one
            for watched, pattern in self._patterns
            for one in self._find_matches(watched, pattern, text)
        ]
        self._carry(text, found)
        found.sort(key=lambda one: one.end)
        return found

    def _find_matches(
        self, watched: NotifyPattern, pattern: Pattern, text: bytes
    ) -> list[MatchedLine]:
        found: list[MatchedLine] = []
        base = self.offset - len(text)
        last = text.rfind(b"\n") + 1
        # What was said of the unfinished line is not said again when it goes on.
        pos = 0
        if watched.name in self._reported:
            first = text.find(b"\n")
            pos = len(text) + 1 if first < 0 else first + 1
        while pos < len(text):
            match = pattern.search(text, pos)
            if match is None or (match.start() == len(text) and last == len(text)):
                break
            begin = text.rfind(b"\n", 0, match.start()) + 1
            end = text.find(b"\n", match.end())
            end = len(text) if end < 0 else end
            is_enough = len(found) + 1 >= _MAX_SLICE_MATCHES
            line = _shown(text[begin:end], match.start() - begin, match.end() - begin)
            found.append(MatchedLine(watched, line, base + match.end(), is_enough))
            pos = end + 1
            if is_enough:
                break
        return found

    def _carry(self, text: bytes, found: list[MatchedLine]) -> None:
        """Remember the unfinished line, and what has matched in it."""
        begin = text.rfind(b"\n") + 1
        if begin:
            self._reported.clear()
        start = self.offset - len(text) + begin
        if begin < len(text):
            self._reported.update(one.pattern.name for one in found if one.end > start)
        self._carried = text[max(begin, len(text) - _MAX_CARRIED_LINE) :]


def _shown(line: bytes, start: int, end: int) -> str:
    """The part of a line that a terminal would show where it matched, begun early enough for that."""
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
