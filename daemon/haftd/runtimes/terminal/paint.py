"""A screen as bytes: what draws it on an empty terminal of the same size.

Rules:

- What is drawn: text with its styles, the scrolling region, tab stops, modes, the keyboard's and
  the mouse's protocols, character sets, the cursor with its shape and style, the title. Below an
  alternate screen lies the primary one, so that a program that leaves it finds it there.
- What is not: lines above the screen, changed colours of the palette, links, the saved cursor.
- An escape that the program has begun and not finished comes last: what it prints next may follow.
- Synchronized output is not painted: nobody would see the picture before its end.
- What moves the cursor when it is set is set before the cursor is placed.
- Painting holds everybody up: what it does is bounded, whatever is on the screen. Rows are drawn
  with their styles from the top, until `_MAX_STYLED` bytes are written; those below have their
  text alone. On a screen of more than `_MAX_CELLS` neither the colour of what has no text, nor the
  cursor's shape, nor the primary screen below is drawn; nor are more than `_MAX_COLOURS` colours
  of what has no text.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator
from typing import Any

KEPT_UNFINISHED = 65_536
"""How much of an escape that is begun a terminal must keep, to be painted with it."""

_MAX_STYLED = 400_000
"""Bytes; they take some two milliseconds, as does each of the next two."""

_MAX_CELLS = 20_000
_MAX_COLOURS = 800
_BAND = 4_000
"""Cells that are drawn in one go."""

_MAX_AT_ONCE = 131_072
"""Bytes that are written without asking how many there are, which takes as long as writing them."""

_MODE = re.compile(rb"\x1b\[(\??\d+)([hl])")
_REGION = re.compile(rb"\x1b\[(\d+);\d+([rs])")
_CURSOR = re.compile(rb"\x1b\[(\d+);(\d+)H")
_STYLES = re.compile(rb"^(?:\x1b\[[\d:;]*m)+")
_ALTERNATE = (b"?1049", b"?1047", b"?47")
_ORIGIN, _MARGINS, _KEYPAD, _CLUSTERS = b"?6", b"?69", b"?66", b"?2027"
_APART = (*_ALTERNATE, _ORIGIN, _MARGINS, _CLUSTERS, b"?3", b"?40", b"?1048", b"?2026")
"""Modes that are set elsewhere, or not at all."""

_OF_TERMINAL = frozenset({"modes", "scrolling_region", "tabstops", "keyboard"})
_OF_CURSOR = ("cursor", "style", "protection", "kitty_keyboard", "charsets")
_SHAPES = {0: 5, 1: 1, 2: 3}
"""The number of a blinking bar, block and underline; a steady one has the next."""

_FIRST_SHAPE = (1, False)


def paint(core: Any, handle: Any, title: str, *, unfinished: bool) -> bytes:
    """Draw the terminal `handle` of the library `core`, with the escape that is `unfinished`."""
    picture = _Picture(core, handle)
    modes = {found[1]: found[2] for found in _MODE.finditer(picture.before("modes"))}
    parts = []
    if picture.is_alternate():
        # The flag of a mode says no more than how the program came here last.
        entered = next((mode for mode in _ALTERNATE if modes.get(mode) == b"h"), _ALTERNATE[0])
        if picture.cells <= _MAX_CELLS:
            parts.append(_below(core, handle, entered))
        parts.append(_set(entered, b"h") + b"\x1b[0m\x1b[H")
    if modes.get(_CLUSTERS) == b"h":
        parts.insert(0, _set(_CLUSTERS, b"h"))  # It says how wide the text is.
    parts += [picture.tabstops(), picture.text, picture.colours]
    shown = "".join(char for char in title if char.isprintable())
    if shown:
        parts.append(b"\x1b]2;" + shown.encode() + b"\x1b\\")
    if _MARGINS in modes:
        parts.append(_set(_MARGINS, modes[_MARGINS]))
    region, cursor = picture.behind("scrolling_region"), picture.cursor()
    parts += [region, picture.behind("keyboard"), picture.shape]
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
    """Hash all cells of the active screen, with their colours and styles; None for one that is too large."""
    cells = _Cells(core, handle)
    return cells.digest() if cells.cells <= _MAX_CELLS else None


def begun(core: Any, handle: Any) -> bytes:
    """Return the escape, or the character, that is begun; nothing if it is too long to be kept."""
    lib, size = core.lib, core.ffi.new("size_t*")
    told = lib.ghostty_terminal_continuation_buf(handle, core.ffi.NULL, 0, size)
    if told not in (lib.GHOSTTY_SUCCESS, lib.GHOSTTY_OUT_OF_SPACE) or not size[0]:
        return b""
    return _written(core, lambda *to: lib.ghostty_terminal_continuation_buf(handle, *to))


def _set(mode: bytes, state: bytes) -> bytes:
    return b"\x1b[" + mode + state


def _from_origin(cursor: bytes, region: bytes) -> bytes:
    """Count the cursor's place from the corner of the scrolling region."""
    first = {found[2]: int(found[1]) for found in _REGION.finditer(region)}

    def counted(found: re.Match[bytes]) -> bytes:
        row, col = int(found[1]) - first.get(b"r", 1), int(found[2]) - first.get(b"s", 1)
        return b"\x1b[%d;%dH" % (row + 1, col + 1)

    return _CURSOR.sub(counted, cursor, count=1)


def _below(core: Any, handle: Any, entered: bytes) -> bytes:
    """Draw the primary screen, which lies below: of a copy that leaves the alternate one."""
    lib, ffi = core.lib, core.ffi
    snapshot = _written(core, lambda *to: lib.ghostty_snapshot_encode_buf(handle, *to))
    given = ffi.new("uint8_t[]", snapshot)
    decoder, copy = ffi.new("GhosttySnapshotDecoder*"), ffi.new("GhosttyTerminal*")
    told = lib.ghostty_snapshot_decoder_new_buf(ffi.NULL, decoder, given, len(snapshot))
    core.check(told, "read a snapshot")
    try:
        core.check(lib.ghostty_snapshot_decoder_decode(decoder[0], copy), "read a snapshot")
    finally:
        lib.ghostty_snapshot_decoder_free(decoder[0])
    try:
        # An escape that is begun is a part of the copy; CAN ends it.
        leave = b"\x18" + _set(entered, b"l")
        lib.ghostty_terminal_vt_write(copy[0], leave, len(leave))
        picture = _Picture(core, copy[0])
        return picture.text + picture.colours + picture.behind("cursor", "style")
    finally:
        lib.ghostty_terminal_free(copy[0])


def _written(core: Any, write: Any) -> bytes:
    """What a call of the library writes."""
    room, size = _MAX_AT_ONCE, core.ffi.new("size_t*")
    out = core.ffi.new("uint8_t[]", room)
    told = write(out, room, size)
    if told == core.lib.GHOSTTY_OUT_OF_SPACE:
        out = core.ffi.new("uint8_t[]", size[0])
        told = write(out, size[0], size)
    core.check(told, "write")
    return bytes(core.ffi.buffer(out, size[0]))


class _Cells:
    """The active screen of one terminal, cell by cell."""

    __slots__ = ("_cols", "_core", "_handle", "_height", "cells")

    def __init__(self, core: Any, handle: Any) -> None:
        self._core = core
        self._handle = handle
        self._height, self._cols = self._get("ROWS"), self._get("COLS")
        self.cells = self._height * self._cols

    def digest(self) -> int:
        """A hash of all of them."""
        with self._rendered() as state:
            return hash(tuple(tuple(row) for row in self._rows(state)))

    def _rows(self, state: Any) -> Iterator[list[int]]:
        """The cells of each row, as the library packs them; an empty one is 0."""
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


class _Picture(_Cells):
    """The active screen of one terminal, in parts."""

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
        """The text, with styles as far as they may go."""
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
        """The rows from `top` on, without styles."""
        text = self._format(top, self._height - 1, self._cols - 1, styled=False)
        for row, line in enumerate(text.split(b"\n"), top + 1):
            if line:
                yield b"\x1b[%d;1H%b" % (row, line)

    def is_alternate(self) -> bool:
        """Whether it is the alternate screen that is shown."""
        return self._get("ACTIVE_SCREEN", "GhosttyTerminalScreen") != 0

    def before(self, *extras: str) -> bytes:
        """What the library writes before the text for `extras`."""
        return self._format(0, 0, 0, *extras).removesuffix(self._corner)

    def behind(self, *extras: str) -> bytes:
        """What the library writes behind the text for `extras`."""
        return self._format(0, 0, 0, *extras).removeprefix(self._corner)

    def cursor(self) -> bytes:
        """What places the cursor and gives it its style and protocols. One that will wrap has its
        character written again, by the library, or by us where that is blank."""
        placed = self.behind(*_OF_CURSOR)
        at = _CURSOR.match(placed)
        if at is None or not self._get("CURSOR_PENDING_WRAP", "bool"):
            return placed
        is_blank = _STYLES.sub(b"", placed[at.end() :])[:1] in (b"", b"\x1b")
        return at[0] + b" " * is_blank + placed[at.end() :]

    def tabstops(self) -> bytes:
        """The tab stops, where they are not every eight columns."""
        stops = self.before("tabstops")
        usual = b"".join(b"\x1b[%dG\x1bH" % col for col in range(9, self._get("COLS") + 1, 8))
        return b"" if stops in (b"\x1b[3g" + usual, b"\x1b[3g" + usual + b"\x1b[H") else stops

    def _shape(self, state: Any) -> bytes:
        """The shape of the cursor, where it is not as at the start."""
        core = self._core
        cursor = core.init_sized("GhosttyRenderStateCursor")
        key = core.lib.GHOSTTY_RENDER_STATE_DATA_CURSOR
        core.check(core.lib.ghostty_render_state_get(state, key, cursor), "draw the cursor")
        style, blinks = cursor.visual_style, cursor.blinking
        if (style, blinks) == _FIRST_SHAPE or style not in _SHAPES:
            return b""
        return b"\x1b[%d q" % (_SHAPES[style] + (not blinks))

    def _coloured(self, state: Any) -> bytes:
        """The cells that have a colour and no text, in rows that are without text: of those the
        library draws nothing."""
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
        """Whether no cell of `row` has a text, and one has a colour; they are added to `colours`."""
        is_coloured = False
        for cell in set(row):
            if cell not in colours:
                colours[cell] = self._colour(cell)
            if colours[cell] is None:
                return False
            is_coloured = is_coloured or bool(colours[cell])
        return is_coloured

    def _colour(self, cell: int) -> bytes | None:
        """The colour of a cell without text, as SGR has it, empty without one; None for a text."""
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
        """The text of these rows with its styles, and `extras` around it."""
        core = self._core
        lib, ffi = core.lib, core.ffi
        options = core.init_sized("GhosttyFormatterTerminalOptions")
        options.emit = (
            lib.GHOSTTY_FORMATTER_FORMAT_VT if styled else lib.GHOSTTY_FORMATTER_FORMAT_PLAIN
        )
        options.trim = True
        # Without a selection the lines above the screen would be drawn too.
        selection = core.init_sized("GhosttySelection")
        selection.start, selection.end = self._place(0, top), self._place(right, bottom)
        options.selection = selection
        for name in extras:
            setattr(options.extra if name in _OF_TERMINAL else options.extra.screen, name, True)
        formatter = ffi.new("GhosttyFormatter*")
        told = lib.ghostty_formatter_terminal_new(ffi.NULL, formatter, self._handle, options[0])
        core.check(told, "draw the text")
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
