"""The screen of a terminal: what a person would see, and what its keyboard would send.

Rules:

- With `paint` the only file that knows the terminal library, which is loaded with the first screen that needs
  it: `load` takes a quarter of a second and may run in a thread. It leaves nothing that is slow
  the first time.
- Fed lazily: text without an escape waits (up to `_MOST_WAITING`) until somebody looks. From the
  first escape on, every byte is fed at once, because it may be a query and the program waits for
  the answer.
- Drawing holds up the daemon, and a few bytes can ask for a lot of it: it is done in small pieces,
  for `_TURN_S` at a time. What is left then waits, and its owner lets others run before more.
- Answers to queries go to `on_reply` only. Escapes that make a terminal read files, keep
  pictures or report its title are off: what a program prints must not reach beyond its screen.
- Rows and columns count from 0; `revision` grows with every byte and every resize.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

from haft_protocol.inputs import Mouse

from .base import InputRefused, ScreenShot
from .encoders import CELL, KeyEncoder, MouseEncoder, encode_paste
from .keys import KeyPress
from .paint import KEPT_UNFINISHED, outline, paint

__all__ = ["Screen", "is_loaded", "is_loading", "load"]

_MOST_WAITING = 16_384
_MOST_UNLOADED = 65_536
"""How much may wait for the library."""

_TURN_S = 0.001
_PIECE = 128
_PIECE_OF_LARGE = 32
"""What is drawn between two looks at the clock. The worst a byte can ask for, measured: a character
repeated 65,535 times, 8 µs; a screen of 1,000 × 2,000 moved by a page, 120 µs."""

_LARGE = 20_000
"""Cells of a screen that is large."""

_FOREGROUND, _BACKGROUND = (0xE5, 0xE5, 0xE5), (0, 0, 0)
"""What a program is told that asks for the colours: it is dark."""

_SCROLLBACK_BYTES = 2 << 20
"""What the lines above the screen may take; at 80 columns more than 2,000 of them."""

_SCROLLBACK_LINES = 100_000
"""Out of reach: a bound of lines is kept by dropping line by line, which costs ten times the time
of dropping a page."""

_MOST_PAINTED = 10_000
"""Cells whose last picture keeps its styles; painting a larger one would hold everybody up."""

_BRACKETED_PASTE = 2004
_APPLICATION_CURSOR = 1
_BACKARROW = 67
_TELLING, _TOLD = KeyPress(char="i", ctrl=True), b"\x1b[27;5;105~"
"""Nothing but a key tells of modifyOtherKeys."""


_core: ModuleType | None = None
_hooks: dict[str, Any] = {}
_has_begun = False
_is_warm = False
_loading = threading.RLock()


def is_loading() -> bool:
    """Say whether somebody loads the library, or has loaded it."""
    return _has_begun


def is_loaded() -> bool:
    """Say whether a screen can be used without loading anything."""
    return _is_warm


def load() -> ModuleType:
    """Load the terminal library; blocks a quarter of a second the first time."""
    global _core, _has_begun, _is_warm
    _has_begun = True
    if _core is not None and _is_warm:
        return _core
    with _loading:
        if _core is None:
            import pyghostty.core

            _core = pyghostty.core
            _warm_up()
            _is_warm = True
        return _core


def _warm_up() -> None:
    """Use all of it once: half of the time goes into the first use of each function."""
    from .scratch import Scratch

    scratch = Screen(2, 8, lambda reply: None)
    scratch.feed(b"\x1b]0;x\x07\x1b[6n")
    scratch.resize(3, 9)
    scratch.snapshot()
    scratch.encode_paste("x")
    scratch.encode_key(KeyPress("Up"))
    scratch.paint()
    scratch.close()
    drawn = Scratch(2, 8, history=4096)
    drawn.feed(b"x")
    drawn.around_cursor()
    drawn.close()


def _make_hooks(core: Any) -> dict[str, Any]:
    """What the library asks us for to answer the program; the same for all terminals."""
    lib, ffi = core.lib, core.ffi

    def size(terminal: Any, _: Any, out: Any) -> bool:
        told = ffi.new("uint16_t[2]")
        lib.ghostty_terminal_get(terminal, lib.GHOSTTY_TERMINAL_DATA_ROWS, told)
        lib.ghostty_terminal_get(terminal, lib.GHOSTTY_TERMINAL_DATA_COLS, told + 1)
        out.rows, out.columns = told
        out.cell_width, out.cell_height = CELL
        return True

    def scheme(_: Any, __: Any, out: Any) -> bool:
        out[0] = lib.GHOSTTY_COLOR_SCHEME_DARK
        return True

    _hooks["SIZE"] = ffi.callback("GhosttyTerminalSizeFn", size)
    _hooks["COLOR_SCHEME"] = ffi.callback("GhosttyTerminalColorSchemeFn", scheme)
    return _hooks


class Screen:
    """One terminal's screen; not before it is looked at or spoken to does it cost anything."""

    __slots__ = (
        "_at",
        "_bytes",
        "_cols",
        "_eager",
        "_keys",
        "_mouse",
        "_on_reply",
        "_painted",
        "_resizes",
        "_rows",
        "_shot",
        "_terminal",
        "_waiting",
        "_waiting_size",
    )

    def __init__(self, rows: int, cols: int, on_reply: Callable[[bytes], None]) -> None:
        self._rows = rows
        self._cols = cols
        self._on_reply = on_reply
        self._waiting: deque[bytes] = deque()
        self._at = 0  # how much of the first of these is drawn
        self._waiting_size = 0
        self._eager = False
        self._terminal: Any = None
        self._keys: KeyEncoder | None = None
        self._mouse: MouseEncoder | None = None
        self._bytes = 0
        self._resizes = 0
        self._shot: ScreenShot | None = None
        self._painted: bytes | None = None

    @property
    def revision(self) -> int:
        """Grows with every byte and every resize."""
        return self._bytes + self._resizes

    @property
    def must_load(self) -> bool:
        """Whether bytes wait that want the library, which is not loaded yet.

        Then the owner runs `load` (in a thread, if it likes) and goes on to draw.
        """
        return self._wants_feeding and not is_loaded()

    @property
    def waits(self) -> bool:
        """Whether something printed is not drawn, and would need the library to be loaded."""
        return bool(self._waiting) and not is_loaded()

    @property
    def is_behind(self) -> bool:
        """Whether more waits to be drawn than should when the next comes; see `draw`."""
        if is_loaded():
            return self._wants_feeding
        return self._waiting_size >= _MOST_UNLOADED

    @property
    def _wants_feeding(self) -> bool:
        return bool(self._waiting) and (self._eager or self._waiting_size >= _MOST_WAITING)

    def hold(self, data: bytes) -> None:
        """Take what the program printed; it is drawn later."""
        self._waiting.append(data)
        self._waiting_size += len(data)
        self._bytes += len(data)
        self._eager = self._eager or b"\x1b" in data

    def feed(self, data: bytes) -> None:
        """Show what the program printed, or the first of it. Loads nothing; see `must_load`."""
        self.hold(data)
        if self._wants_feeding and is_loaded():
            self.draw()

    def draw(self) -> bool:
        """Draw what waits, for as long as a turn may take; say whether some is left."""
        if not self._waiting:
            return False
        terminal = self._open()
        piece = _PIECE if self._rows * self._cols <= _LARGE else _PIECE_OF_LARGE
        end = time.monotonic() + _TURN_S
        while self._waiting:
            data, at = self._waiting[0], self._at
            terminal.feed(data[at : at + piece])
            at += piece
            if at < len(data):
                self._at = at
                self._waiting_size -= piece
            else:
                self._waiting.popleft()
                self._waiting_size -= len(data) - at + piece
                self._at = 0
            if time.monotonic() >= end:
                break
        self._keep_size()
        return bool(self._waiting)

    def catch_up(self) -> None:
        """Draw all that waits, however long that takes: somebody looks."""
        terminal = self._open()
        waiting, at = self._waiting, self._at
        self._waiting, self._waiting_size, self._at = deque(), 0, 0
        for data in waiting:
            terminal.feed(data[at:])
            at = 0
        self._keep_size()

    def _keep_size(self) -> None:
        """Undo what the program did to the width (DECCOLM): its terminal has the size it was given,
        and says so to whoever asks."""
        if self._terminal.get("cols") != self._cols:
            self._terminal.resize(self._cols, self._rows, *CELL)

    def _open(self) -> Any:
        if self._terminal is None:
            core = load()
            self._terminal = core.Terminal(
                self._cols, self._rows, scrollback=_SCROLLBACK_LINES, fg=_FOREGROUND, bg=_BACKGROUND
            )
            self._terminal.resize(self._cols, self._rows, *CELL)
            self._set("SCROLLBACK_MAX_BYTES", "size_t", _SCROLLBACK_BYTES)
            self._set("CONTINUATION_MAX_BYTES", "size_t", KEPT_UNFINISHED)
            # Titles are not reported and pictures are not read from files unless that is turned on.
            self._set("KITTY_IMAGE_STORAGE_LIMIT", "uint64_t", 0)
            self._set("COLOR_CURSOR", "GhosttyColorRgb", dict(zip("rgb", _FOREGROUND, strict=True)))
            for option, hook in (_hooks or _make_hooks(core)).items():
                key = getattr(core.lib, f"GHOSTTY_TERMINAL_OPT_{option}")
                told = core.lib.ghostty_terminal_set(self._terminal._t[0], key, hook)
                core.check(told, f"set {option}")
            self._terminal.on_reply(self._on_reply)
        return self._terminal

    def _set(self, option: str, kind: str, value: object) -> None:
        core = load()
        key = getattr(core.lib, f"GHOSTTY_TERMINAL_OPT_{option}")
        told = core.lib.ghostty_terminal_set(
            self._terminal._t[0], key, core.ffi.new(f"{kind}*", value)
        )
        core.check(told, f"set {option}")

    def resize(self, rows: int, cols: int) -> None:
        """Change the size; text flows anew."""
        if self._terminal is not None or self._waiting:
            self.catch_up()  # What was printed before the resize was printed at the old size.
            self._terminal.resize(cols, rows, *CELL)
        self._rows, self._cols = rows, cols
        self._resizes += 1

    def snapshot(self) -> ScreenShot:
        """Take the plain text of what is shown; each of `lines` is a row, without blanks at its end."""
        revision = self.revision
        if self._shot is not None and self._shot.revision == revision:
            return self._shot
        self.catch_up()
        terminal = self._terminal
        lines = terminal.text().split("\n")
        lines += [""] * (self._rows - len(lines))
        col, row = terminal.cursor
        self._shot = ScreenShot(
            rows=self._rows,
            cols=self._cols,
            cursor=(row, col),
            alt=terminal.get("active_screen", "GhosttyTerminalScreen") != 0,
            title=self._title(),
            lines=tuple(lines[: self._rows]),
            revision=revision,
            scrollback=terminal.get("scrollback_rows", "size_t"),
        )
        return self._shot

    def paint(self) -> bytes:
        """The bytes that draw what is shown on an empty terminal of this size; see `paint`."""
        if self._painted is not None:
            return self._painted
        self.catch_up()
        return paint(load(), self._terminal._t[0], self._title(), unfinished=True)

    def _title(self) -> str:
        core = load()
        title = self._terminal.get("title", "GhosttyString")
        if not title.len:
            return ""
        return bytes(core.ffi.buffer(title.ptr, title.len)).decode("utf-8", "replace")

    @property
    def has_modes(self) -> bool:
        """Whether the program may have set a mode: it has printed an escape."""
        return self._eager

    @property
    def bracketed_paste(self) -> bool:
        """Whether the program asked for pastes between codes."""
        return self._mode(_BRACKETED_PASTE)

    @property
    def application_cursor(self) -> bool:
        """Whether the program asked for the other codes of the cursor keys."""
        return self._mode(_APPLICATION_CURSOR)

    @property
    def keyboard_protocol(self) -> bool:
        """Whether the program asked for a keyboard protocol beyond the common one: kitty's, or
        xterm's modifyOtherKeys."""
        if not self._eager:
            return False
        self.catch_up()
        flags = self._terminal.get("kitty_keyboard_flags", "uint8_t")
        return bool(flags) or self.encode_key(_TELLING) == _TOLD

    @property
    def swaps_backspace(self) -> bool:
        """Whether the program asked for the other code of the backspace key."""
        return self._mode(_BACKARROW)

    @property
    def wants_mouse(self) -> bool:
        """Whether the program has turned reports of the mouse on."""
        if not self._eager:
            return False
        self.catch_up()
        return bool(self._terminal.get("mouse_tracking", "bool"))

    def _mode(self, number: int) -> bool:
        if not self._eager:
            return False  # No escape yet: every mode is as it was at the start.
        self.catch_up()
        return bool(self._terminal.mode(number))

    def encode_paste(self, text: str) -> bytes:
        """Encode a paste: between codes if the program asked for that, control characters blanked.
        Raises `InputRefused`."""
        return encode_paste(load(), text, self.bracketed_paste)

    def encode_key(self, press: KeyPress) -> bytes:
        """Encode one key as the program's modes want it; empty when a terminal sends nothing.
        Raises `InputRefused`."""
        self.catch_up()
        if self._keys is None:
            self._keys = KeyEncoder(load())
        return self._keys.encode(self._terminal._t[0], press)

    def encode_mouse(self, mouse: Mouse) -> tuple[bytes, ...]:
        """Encode a use of the mouse, one part for each report. Raises `InputRefused` where the
        program takes no such reports."""
        if not self.wants_mouse:
            raise InputRefused(
                "The program takes no mouse: it has not turned reports of it on. Use keys."
            )
        if mouse.row >= self._rows or mouse.col >= self._cols:
            raise InputRefused(
                f"There is no row {mouse.row}, column {mouse.col} on a screen of {self._rows} rows "
                f"and {self._cols} columns, counted from 0."
            )
        if self._mouse is None:
            self._mouse = MouseEncoder(load())
        parts = self._mouse.encode(self._terminal._t[0], self._rows, self._cols, mouse)
        if not parts:
            raise InputRefused(
                f"The program has asked for some reports of the mouse, but not for this {mouse.action}"
                " there."
            )
        return parts

    def close(self) -> ScreenShot | None:
        """Nothing will be printed any more: give memory back. Returns the last picture, which
        stays readable; None where the library would have to be loaded just for that."""
        if is_loaded() or self._terminal is not None:
            self.snapshot()
        if self._terminal is not None:
            if self._shot is not None and self._rows * self._cols > _MOST_PAINTED:
                self._painted = outline(self._shot)
            else:
                self._painted = paint(load(), self._terminal._t[0], self._title(), unfinished=False)
            self._terminal.close()
            self._terminal = self._keys = self._mouse = None
        self._waiting, self._waiting_size, self._at = deque(), 0, 0
        self._eager = False
        return self._shot
