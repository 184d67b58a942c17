"""Serialise a screen: the bytes that draw it on an empty terminal of its size.

Not drawn: scrollback, changed palette colours, links, the saved cursor, synchronized output. Large
screens lose styles after `_MAX_STYLED` bytes: painting blocks the loop. An unfinished escape comes
last: the next output may complete it.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from typing import Any

from haftd.lazy_pattern import lazy_pattern

KEPT_UNFINISHED = 65_536
"""Bytes of an unfinished escape to keep for painting."""

_MAX_STYLED = 400_000
"""Bytes; some two milliseconds, as the next two."""

_MAX_CELLS = 20_000
_MAX_COLOURS = 800
_BAND = 4_000
"""Cells a call."""

_MAX_AT_ONCE = 131_072
"""Bytes written without asking the size first, which takes as long."""

_MODE = lazy_pattern(rb"\x1b\[(\??\d+)([hl])")
_REGION = lazy_pattern(rb"\x1b\[(\d+);\d+([rs])")
_CURSOR = lazy_pattern(rb"\x1b\[(\d+);(\d+)H")
_STYLES = lazy_pattern(rb"^(?:\x1b\[[\d:;]*m)+")
_ALTERNATE = (b"?1049", b"?1047", b"?47")
_ORIGIN, _MARGINS, _KEYPAD, _CLUSTERS = b"?6", b"?69", b"?66", b"?2027"
_APART = (*_ALTERNATE, _ORIGIN, _MARGINS, _CLUSTERS, b"?3", b"?40", b"?1048", b"?2026")
"""Modes set elsewhere, or not at all."""

_OF_TERMINAL = frozenset({"modes", "scrolling_region", "tabstops", "keyboard"})
_OF_CURSOR = ("cursor", "style", "protection", "kitty_keyboard", "charsets")
_SHAPES = {0: 5, 1: 1, 2: 3}
"""Numbers of blinking shapes; the steady shapes are the next."""

_FIRST_SHAPE = (1, False)


def paint(core: Any, handle: Any, title: str, *, unfinished: bool) -> bytes:
    """Draw the terminal `handle` of the library `core`, with the `unfinished` escape."""
    picture = _Picture(core, handle)
    modes = {match[1]: match[2] for match in _MODE.finditer(picture.before("modes"))}
    parts = []
    if picture.is_alternate():
        # A mode's flag only records the last way to this screen.
        entered = next((mode for mode in _ALTERNATE if modes.get(mode) == b"h"), _ALTERNATE[0])
        if picture.cells <= _MAX_CELLS:
            parts.append(_below(core, handle, entered))
        parts.append(_set(entered, b"h") + b"\x1b[0m\x1b[H")
    if modes.get(_CLUSTERS) == b"h":
        parts.insert(0, _set(_CLUSTERS, b"h"))  # decides the width of text
    parts += [picture.tabstops(), picture.text, picture.colours]
    shown = "".join(char for char in title if char.isprintable())
    if shown:
        parts.append(b"\x1b]2;" + shown.encode() + b"\x1b\\")
    if _MARGINS in modes:
        parts.append(_set(_MARGINS, modes[_MARGINS]))
    region, cursor = picture.after("scrolling_region"), picture.cursor()
    parts += [region, picture.after("keyboard"), picture.shape]
    if modes.get(_ORIGIN) == b"h":
        parts.append(_set(_ORIGIN, b"h"))
        cursor = _from_origin(cursor, region)
    parts.append(cursor)
    for mode, state in modes.items():
        if mode not in _APART:
            parts.append(b"\x1b=" if mode == _KEYPAD else _set(mode, state))
    if unfinished:
        parts.append(begun(core, handle))
    return b"".join(parts)


def digest(core: Any, handle: Any) -> int | None:
    """Hash the active screen's cells; None if too large."""
    cells = _Cells(core, handle)
    return cells.digest() if cells.cells <= _MAX_CELLS else None


def styled_rows(core: Any, handle: Any) -> list[bytes] | None:
    """Return each row as text with SGR sequences; None if the screen is too large."""
    cells = _Cells(core, handle)
    return cells.styled() if cells.cells <= _MAX_CELLS else None


def begun(core: Any, handle: Any) -> bytes:
    """Return the unfinished escape or character; empty if too long."""
    lib, size = core.lib, core.ffi.new("size_t*")
    status = lib.ghostty_terminal_continuation_buf(handle, core.ffi.NULL, 0, size)
    if status not in (lib.GHOSTTY_SUCCESS, lib.GHOSTTY_OUT_OF_SPACE) or not size[0]:
        return b""
    return _written(core, lambda *to: lib.ghostty_terminal_continuation_buf(handle, *to))


def _set(mode: bytes, state: bytes) -> bytes:
    return b"\x1b[" + mode + state


def _from_origin(cursor: bytes, region: bytes) -> bytes:
    first = {match[2]: int(match[1]) for match in _REGION.finditer(region)}

    def counted(match: re.Match[bytes]) -> bytes:
        row, col = int(match[1]) - first.get(b"r", 1), int(match[2]) - first.get(b"s", 1)
        return b"\x1b[%d;%dH" % (row + 1, col + 1)

    return _CURSOR.sub(counted, cursor, count=1)


def _below(core: Any, handle: Any, entered: bytes) -> bytes:
    lib, ffi = core.lib, core.ffi
    snapshot = _written(core, lambda *to: lib.ghostty_snapshot_encode_buf(handle, *to))
    data = ffi.new("uint8_t[]", snapshot)
    decoder, copy = ffi.new("GhosttySnapshotDecoder*"), ffi.new("GhosttyTerminal*")
    status = lib.ghostty_snapshot_decoder_new_buf(ffi.NULL, decoder, data, len(snapshot))
    core.check(status, "read a snapshot")
    try:
        core.check(lib.ghostty_snapshot_decoder_decode(decoder[0], copy), "read a snapshot")
    finally:
        lib.ghostty_snapshot_decoder_free(decoder[0])
    try:
        # CAN ends an unfinished escape of the copy.
        leave = b"\x18" + _set(entered, b"l")
        lib.ghostty_terminal_vt_write(copy[0], leave, len(leave))
        picture = _Picture(core, copy[0])
        return picture.text + picture.colours + picture.after("cursor", "style")
    finally:
        lib.ghostty_terminal_free(copy[0])


def _written(core: Any, write: Any) -> bytes:
    room, size = _MAX_AT_ONCE, core.ffi.new("size_t*")
    out = core.ffi.new("uint8_t[]", room)
    status = write(out, room, size)
    if status == core.lib.GHOSTTY_OUT_OF_SPACE:
        out = core.ffi.new("uint8_t[]", size[0])
        status = write(out, size[0], size)
    core.check(status, "write")
    return bytes(core.ffi.buffer(out, size[0]))


class _Cells:
    __slots__ = ("_cols", "_core", "_handle", "_height", "cells")

    def __init__(self, core: Any, handle: Any) -> None:
        self._core = core
        self._handle = handle
        self._height, self._cols = self._get("ROWS"), self._get("COLS")
        self.cells = self._height * self._cols

    def digest(self) -> int:
        with self._rendered() as state:
            return hash(tuple(tuple(row) for row in self._rows(state)))

    def _rows(self, state: Any) -> Iterator[list[int]]:
        """Yield each row's cells as the library packs them, 0 if empty."""
        core = self._core
        lib, ffi = core.lib, core.ffi
        rows, cells = ffi.new("GhosttyRenderStateRowIterator*"), ffi.new("GhosttyCellsView*")
        core.check(lib.ghostty_render_state_row_iterator_new(ffi.NULL, rows), "read rows")
        try:
            key = lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR
            core.check(lib.ghostty_render_state_get(state, key, rows), "read rows")
            while lib.ghostty_render_state_row_iterator_next(rows[0]):
                key = lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW
                core.check(lib.ghostty_render_state_row_get(rows[0], key, cells), "read a row")
                yield ffi.unpack(cells.ptr, cells.len)
        finally:
            lib.ghostty_render_state_row_iterator_free(rows[0])

    @contextlib.contextmanager
    def _rendered(self) -> Iterator[Any]:
        core = self._core
        state = core.ffi.new("GhosttyRenderState*")
        core.check(core.lib.ghostty_render_state_new(core.ffi.NULL, state), "draw")
        try:
            core.check(core.lib.ghostty_render_state_update(state[0], self._handle), "draw")
            yield state[0]
        finally:
            core.lib.ghostty_render_state_free(state[0])

    def _get(self, key: str, kind: str = "uint16_t") -> int:
        out = self._core.ffi.new(kind + "*")
        which = getattr(self._core.lib, "GHOSTTY_TERMINAL_DATA_" + key)
        self._core.check(self._core.lib.ghostty_terminal_get(self._handle, which, out), key)
        return int(out[0])

    def styled(self) -> list[bytes]:
        """Return each row as text with SGR sequences, also rows of colours only."""
        with self._rendered() as state:
            return [self._styled(number, row) for number, row in enumerate(self._rows(state))]

    def _styled(self, number: int, row: list[int]) -> bytes:
        text = self._format(number, number, self._cols - 1)
        if text or not any(row):
            return text
        parts = []
        for cell, run in itertools.groupby(row):
            colour, width = self._colour(cell), len(list(run))
            parts.append(b"\x1b[0%bm" % (b";48;" + colour if colour else b"") + b" " * width)
        return b"".join(parts)

    def _colour(self, cell: int) -> bytes | None:
        lib, ffi = self._core.lib, self._core.ffi
        kind = ffi.new("GhosttyCellContentTag*")
        lib.ghostty_cell_get(cell, lib.GHOSTTY_CELL_DATA_CONTENT_TAG, kind)
        if kind[0] == lib.GHOSTTY_CELL_CONTENT_BG_COLOR_PALETTE:
            number = ffi.new("uint8_t*")
            lib.ghostty_cell_get(cell, lib.GHOSTTY_CELL_DATA_COLOR_PALETTE, number)
            return b"5;%d" % number[0]
        if kind[0] == lib.GHOSTTY_CELL_CONTENT_BG_COLOR_RGB:
            rgb = ffi.new("GhosttyColorRgb*")
            lib.ghostty_cell_get(cell, lib.GHOSTTY_CELL_DATA_COLOR_RGB, rgb)
            return b"2;%d;%d;%d" % (rgb.r, rgb.g, rgb.b)
        char, styled = ffi.new("uint32_t*"), ffi.new("bool*")
        lib.ghostty_cell_get(cell, lib.GHOSTTY_CELL_DATA_CODEPOINT, char)
        lib.ghostty_cell_get(cell, lib.GHOSTTY_CELL_DATA_HAS_STYLING, styled)
        return b"" if char[0] in (0, 0x20) and not styled[0] else None

    def _format(
        self, top: int, bottom: int, right: int, *extras: str, styled: bool = True
    ) -> bytes:
        core = self._core
        lib, ffi = core.lib, core.ffi
        options = core.init_sized("GhosttyFormatterTerminalOptions")
        options.emit = (
            lib.GHOSTTY_FORMATTER_FORMAT_VT if styled else lib.GHOSTTY_FORMATTER_FORMAT_PLAIN
        )
        options.trim = True
        # Without a selection the scrollback would be drawn.
        selection = core.init_sized("GhosttySelection")
        selection.start, selection.end = self._place(0, top), self._place(right, bottom)
        options.selection = selection
        for name in extras:
            setattr(options.extra if name in _OF_TERMINAL else options.extra.screen, name, True)
        formatter = ffi.new("GhosttyFormatter*")
        status = lib.ghostty_formatter_terminal_new(ffi.NULL, formatter, self._handle, options[0])
        core.check(status, "draw the text")
        try:
            return _written(core, lambda *to: lib.ghostty_formatter_format_buf(formatter[0], *to))
        finally:
            lib.ghostty_formatter_free(formatter[0])

    def _place(self, col: int, row: int) -> Any:
        core = self._core
        kind = "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyGridRef*)"
        find = core.union_fn("ghostty_terminal_grid_ref", kind)
        point, place = core.ffi.new("GhosttyPointS*"), core.init_sized("GhosttyGridRef")
        point.tag = core.lib.GHOSTTY_POINT_TAG_ACTIVE
        point.value.x, point.value.y = col, row
        core.check(find(self._handle, point[0], place), "find a cell")
        return place[0]


class _Picture(_Cells):
    __slots__ = ("_corner", "colours", "shape", "text")

    def __init__(self, core: Any, handle: Any) -> None:
        super().__init__(core, handle)
        self._corner = self._format(0, 0, 0)
        self.text = self._bands()
        self.shape = self.colours = b""
        if self.cells <= _MAX_CELLS:
            with self._rendered() as state:
                self.shape, self.colours = self._shape(state), self._coloured(state)

    def _bands(self) -> bytes:
        last = self._cols - 1
        if self.cells <= _BAND:
            return self._format(0, self._height - 1, last)
        step, parts, size = max(1, _BAND // self._cols), list[bytes](), 0
        for top in range(0, self._height, step):
            if size > _MAX_STYLED:
                parts += self._plain(top)
                break
            band = self._format(top, min(top + step, self._height) - 1, last)
            if band:
                parts.append(b"\x1b[%d;1H%b\x1b[0m" % (top + 1, band))
                size += len(band)
        return b"".join(parts)

    def _plain(self, top: int) -> Iterator[bytes]:
        text = self._format(top, self._height - 1, self._cols - 1, styled=False)
        for row, line in enumerate(text.split(b"\n"), top + 1):
            if line:
                yield b"\x1b[%d;1H%b" % (row, line)

    def is_alternate(self) -> bool:
        return self._get("ACTIVE_SCREEN", "GhosttyTerminalScreen") != 0

    def before(self, *extras: str) -> bytes:
        """Return the bytes for `extras` before the text."""
        return self._format(0, 0, 0, *extras).removesuffix(self._corner)

    def after(self, *extras: str) -> bytes:
        """Return the bytes for `extras` after the text."""
        return self._format(0, 0, 0, *extras).removeprefix(self._corner)

    def cursor(self) -> bytes:
        """Return the bytes that place the cursor. Before a wrap its character must be written
        again: by the library, or here if blank."""
        placed = self.after(*_OF_CURSOR)
        at = _CURSOR.match(placed)
        if at is None or not self._get("CURSOR_PENDING_WRAP", "bool"):
            return placed
        is_blank = _STYLES.sub(b"", placed[at.end() :])[:1] in (b"", b"\x1b")
        return at[0] + b" " * is_blank + placed[at.end() :]

    def tabstops(self) -> bytes:
        """Return the tab stops, unless every eight columns."""
        stops = self.before("tabstops")
        usual = b"".join(b"\x1b[%dG\x1bH" % col for col in range(9, self._get("COLS") + 1, 8))
        return b"" if stops in (b"\x1b[3g" + usual, b"\x1b[3g" + usual + b"\x1b[H") else stops

    def _shape(self, state: Any) -> bytes:
        core = self._core
        cursor = core.init_sized("GhosttyRenderStateCursor")
        key = core.lib.GHOSTTY_RENDER_STATE_DATA_CURSOR
        core.check(core.lib.ghostty_render_state_get(state, key, cursor), "draw the cursor")
        style, blinks = cursor.visual_style, cursor.blinking
        if (style, blinks) == _FIRST_SHAPE or style not in _SHAPES:
            return b""
        return b"\x1b[%d q" % (_SHAPES[style] + (not blinks))

    def _coloured(self, state: Any) -> bytes:
        """Return coloured cells in rows without text, which the library omits."""
        parts: list[bytes] = []
        colours: dict[int, bytes | None] = {}
        for number, row in enumerate(self._rows(state)):
            if not any(row) or not self._has_colours_only(row, colours):
                continue
            if len(colours) > _MAX_COLOURS:
                break
            parts.append(b"\x1b[%d;1H" % (number + 1))
            for cell, run in itertools.groupby(row):
                width = len(list(run))
                colour = colours[cell]
                if colour:
                    parts.append(b"\x1b[0;48;%bm" % colour + b" " * width)
                else:
                    parts.append(b"\x1b[%dC" % width)
            parts.append(b"\x1b[0m")
        return b"".join(parts)

    def _has_colours_only(self, row: list[int], colours: dict[int, bytes | None]) -> bool:
        """True for a row of colours only, which are added to `colours`."""
        is_coloured = False
        for cell in set(row):
            if cell not in colours:
                colours[cell] = self._colour(cell)
            if colours[cell] is None:
                return False
            is_coloured = is_coloured or bool(colours[cell])
        return is_coloured
