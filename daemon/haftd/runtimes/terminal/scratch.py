"""Renders output once as text, without answers to queries."""

from __future__ import annotations

from typing import Any

from .library import load, used_first
from .variation import SelectorFilter, restore

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
