"""The screen of a terminal, and the encoding of its keyboard.

Drawing is lazy until the first escape or ENQ: then a process may await a reply. Lines beyond the
scrollback are never drawn. Drawing blocks the daemon: pieces take `_TURN_S` over all terminals,
snapshots at most `_SNAPSHOT_S` in a pass of the loop. Escapes that read files, keep pictures or
report the title are off.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from haft_protocol import states
from haft_protocol.inputs import Mouse
from haftd.core.escapes import end_broken_string
from haftd.runtimes.base import InputRefused
from haftd.runtimes.keys import KeyPress

from . import draw_scheduler, library
from .draw_scheduler import MAX_PIECE, PIECE, split_by_cost
from .encoders import CELL, KeyEncoder, MouseEncoder, encode_paste
from .frames import Frames
from .library import hooks, used_first
from .paint import KEPT_UNFINISHED, begun, digest, paint, styled_rows
from .screen_reader import read_screen, runs_of
from .variation import SelectorFilter, restore, restore_bytes

_MAX_WAITING = 393_216
"""Bytes without an escape that wait for a look, drawn within a snapshot's limit."""

_MAX_UNLOADED = 65_536
"""Bytes that may await the library."""

_TURN_S = 0.001
"""Seconds of processor time, so that a busy machine draws as much."""

_SNAPSHOT_S = 0.004

_SLOW_S = 0.002
"""Beyond this the cost is unknown to `split_by_cost`: the next pieces are smaller."""

_FAST_S = 0.0002
"""Below this the next piece is twice as large."""

_SMALL_PIECES_BYTES = 1 << 20
"""Bytes drawn in small pieces after a slow one."""

_FOREGROUND, _BACKGROUND = (0xE5, 0xE5, 0xE5), (0, 0, 0)
"""Reply to queries for colours: dark."""

_SCROLLBACK_BYTES = 2 << 20
"""Memory of the scrollback: over 2,000 lines of 80 columns."""

_MIN_CELL_BYTES = 8

_SCROLLBACK_LINES = 100_000
"""Never reached: dropping lines at a limit takes ten times as long as dropping a page."""

_BRACKETED_PASTE = 2004
_BACKARROW = 67
_PROBE_KEY, _PROBE_BYTES = KeyPress(char="i", ctrl=True), b"\x1b[27;5;105~"
"""Only a key reveals modifyOtherKeys."""


class Screen:
    """Screen, with rows and columns from 0; loads the library on first use."""

    __slots__ = (
        "_at",
        "_bytes",
        "_cols",
        "_drawn_size",
        "_filter",
        "_frames",
        "_has_escapes",
        "_keys",
        "_mouse",
        "_on_reply",
        "_painted",
        "_piece_size",
        "_plain_keys",
        "_prompt_at",
        "_redraws",
        "_rows",
        "_small_pieces_until",
        "_snapshot",
        "_snapshot_pass",
        "_snapshot_spent",
        "_terminal",
        "_waiting",
        "_waiting_size",
    )

    def __init__(self, rows: int, cols: int, on_reply: Callable[[bytes], None]) -> None:
        self._rows = rows
        self._cols = cols
        self._on_reply = on_reply
        self._drawn_size = (rows, cols)
        self._waiting: deque[bytes | tuple[int, int]] = deque()  # output, or a new size
        self._at = 0  # bytes drawn of the first
        self._piece_size = PIECE
        self._small_pieces_until = 0  # no larger pieces before this offset
        self._snapshot_pass = -1  # pass of the last snapshot
        self._snapshot_spent = 0.0  # its seconds of snapshots
        self._waiting_size = 0
        self._prompt_at = -1  # offset of the last prompt, if no output followed
        self._frames = Frames()
        self._has_escapes = False
        self._terminal: Any = None
        self._filter: SelectorFilter | None = None
        self._keys: KeyEncoder | None = None
        self._plain_keys: KeyEncoder | None = None
        self._mouse: MouseEncoder | None = None
        self._bytes = 0
        self._redraws = 0
        self._snapshot: states.Screen | None = None
        self._painted: bytes | None = None

    @property
    def revision(self) -> int:
        """Count of drawn bytes, resizes and cancelled strings."""
        return self._bytes + self._redraws

    @property
    def must_load(self) -> bool:
        """True if waiting bytes need the library: the owner runs `load` and draws."""
        if library.is_loaded():
            return False
        return self._wants_feeding or self._waiting_size >= _MAX_UNLOADED

    @property
    def has_backlog(self) -> bool:
        return bool(self._waiting)

    @property
    def waits_for_library(self) -> bool:
        """True if the backlog would load the library."""
        return bool(self._waiting) and not library.is_loaded()

    @property
    def is_behind(self) -> bool:
        """True if the backlog should be drawn before more output."""
        if library.is_loaded():
            return self._wants_feeding
        return self._waiting_size >= _MAX_UNLOADED

    @property
    def _is_blank(self) -> bool:
        """True while there is no output: then no terminal of the library is made."""
        return self._terminal is None and not self._waiting

    @property
    def _wants_feeding(self) -> bool:
        return self._may_draw and (self._has_escapes or self._waiting_size >= _MAX_WAITING)

    @property
    def _may_draw(self) -> bool:
        if not self._waiting:
            return False
        start = self._frames.start
        return start is None or self._bytes < start

    @property
    def frame(self) -> int | None:
        return self._frames.start

    def end_frame(self) -> None:
        """Include the unfinished frame in the next drawing."""
        self._frames.end()

    def end_string(self) -> bool:
        """Cancel a control string (OSC, DCS, APC) that a killed process left open and draw its
        lines after the first; return True if there was one."""
        self._prompt_at = self._bytes + self._waiting_size
        return self._end_string()

    def _end_string(self) -> bool:
        """Cancel a string that ends in a prompt, after the bytes before it."""
        if not self._has_escapes or self._terminal is None:
            return False
        if self._waiting or self._prompt_at != self._bytes:
            return False
        self._prompt_at = -1
        string = begun(library.load(), self._terminal._t[0])
        ended = end_broken_string(string)
        if self._filter is None or ended == string:
            return False
        self._filter.feed(ended[ended.index(b"\x18") :])
        self._redraws += 1
        return True

    def queue(self, data: bytes) -> None:
        self._frames.feed(data, self._bytes + self._waiting_size)
        last = self._waiting[-1] if self._waiting else ()
        if isinstance(last, bytes) and len(last) + len(data) <= MAX_PIECE:
            self._waiting[-1] = last + data  # each item is a call of the library
        else:
            self._waiting.append(data)
        self._waiting_size += len(data)
        # ENQ, alone among other bytes, asks for a reply.
        self._has_escapes = self._has_escapes or b"\x1b" in data or b"\x05" in data
        if self._waiting_size >= _MAX_WAITING and not self._has_escapes:
            self._skip()

    def _skip(self) -> None:
        """Drop the beginning of the backlog if as many lines follow as scroll it out of the scrollback.

        Without an escape there is no mode, and the line end with which the rest begins takes the cursor,
        wherever it is, to the first column.
        """
        chunks = [chunk for chunk in self._waiting if isinstance(chunk, bytes)]
        if len(chunks) < len(self._waiting):
            return  # the size changes in between
        rows, cols = self._drawn_size
        rest = _rest_of(chunks, rows + _SCROLLBACK_BYTES // (_MIN_CELL_BYTES * (cols + 1)))
        if rest is None:
            return
        kept, end = rest
        if kept == len(chunks) and end <= self._at:
            return
        dropped = end - self._at
        while len(self._waiting) > kept:
            dropped += len(self._waiting.popleft())
        self._at = end
        self._waiting_size -= dropped
        self._bytes += dropped

    def feed(self, data: bytes) -> None:
        """Queue output and draw within the turn, without loading the library (see `must_load`)."""
        self.queue(data)
        if self._wants_feeding and library.is_loaded():
            now = draw_scheduler.current()
            left = _TURN_S - (now.spent if now is not None else 0.0)
            if left > 0:
                self._draw_for(left)

    def draw(self) -> bool:
        """Draw the backlog for one turn; return True if some is left."""
        if self._waiting:
            self._draw_for(_TURN_S)
        return self._may_draw

    def catch_up(self) -> None:
        """Draw the backlog within a snapshot's limit."""
        self._open()
        if not self._waiting:
            return
        now = draw_scheduler.current()
        if now is None:  # outside a loop
            self._draw_for(math.inf)
            return
        if self._snapshot_pass != now.number:
            self._snapshot_pass, self._snapshot_spent = now.number, 0.0
        left = max(_SNAPSHOT_S - now.spent, _TURN_S) - self._snapshot_spent
        if left > 0:
            self._snapshot_spent += self._draw_for(left)

    def _draw_for(self, seconds: float) -> float:
        self._open()
        if self._filter is None:
            raise AssertionError("the terminal is open without a filter")
        frame = self._frames.start
        began = last = time.thread_time()
        while self._waiting and last - began < seconds:
            data, at = self._waiting[0], self._at
            if isinstance(data, tuple):
                self._waiting.popleft()
                self._change_size(*data)
                continue
            end = split_by_cost(data, at, self._piece_size, *self._drawn_size)
            if frame is not None and self._bytes + end - at > frame:
                end = at + frame - self._bytes
                if end <= at:
                    break
            self._filter.feed(data[at:end])
            self._waiting_size -= end - at
            self._bytes += end - at
            self._at = end
            if end == len(data):
                self._waiting.popleft()
                self._at = 0
            before, last = last, time.thread_time()
            self._adapt_piece(last - before)
        if self._has_escapes:
            self._end_string()
            self._keep_size()
        now = draw_scheduler.current()
        if now is not None:
            now.spent += last - began
        return last - began

    def _adapt_piece(self, seconds: float) -> None:
        if seconds > _SLOW_S:
            self._piece_size = max(1, min(PIECE, self._piece_size) // 8)
            self._small_pieces_until = self._bytes + _SMALL_PIECES_BYTES
        elif self._piece_size < PIECE or (
            seconds < _FAST_S and self._bytes >= self._small_pieces_until
        ):
            self._piece_size = min(2 * self._piece_size, MAX_PIECE)

    def _keep_size(self) -> None:
        """Undo DECCOLM."""
        rows, cols = self._drawn_size
        if self._terminal.get("cols") != cols:
            self._terminal.resize(cols, rows, *CELL)

    def _open(self) -> Any:
        if self._terminal is None:
            core = library.load()
            rows, cols = self._drawn_size
            self._terminal = core.Terminal(
                cols, rows, scrollback=_SCROLLBACK_LINES, fg=_FOREGROUND, bg=_BACKGROUND
            )
            self._terminal.resize(cols, rows, *CELL)
            self._set("SCROLLBACK_MAX_BYTES", "size_t", _SCROLLBACK_BYTES)
            self._set("CONTINUATION_MAX_BYTES", "size_t", KEPT_UNFINISHED)
            # Title reports and pictures from files are off by default.
            self._set("KITTY_IMAGE_STORAGE_LIMIT", "uint64_t", 0)
            self._set("COLOR_CURSOR", "GhosttyColorRgb", dict(zip("rgb", _FOREGROUND, strict=True)))
            for option, hook in hooks().items():
                key = getattr(core.lib, f"GHOSTTY_TERMINAL_OPT_{option}")
                status = core.lib.ghostty_terminal_set(self._terminal._t[0], key, hook)
                core.check(status, f"set {option}")
            self._terminal.on_reply(self._on_reply)
            self._filter = SelectorFilter(self._terminal)
        return self._terminal

    def _set(self, option: str, kind: str, value: object) -> None:
        core = library.load()
        key = getattr(core.lib, f"GHOSTTY_TERMINAL_OPT_{option}")
        status = core.lib.ghostty_terminal_set(
            self._terminal._t[0], key, core.ffi.new(f"{kind}*", value)
        )
        core.check(status, f"set {option}")

    def resize(self, rows: int, cols: int) -> None:
        """Resize and reflow, after earlier output."""
        self._rows, self._cols = rows, cols
        self._frames.end()
        if self._waiting:
            if isinstance(self._waiting[-1], tuple):
                self._waiting.pop()
            self._waiting.append((rows, cols))
            if library.is_loaded():
                self.catch_up()
        else:
            self._change_size(rows, cols)

    def _change_size(self, rows: int, cols: int) -> None:
        self._drawn_size = (rows, cols)
        self._redraws += 1
        if self._terminal is not None:
            self._terminal.resize(cols, rows, *CELL)

    def snapshot(self) -> states.Screen:
        """Return the screen as text; `lines` are rows without trailing spaces."""
        if not self._is_blank:
            self.catch_up()
        if self._snapshot is not None and self._snapshot.revision == self.revision:
            return self._snapshot
        if self._is_blank:
            self._snapshot = replace(_blank(*self._drawn_size)[0], revision=self.revision)
            return self._snapshot
        terminal, (rows, cols) = self._open(), self._drawn_size
        contents = read_screen(library.load(), terminal._t[0], rows, cols)
        self._snapshot = states.Screen(
            rows=rows,
            cols=cols,
            cursor=contents.cursor,
            alt=contents.alt,
            title=contents.title,
            lines=(*contents.lines, *[""] * (rows - len(contents.lines))),
            revision=self.revision,
            scrollback=contents.scrollback,
        )
        return self._snapshot

    def styled_rows(self) -> states.StyledRows | None:
        """Return the rows as runs of text and SGR parameters; None for a large screen."""
        self.catch_up()
        rows = styled_rows(library.load(), self._open()._t[0])
        return None if rows is None else tuple(runs_of(restore_bytes(row)) for row in rows)

    def digest(self) -> int | None:
        """Hash cells, cursor and scroll count; None without the library, with a backlog, or for a
        large screen."""
        if not library.is_loaded():
            return None
        self.catch_up()
        cells = None if self._may_draw else digest(library.load(), self._terminal._t[0])
        if cells is None:
            return None
        scrolled = self._terminal.get("scrollback_rows", "size_t")
        return hash((cells, self._terminal.cursor, scrolled))

    def paint(self) -> bytes:
        if self._painted is not None:
            return self._painted
        if self._is_blank:
            return _blank(*self._drawn_size)[1]
        self.catch_up()
        painted = paint(library.load(), self._terminal._t[0], self._title(), unfinished=True)
        return restore_bytes(painted) + self._not_drawn()

    def _not_drawn(self) -> bytes:
        printed = b"".join(data for data in self._waiting if isinstance(data, bytes))
        return printed[self._at :]

    def _title(self) -> str:
        core = library.load()
        title = self._terminal.get("title", "GhosttyString")
        if not title.len:
            return ""
        return restore(bytes(core.ffi.buffer(title.ptr, title.len)).decode("utf-8", "replace"))

    @property
    def has_modes(self) -> bool:
        """True if the process may have set a mode, by an escape."""
        return self._has_escapes

    @property
    def bracketed_paste(self) -> bool:
        return self._mode(_BRACKETED_PASTE)

    @property
    def keyboard_protocol(self) -> bool:
        """True if kitty's keyboard protocol or modifyOtherKeys is on."""
        if not self._has_escapes:
            return False
        self.catch_up()
        flags = self._terminal.get("kitty_keyboard_flags", "uint8_t")
        return bool(flags) or self.encode_key(_PROBE_KEY) == _PROBE_BYTES

    @property
    def swaps_backspace(self) -> bool:
        """True if the backspace key sends its other code (DECBKM)."""
        return self._mode(_BACKARROW)

    @property
    def wants_mouse(self) -> bool:
        if not self._has_escapes:
            return False
        self.catch_up()
        return bool(self._terminal.get("mouse_tracking", "bool"))

    def _mode(self, number: int) -> bool:
        if not self._has_escapes:
            return False  # no escape: all modes are initial
        self.catch_up()
        return bool(self._terminal.mode(number))

    @property
    def is_alternate(self) -> bool:
        if not self._has_escapes:
            return False
        self.catch_up()
        return bool(self._terminal.get("active_screen", "GhosttyTerminalScreen") != 0)

    def encode_paste(self, text: str, *, plain: bool = False) -> bytes:
        """Encode a paste, bracketed if the mode is on, unless `plain`. Raises `InputRefused`."""
        return encode_paste(library.load(), text, not plain and self.bracketed_paste)

    def encode_plain_key(self, press: KeyPress) -> bytes:
        """Encode a key by initial modes; the result may be empty. Raises `InputRefused`."""
        if self._plain_keys is None:
            self._plain_keys = KeyEncoder(library.load())
        return self._plain_keys.encode(None, press)

    def encode_key(self, press: KeyPress) -> bytes:
        """Encode a key by current modes; the result may be empty. Raises `InputRefused`."""
        self.catch_up()
        if self._keys is None:
            self._keys = KeyEncoder(library.load())
        return self._keys.encode(self._terminal._t[0], press)

    def encode_common_key(self, press: KeyPress) -> bytes:
        """Encode a key by current modes without a keyboard protocol."""
        self.catch_up()
        if self._keys is None:
            self._keys = KeyEncoder(library.load())
        return self._keys.encode(self._terminal._t[0], press, protocol=False)

    def encode_mouse(self, mouse: Mouse, rows: int = 0, cols: int = 0) -> tuple[bytes, ...]:
        """Encode a mouse action, one part a report; `rows` and `cols` are the size that the screen is
        about to take, if any. Raises `InputRefused`, also if reports are off."""
        rows, cols = rows or self._rows, cols or self._cols
        if not self.wants_mouse:
            raise InputRefused(
                "The program does not read the mouse: it has not turned on mouse reports. Use keys."
            )
        if mouse.row >= rows or mouse.col >= cols:
            raise InputRefused(
                f"There is no row {mouse.row}, column {mouse.col} on a screen of {rows} rows "
                f"and {cols} columns, counted from 0."
            )
        if self._mouse is None:
            self._mouse = MouseEncoder(library.load())
        parts = self._mouse.encode(self._terminal._t[0], rows, cols, mouse)
        if not parts:
            raise InputRefused(
                f"The program has turned on some mouse reports, but not for this {mouse.action} there."
            )
        return parts

    def close(self) -> states.Screen | None:
        """Free the memory; return the last snapshot, None if that would load the library."""
        self._frames.end()
        if library.is_loaded() or self._terminal is not None:
            self.snapshot()
        if library.is_loaded() and self._is_blank:
            self._painted = self.paint()
        if self._terminal is not None:
            painted = paint(library.load(), self._terminal._t[0], self._title(), unfinished=False)
            self._painted = restore_bytes(painted)
            self._terminal.on_reply(None)
            self._terminal.close()
            self._terminal = self._keys = self._plain_keys = self._mouse = self._filter = None
        self._waiting, self._waiting_size, self._at = deque(), 0, 0
        self._has_escapes, self._on_reply = False, lambda reply: None
        return self._snapshot


def _rest_of(chunks: Sequence[bytes], lines: int) -> tuple[int, int] | None:
    """Return the number of last chunks with `lines` line feeds after a line end, and its offset in the
    first of them; None for fewer lines.

    >>> _rest_of([b"1", b"2\\r\\n3\\n4", b"5\\n"], 2)
    (2, 1)
    """
    for count, chunk in enumerate(reversed(chunks), 1):
        end = chunk.find(b"\r\n")
        if end >= 0 and chunk.count(b"\n", end + 2) >= lines:
            return count, end
        lines -= chunk.count(b"\n")
    return None


@lru_cache(16)
def _blank(rows: int, cols: int) -> tuple[states.Screen, bytes]:
    """Return the snapshot and the drawing of a terminal without output; loads the library."""
    screen = Screen(rows, cols, lambda reply: None)
    screen._open()
    drawn = screen.snapshot(), screen.paint()
    screen.close()
    return drawn


@used_first
def _warm_up() -> None:
    screen = Screen(2, 8, lambda reply: None)
    screen.feed(b"\x1b]0;x\x07\x1b[6n")
    screen.resize(3, 9)
    screen.snapshot()
    screen.encode_paste("x")
    screen.encode_key(KeyPress("Up"))
    screen.paint()
    screen.close()
