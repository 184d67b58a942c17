"""The text of a terminal's output, by lines, as a user would have read it, from the bytes alone.

Output that only appends is stripped of sequences; other output is drawn on a scratch terminal for
its changed lines. Output slow to draw gives the last text of a rewritten line. The alternate screen
gives its changed rows. A control string that a killed process left open ends at the line end. Mark
and padding before a shell's prompt (zsh's PROMPT_SP, fish) are a line end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from haftd.core import escapes
from haftd.core.spool import Spool
from haftd.core.text import WHOLE, is_at_line_start
from haftd.lazy_pattern import lazy_pattern

from .library import load, used_first
from .variation import SelectorFilter, restore

_CONTEXT = 16_384
"""Bytes drawn before a stretch: a few screens."""

_MAX_WORK = 10_000
"""Cost of whole-screen sequences in one call, in about microseconds."""

_MAX_ESCAPES = 8_192
"""More than a program prints for one read; each takes time to parse."""

_HISTORY = 256 << 20
"""Bytes of scrollback: more than `WHOLE` can make."""

_MAX_CELLS = 100_000
"""Cells of a terminal that is drawn."""

# Bounded counts limit backtracking.
_HEAVY = lazy_pattern(
    rb"(?P<cheap>\x1b\[[\d;:]{0,32}+[mHfABCDEFGKd`]|\x1b[()]B|\x1b[=>78])"
    rb"|(?P<reset>\x1bc)|(?P<many>\x1b\[\??[\d;]{0,32}\d{3}[\d;]{0,32}+[@-~])|\x1b|[\n\x0b\x0c]"
)
_HARMLESS = lazy_pattern(
    r"""
      \x1b\[ [<=>?]? [\d;:]{0,64}+ m                # colours; modifyOtherKeys
    | \x1b\[ \? (?! [\d;]{0,64} \b(?:3|5|6|47|69|1047|1049)\b ) [\d;]{0,64}+ [hl]  # modes
    | \x1b\[ 0? [KJ]                                # nothing follows the cursor
    | \x1b\[ [>=?]? \d{0,9}+ c | \x1b\[ \d{0,9}+ n | \x1b\[ \?? [\d;]{0,64}+ \$p   # queries
    | \x1b\[ > \d{0,9}+ q | \x1b\[ [\d;]{0,64}+ t | \x1b\[ \d{0,9}+ [ ] q
    | \x1b\[ [<=>?] [\d;]{0,64}+ u
    | \x1b\] [^\x07\x1b\x18\x1a\n]{0,4096}+ (?: \x07 | \x1b\\ )         # titles, links, marks
    | \x1bP [^\x07\x1b\x18\x1a\n]{0,4096}+ \x1b\\
    | \x1b [=>] | \x1b [()] B
    | [\x00\x07]
    """,
    re.VERBOSE,
)
_DRAWS = lazy_pattern("[\x08\x0b\x0c\x0e\x0f\r\x1b\x84\x85\x8d\x90\x98\x9b-\x9f]")
_LINE_ENDS = lazy_pattern("(?<!\r)\r++\n")
_AT_LINE_START_RAW = lazy_pattern(rb"(?<!\r)\r*+\n\r*+")
_MARKS = lazy_pattern(rb"\x1b\]133;[^\x07\x1b\x18\x1a\n]{0,4096}+(?:\x07|\x1b\\)")
"""A shell's marks, at which the library inserts a line break."""

_AT_LINE_START = lazy_pattern("(?<=\n)\r+")
_STYLE = rb"(?:\x1b\[[\d;:]{0,32}+m|\x1b\(B)"
_PAD = lazy_pattern(rb"(?<! )[ ]{8,}+\r[^\x00-\x20\x7f]{0,8}+([ ]{1,8}+)\r")
"""A shell's padding: a row of spaces, less the width of the mark before; then spaces over the mark.
The mark may appear again in between."""

_PAD_MARK = rb"%b{0,8}+(?:[\x21-\x7e]|[\xc2-\xf4][\x80-\xbf]{1,3}){1,%d}%b{0,8}+\Z"
_MAX_PAD_MARK_LENGTH = 256
_MODES = lazy_pattern(rb"\x1b\[\?([\d;]{1,64}+)[hl]")
_ALTERNATE = {b"47", b"1047", b"1049"}


_MAX_BLANK = 256
"""Consecutive blank lines counted singly."""


class Scratch:
    """Terminal for one rendering, to be closed; `history` is the scrollback in bytes."""

    __slots__ = ("_cols", "_core", "_filter", "_rows", "_terminal")

    def __init__(self, rows: int, cols: int, *, history: int) -> None:
        core = self._core = load()
        self._rows, self._cols = rows, cols
        self._terminal: Any = core.Terminal(cols, rows, scrollback=history)
        self._filter = SelectorFilter(self._terminal)
        option = core.lib.GHOSTTY_TERMINAL_OPT_SCROLLBACK_MAX_BYTES
        size = core.ffi.new("size_t*", history)
        core.check(core.lib.ghostty_terminal_set(self._terminal._t[0], option, size), "set history")

    def feed(self, data: bytes) -> None:
        if data:
            self._filter.feed(data)

    @property
    def alt(self) -> bool:
        return bool(self._terminal.get("active_screen", "GhosttyTerminalScreen"))

    @property
    def column(self) -> int:
        """Cursor column, from 0."""
        return int(self._terminal.cursor[0])

    def around_cursor(self) -> tuple[str, str]:
        """Return the text before and after the cursor, with wrapped lines joined."""
        terminal, cols = self._terminal, self._cols
        above = terminal.get("scrollback_rows", "size_t")
        col, row = terminal.cursor
        row += above
        if col and self._span(0, row, col - 1, row):
            before = self._span(0, 0, col - 1, row)
        else:
            before = self._above(row)
        return before, self._span(col, row, cols - 1, above + self._rows - 1)

    def _above(self, row: int) -> str:
        last = self._cols - 1
        blank = 0
        while blank < min(row, _MAX_BLANK) and not self._span(
            0, row - blank - 1, last, row - blank - 1
        ):
            blank += 1
        text = self._span(0, 0, last, row - 1) + "\n" if blank < row else ""
        return text + "\n" * blank

    def _span(self, left: int, top: int, right: int, bottom: int) -> str:
        core, terminal = self._core, self._terminal
        selection = core.init_sized("GhosttySelection")
        selection.start = terminal.ref(left, top, "screen")[0]
        selection.end = terminal.ref(right, bottom, "screen")[0]
        options = core.init_sized("GhosttyTerminalSelectionFormatOptions")
        options.emit = core.lib.GHOSTTY_FORMATTER_FORMAT_PLAIN
        options.unwrap, options.trim, options.selection = True, False, selection
        write = core.lib.ghostty_terminal_selection_format_buf
        handle = terminal._t[0]
        text: str = core.read_buf(
            lambda out, size, used: write(handle, options[0], out, size, used)
        )
        return restore(text)

    def close(self) -> None:
        self._terminal.close()


@used_first
def _warm_up() -> None:
    drawn = Scratch(2, 8, history=4096)
    drawn.feed(b"x")
    drawn.around_cursor()
    drawn.close()


class Transcript:
    """Rendering of one terminal's output; see `core.text.Rendering`."""

    __slots__ = ("_cols", "_rows")

    def __init__(self, rows: int, cols: int) -> None:
        self._rows = rows
        self._cols = cols

    def resize(self, rows: int, cols: int) -> None:
        self._rows, self._cols = rows, cols

    def is_shorter(self, data: bytes) -> bool:
        return True

    def pending(self, tail: bytes) -> int:
        """Return the length of the incomplete tail: a carriage return waits for the line end or the
        replacing text."""
        returns = len(tail) - len(tail.rstrip(b"\r"))
        return max(returns, escapes.pending(tail))

    def deferred(self, spool: Spool, start: int, data: bytes) -> Callable[[], Iterable[str]]:
        at_line_start = is_at_line_start(spool, start)
        return lambda: (_long_text(data, at_line_start=at_line_start),)

    def plain(self, data: bytes) -> bytes:
        data = _without_pads(data)
        if b"\x1b" in data:
            data = escapes.decode(data).encode()
        return _AT_LINE_START_RAW.sub(b"\n", data).lstrip(b"\r") if b"\r" in data else data

    def text(self, spool: Spool, start: int, data: bytes) -> str:
        if data.count(b"\x1b") > _MAX_ESCAPES:
            return _written_last(data)
        text = _appended(data, at_line_start=is_at_line_start(spool, start))
        if text is not None:
            return text
        context = spool.read_shown(spool.strings.back(start, _CONTEXT), start)
        if len(context) < start:
            context = context[context.find(b"\n") + 1 :]
        cells = self._rows * self._cols
        heavy = len(data) > WHOLE or cells > _MAX_CELLS
        if heavy or _draw_cost_us(context + data, cells) > _MAX_WORK:
            return _written_last(data)
        scratch = Scratch(self._rows, self._cols, history=_HISTORY)
        try:
            return _drawn(scratch, context, data)
        finally:
            scratch.close()


def _long_text(data: bytes, *, at_line_start: bool) -> str:
    text = None
    if data.count(b"\x1b") <= _MAX_ESCAPES:
        text = _appended(data, at_line_start=at_line_start)
    return _written_last(data) if text is None else text


def _appended(data: bytes, *, at_line_start: bool) -> str | None:
    parts: list[str] = []
    for piece in escapes.lines(data):
        text = _appended_lines(piece, at_line_start=at_line_start or bool(parts))
        if text is None:
            return None
        parts.append(text)
    return "".join(parts)


def _appended_lines(data: bytes, *, at_line_start: bool) -> str | None:
    text = data.decode("utf-8", "replace")
    if "\x1b" in text or "\x07" in text or "\0" in text:
        text = _HARMLESS.sub("", text)
    if "\r" in text:
        text = _LINE_ENDS.sub("\n", text)
        text = _AT_LINE_START.sub("", text.lstrip("\r") if at_line_start else text)
    return None if _DRAWS.search(text) else text


def _written_last(data: bytes) -> str:
    text = escapes.decode(_without_pads(data))
    lines = _LINE_ENDS.sub("\n", text).split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def _pads(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield a shell's paddings, from mark to prompt."""
    if b" \r" not in data:
        return
    for pad in _PAD.finditer(data):
        first = max(0, pad.start() - _MAX_PAD_MARK_LENGTH)
        mark = re.compile(_PAD_MARK % (_STYLE, len(pad[1]), _STYLE))
        match = mark.search(data, first, pad.start())
        if match is not None:
            yield match.start(), pad.end()


def _without_pads(data: bytes) -> bytes:
    parts: list[bytes] = []
    at = 0
    for start, end in _pads(data):
        before = escapes.decode(data[max(at, start - _MAX_PAD_MARK_LENGTH) : start]).rstrip("\r")
        parts += [data[at:start], b"" if not before or before.endswith("\n") else b"\n"]
        at = end
    return b"".join([*parts, data[at:]]) if parts else data


def _feed(terminal: Scratch, data: bytes) -> None:
    at = 0
    for start, end in _pads(data):
        terminal.feed(data[at:start])
        terminal.feed(b"\r\n" if terminal.column else b"\r")
        at = end
    terminal.feed(data[at:])


def _draw_cost_us(data: bytes, cells: int) -> float:
    """Return the measured microseconds of the expensive sequences."""
    once, each = 0.0, 1 + cells / 1_500
    for heavy in _HEAVY.finditer(data):
        match heavy.lastgroup:
            case "cheap":
                pass
            case "reset":
                once += 40 + each
            case "many":
                once += 45 + each
            case _:
                once += each if heavy[0] == b"\x1b" else 0.75
    return once


def _drawn(terminal: Scratch, context: bytes, data: bytes) -> str:
    context, data = _MARKS.sub(b"", context), _MARKS.sub(b"", data)
    whole = escapes.end_broken_string(context + data)
    if len(whole) > len(context) + len(data):
        context = escapes.end_broken_string(context)
        data = whole[len(context) :]
    _feed(terminal, context)
    before = _page(terminal)
    parts: list[str] = []
    at = 0
    for switch in _MODES.finditer(data):
        if _ALTERNATE.isdisjoint(switch[1].split(b";")):
            continue
        _feed(terminal, data[at : switch.start()])
        if not before.alt:
            parts.append(_added(before, _page(terminal)))
        terminal.feed(data[switch.start() : switch.end()])
        before, at = _page(terminal), switch.end()
    _feed(terminal, data[at:])
    parts.append(_added(before, _page(terminal)))
    return "".join(parts)


class _Page(msgspec.Struct, frozen=True):
    """All lines, and the number of the cursor's, without spaces after the cursor (line editors pad) and
    without trailing empty lines."""

    lines: list[str]
    line: int
    alt: bool


def _page(terminal: Scratch) -> _Page:
    above, below = terminal.around_cursor()
    after, *rest = below.rstrip("\n ").split("\n")
    lines = [*(above + after.rstrip(" ")).split("\n"), *rest]
    line = above.count("\n")
    for at, text in enumerate(lines):
        if at != line and text.endswith(" "):
            lines[at] = text.rstrip(" ")
    return _Page(lines, line, terminal.alt)


def _added(before: _Page, now: _Page) -> str:
    old, new = before.lines, now.lines
    if now.alt:
        return _changed_rows(old, new)
    rewritten = [line for at, line in enumerate(new[: before.line]) if line != _at(old, at)]
    growing, shown = _at(new, before.line), _at(old, before.line)
    rest = [
        line
        for at, line in enumerate(new[before.line + 1 :], before.line + 1)
        if at >= len(old) or line != old[at]
    ]
    if growing.startswith(shown):
        growing = growing[len(shown) :]
    text = "\n".join([growing, *rest])
    return "".join(f"{line}\n" for line in rewritten if line) + text


def _changed_rows(old: list[str], new: list[str]) -> str:
    """Return the changed rows, and the blank rows between them."""
    parts: list[str] = []
    blank: int | None = None
    for at, line in enumerate(new):
        if not line:
            blank = None if blank is None else blank + 1
        elif line == _at(old, at):
            blank = None
        else:
            parts.append("\n" * (blank or 0) + line + "\n")
            blank = 0
    return "".join(parts)


def _at(lines: list[str], at: int) -> str:
    return lines[at] if at < len(lines) else ""
