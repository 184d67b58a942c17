"""Rows, cursor and title in four calls of the library, with buffers shared by all terminals; runs
of equal style in a row."""

from __future__ import annotations

from typing import Any

from haftd.lazy_pattern import lazy_pattern
from haftd.named_tuple import NamedTuple

from .variation import restore

_FIRST_SIZE = 4_096
_DATA = {
    "CURSOR_Y": "uint16_t",
    "CURSOR_X": "uint16_t",
    "ACTIVE_SCREEN": "GhosttyTerminalScreen",
    "SCROLLBACK_ROWS": "size_t",
    "TITLE": "GhosttyString",
}


class Contents(NamedTuple):
    """Contents of a screen."""

    lines: list[str]
    """Rows without trailing spaces; the last empty rows may be missing."""
    cursor: tuple[int, int]
    alt: bool
    scrollback: int
    title: str


class ScreenReader:
    """Arguments of the library's calls, made once, for the loop's thread alone."""

    def __init__(self, core: Any) -> None:
        from pyghostty._ffi import union_fn

        ffi, lib = core.ffi, core.lib
        self._core = core
        self._grid_ref = union_fn(
            "ghostty_terminal_grid_ref",
            "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyGridRef*)",
        )
        self._point = ffi.new("GhosttyPointS*")
        self._point.tag = lib.GHOSTTY_POINT_TAG_ACTIVE
        self._ref = core.init_sized("GhosttyGridRef")
        self._selection = core.init_sized("GhosttySelection")
        self._options = core.init_sized("GhosttyTerminalSelectionFormatOptions")
        self._options.emit = lib.GHOSTTY_FORMATTER_FORMAT_PLAIN
        self._options.unwrap, self._options.trim = False, True
        self._options.selection = self._selection
        self._size, self._used = _FIRST_SIZE, ffi.new("size_t*")
        self._buffer = ffi.new("uint8_t[]", self._size)
        self._keys = ffi.new(
            "GhosttyTerminalData[]",
            [getattr(lib, f"GHOSTTY_TERMINAL_DATA_{name}") for name in _DATA],
        )
        self._values = [ffi.new(f"{kind}*") for kind in _DATA.values()]
        self._outs = ffi.new("void*[]", [ffi.cast("void*", value) for value in self._values])

    def read(self, terminal: Any, rows: int, cols: int) -> Contents:
        core, count = self._core, self._used
        status = core.lib.ghostty_terminal_get_multi(
            terminal, len(_DATA), self._keys, self._outs, count
        )
        core.check(status, "read the terminal")
        row, col, screen, scrollback, title = (value[0] for value in self._values)
        name = bytes(core.ffi.buffer(title.ptr, title.len)) if title.len else b""
        return Contents(
            restore(self._text(terminal, rows, cols)).split("\n")[:rows],
            (row, col),
            screen != 0,
            scrollback,
            restore(name.decode("utf-8", "replace")),
        )

    def _text(self, terminal: Any, rows: int, cols: int) -> str:
        lib = self._core.lib
        self._selection.start = self._cell(terminal, 0, 0)
        self._selection.end = self._cell(terminal, cols - 1, rows - 1)
        while True:
            status = lib.ghostty_terminal_selection_format_buf(
                terminal, self._options[0], self._buffer, self._size, self._used
            )
            if status != lib.GHOSTTY_OUT_OF_SPACE:
                self._core.check(status, "format the screen")
                return bytes(self._core.ffi.buffer(self._buffer, self._used[0])).decode()
            self._size = self._used[0]
            self._buffer = self._core.ffi.new("uint8_t[]", self._size)

    def _cell(self, terminal: Any, x: int, y: int) -> Any:
        self._point.value.x, self._point.value.y = x, y
        self._core.check(self._grid_ref(terminal, self._point[0], self._ref), "find a cell")
        return self._ref[0]


_readers: list[ScreenReader] = []


def read_screen(core: Any, terminal: Any, rows: int, cols: int) -> Contents:
    if not _readers:
        _readers.append(ScreenReader(core))
    return _readers[0].read(terminal, rows, cols)


_SGR = lazy_pattern(rb"\x1b\[([\d:;]*+)m")
_STRING = lazy_pattern(rb"\x1b\][^\x07\x1b]*+(?:\x07|\x1b\\)")


def runs_of(row: bytes) -> tuple[tuple[str, str], ...]:
    """Split a row of text with SGR sequences, without links and trailing spaces."""
    runs: list[tuple[str, str]] = []
    style: list[str] = []
    at = 0
    row = _STRING.sub(b"", row)
    for match in (*_SGR.finditer(row), None):
        text = row[at : len(row) if match is None else match.start()].decode("utf-8", "replace")
        shown = ";".join(style)
        if text and runs and runs[-1][1] == shown:
            runs[-1] = (runs[-1][0] + text, shown)
        elif text:
            runs.append((text, shown))
        if match is not None:
            at = match.end()
            first, _, rest = match[1].decode().partition(";")
            if first in ("", "0"):
                style, first = [], rest
            elif rest:
                first = f"{first};{rest}"
            style += [first] if first else []
    if runs and not runs[-1][1]:
        text = runs.pop()[0].rstrip(" ")
        runs += [(text, "")] if text else []
    return tuple(runs)
