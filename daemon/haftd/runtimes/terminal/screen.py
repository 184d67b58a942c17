"""The screen of a terminal: what a person would see, and what its keyboard would send.

Rules:

- The terminal library is loaded with the first screen that needs it; see `library`.
- Fed lazily: text without an escape waits (up to `_MAX_WAITING`) until somebody looks. From the
  first escape on, every byte is fed at once, because it may be a query and the program waits for
  the answer.
- Drawing holds up the daemon, and a few bytes can ask for a lot of it: it is done in small pieces
  (`work`), for `_TURN_S` at a time, which all terminals share (`pacing`). What is left then waits,
  and its owner stands in line before more is drawn.
- A look, a key and a resize draw what waits before, for `_LOOK_S` at most in a pass of the loop.
  What would take longer is drawn later: they see what is drawn so far, and `revision` says how far
  that is. Nothing is lost, and the order stays: a resize takes its place behind what was printed
  before it, and a painting ends with the bytes that are not drawn.
- Synchronized output is drawn frame by frame; see `frames`. The bytes of a frame that is not whole are
  not behind, and how long they may wait is the owner's to decide (`end_frame`).
- A control string that is cut off ends at the next prompt (`end_string`): a program that was killed within
  one hides no prompt.
- Answers to queries go to `on_reply` only. Escapes that make a terminal read files, keep
  pictures or report its title are off: what a program prints must not reach beyond its screen.
- Rows and columns count from 0; `revision` grows with every byte and every resize that is drawn.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from haft_protocol.inputs import Mouse
from haftd.core.escapes import end_broken_string
from haftd.runtimes.base import InputRefused, ScreenShot
from haftd.runtimes.keys import KeyPress

from . import draw_scheduler, library
from .encoders import CELL, KeyEncoder, MouseEncoder, encode_paste
from .frames import Frames
from .library import hooks, used_first
from .paint import KEPT_UNFINISHED, begun, digest, paint
from .render_cost import PIECE, cut
from .variation import SelectorFilter, restore, restore_bytes

_MAX_WAITING = 16_384
_MAX_UNLOADED = 65_536
"""How much may wait for the library."""

_TURN_S = 0.001

_LOOK_S = 0.004
"""Of the processor's time, so that a look on a busy machine draws no less."""

_SLOW_S = 0.002
"""A piece that took so long was of a kind that `work` does not know: the next are smaller."""

_FOREGROUND, _BACKGROUND = (0xE5, 0xE5, 0xE5), (0, 0, 0)
"""What a program is told that asks for the colours: it is dark."""

_SCROLLBACK_BYTES = 2 << 20
"""What the lines above the screen may take; at 80 columns more than 2,000 of them."""

_SCROLLBACK_LINES = 100_000
"""Out of reach: a bound of lines is kept by dropping line by line, which costs ten times the time
of dropping a page."""

_BRACKETED_PASTE = 2004
_BACKARROW = 67
_TELLING, _TOLD = KeyPress(char="i", ctrl=True), b"\x1b[27;5;105~"
"""Nothing but a key tells of modifyOtherKeys."""


class Screen:
    """One terminal's screen; not before it is looked at or spoken to does it cost anything."""

    __slots__ = (
        "_at",
        "_bytes",
        "_cols",
        "_drawn_size",
        "_eager",
        "_filter",
        "_frames",
        "_keys",
        "_looked",
        "_looked_in",
        "_mouse",
        "_on_reply",
        "_painted",
        "_piece",
        "_plain_keys",
        "_prompt_at",
        "_redraws",
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
        self._drawn_size = (rows, cols)
        self._waiting: deque[bytes | tuple[int, int]] = deque()  # what was printed, or a new size
        self._at = 0  # how much of the first of these is drawn
        self._piece = PIECE
        self._looked_in = -1  # the pass of the last look
        self._looked = 0.0  # and what was spent on looks in it
        self._waiting_size = 0
        self._prompt_at = (
            -1
        )  # the offset of the last prompt that was seen, if nothing is printed since
        self._frames = Frames()
        self._eager = False
        self._terminal: Any = None
        self._filter: SelectorFilter | None = None
        self._keys: KeyEncoder | None = None
        self._plain_keys: KeyEncoder | None = None
        self._mouse: MouseEncoder | None = None
        self._bytes = 0
        self._redraws = 0
        self._shot: ScreenShot | None = None
        self._painted: bytes | None = None

    @property
    def revision(self) -> int:
        """Grows with every byte, every resize and every lost string that is drawn."""
        return self._bytes + self._redraws

    @property
    def must_load(self) -> bool:
        """Whether bytes wait that want the library, which is not loaded yet.

        Then the owner runs `load` (in a thread, if it likes) and goes on to draw.
        """
        return self._wants_feeding and not library.is_loaded()

    @property
    def waits(self) -> bool:
        """Whether something printed is not drawn, and would need the library to be loaded."""
        return bool(self._waiting) and not library.is_loaded()

    @property
    def is_behind(self) -> bool:
        """Whether more waits to be drawn than should when the next comes; see `draw`."""
        if library.is_loaded():
            return self._wants_feeding
        return self._waiting_size >= _MAX_UNLOADED

    @property
    def _wants_feeding(self) -> bool:
        return self._may_draw and (self._eager or self._waiting_size >= _MAX_WAITING)

    @property
    def _may_draw(self) -> bool:
        """Whether something waits that belongs to no unfinished frame."""
        if not self._waiting:
            return False
        start = self._frames.start
        return start is None or self._bytes < start

    @property
    def frame(self) -> int | None:
        """The offset at which the frame begins that is not whole and not shown yet, if there is one."""
        return self._frames.start

    def end_frame(self) -> None:
        """Have what there is of a frame that is not whole shown with what is drawn next."""
        self._frames.end()

    def end_string(self) -> bool:
        """Cancel a control string (OSC, DCS, APC) that the program has left unfinished, and draw the lines
        after the one in which the string was cut off; return whether there was one."""
        self._prompt_at = self._bytes + self._waiting_size
        return self._end_string()

    def _end_string(self) -> bool:
        """Cancel the string of which the end is a prompt, once all before the prompt is drawn."""
        if self._terminal is None or self._waiting or self._prompt_at != self._bytes:
            return False
        self._prompt_at = -1
        string = begun(library.load(), self._terminal._t[0])
        ended = end_broken_string(string)
        if self._filter is None or ended == string:
            return False
        self._filter.feed(ended[ended.index(b"\x18") :])
        self._redraws += 1
        return True

    def hold(self, data: bytes) -> None:
        """Take what the program printed; it is drawn later."""
        self._frames.see(data, self._bytes + self._waiting_size)
        self._waiting.append(data)
        self._waiting_size += len(data)
        self._eager = self._eager or b"\x1b" in data

    def feed(self, data: bytes) -> None:
        """Show what the program printed, or the first of it. Loads nothing; see `must_load`."""
        self.hold(data)
        if self._wants_feeding and library.is_loaded():
            now = draw_scheduler.current()
            left = _TURN_S - (now.spent if now is not None else 0.0)
            if left > 0:
                self._draw_for(left, time.monotonic)

    def draw(self) -> bool:
        """Draw what waits, for as long as a turn may take; say whether some is left."""
        if self._waiting:
            self._draw_for(_TURN_S, time.monotonic)
        return self._may_draw

    def catch_up(self) -> None:
        """Draw what waits, or as much of it as a look may: somebody wants to know."""
        self._open()
        if not self._waiting:
            return
        now = draw_scheduler.current()
        if now is None:  # There is nobody to be held up.
            self._draw_for(math.inf, time.thread_time)
            return
        if self._looked_in != now.number:
            self._looked_in, self._looked = now.number, 0.0
        left = max(_LOOK_S - now.spent, _TURN_S) - self._looked
        if left > 0:
            self._looked += self._draw_for(left, time.thread_time)

    def _draw_for(self, seconds: float, clock: Callable[[], float]) -> float:
        """Draw pieces of what waits until that much time is gone by `clock`; returns how much is."""
        self._open()
        if self._filter is None:
            raise AssertionError("a terminal that is open has its filter")
        frame = self._frames.start
        began = last = clock()
        while self._waiting and last - began < seconds:
            data, at = self._waiting[0], self._at
            if isinstance(data, tuple):
                self._waiting.popleft()
                self._change_size(*data)
                continue
            end = cut(data, at, self._piece, *self._drawn_size)
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
            before, last = last, clock()
            if last - before > _SLOW_S:
                self._piece = max(1, self._piece // 8)
            elif self._piece < PIECE:
                self._piece *= 2
        self._end_string()
        self._keep_size()
        now = draw_scheduler.current()
        if now is not None:
            now.spent += last - began
        return last - began

    def _keep_size(self) -> None:
        """Undo what the program did to the width (DECCOLM): its terminal has the size it was given,
        and says so to whoever asks."""
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
            # Titles are not reported and pictures are not read from files unless that is turned on.
            self._set("KITTY_IMAGE_STORAGE_LIMIT", "uint64_t", 0)
            self._set("COLOR_CURSOR", "GhosttyColorRgb", dict(zip("rgb", _FOREGROUND, strict=True)))
            for option, hook in hooks().items():
                key = getattr(core.lib, f"GHOSTTY_TERMINAL_OPT_{option}")
                told = core.lib.ghostty_terminal_set(self._terminal._t[0], key, hook)
                core.check(told, f"set {option}")
            self._terminal.on_reply(self._on_reply)
            self._filter = SelectorFilter(self._terminal)
        return self._terminal

    def _set(self, option: str, kind: str, value: object) -> None:
        core = library.load()
        key = getattr(core.lib, f"GHOSTTY_TERMINAL_OPT_{option}")
        told = core.lib.ghostty_terminal_set(
            self._terminal._t[0], key, core.ffi.new(f"{kind}*", value)
        )
        core.check(told, f"set {option}")

    def resize(self, rows: int, cols: int) -> None:
        """Change the size; text flows anew. What was printed before was printed at the old size."""
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

    def snapshot(self) -> ScreenShot:
        """Take the plain text of what is shown; each of `lines` is a row, without blanks at its end."""
        if self._waiting or self._shot is None:
            self.catch_up()
        if self._shot is not None and self._shot.revision == self.revision:
            return self._shot
        terminal, (rows, cols) = self._open(), self._drawn_size
        lines = restore(terminal.text()).split("\n")
        lines += [""] * (rows - len(lines))
        col, row = terminal.cursor
        self._shot = ScreenShot(
            rows=rows,
            cols=cols,
            cursor=(row, col),
            alt=terminal.get("active_screen", "GhosttyTerminalScreen") != 0,
            title=self._title(),
            lines=tuple(lines[:rows]),
            revision=self.revision,
            scrollback=terminal.get("scrollback_rows", "size_t"),
        )
        return self._shot

    def digest(self) -> int | None:
        """Hash what is shown, with the place of the cursor and how much has scrolled away: equal as long as
        no cell has changed.
        None where that is not known: the library is not loaded, something is not drawn yet, the screen
        is too large."""
        if not library.is_loaded():
            return None
        self.catch_up()
        cells = None if self._may_draw else digest(library.load(), self._terminal._t[0])
        if cells is None:
            return None
        scrolled = self._terminal.get("scrollback_rows", "size_t")
        return hash((cells, self._terminal.cursor, scrolled))

    def paint(self) -> bytes:
        """The bytes that draw what is shown on an empty terminal of this size; see `paint`."""
        if self._painted is not None:
            return self._painted
        self.catch_up()
        painted = paint(library.load(), self._terminal._t[0], self._title(), unfinished=True)
        return restore_bytes(painted) + self._not_drawn()

    def _not_drawn(self) -> bytes:
        """What waits of what was printed."""
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
        """Whether the program may have set a mode: it has printed an escape."""
        return self._eager

    @property
    def bracketed_paste(self) -> bool:
        """Whether the program asked for pastes between codes."""
        return self._mode(_BRACKETED_PASTE)

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

    @property
    def is_alternate(self) -> bool:
        """Whether a program shows the other screen, as one does that takes all of it."""
        if not self._eager:
            return False
        self.catch_up()
        return bool(self._terminal.get("active_screen", "GhosttyTerminalScreen") != 0)

    def encode_paste(self, text: str, *, plain: bool = False) -> bytes:
        """Encode a paste: between codes if the program asked for that, unless it is to be `plain`;
        control characters blanked. Raises `InputRefused`."""
        return encode_paste(library.load(), text, not plain and self.bracketed_paste)

    def encode_plain_key(self, press: KeyPress) -> bytes:
        """Encode one key as a terminal does that no program has changed; empty when it sends
        nothing. Raises `InputRefused`."""
        if self._plain_keys is None:
            self._plain_keys = KeyEncoder(library.load())
        return self._plain_keys.encode(None, press)

    def encode_key(self, press: KeyPress) -> bytes:
        """Encode one key as the program's modes want it; empty when a terminal sends nothing.
        Raises `InputRefused`."""
        self.catch_up()
        if self._keys is None:
            self._keys = KeyEncoder(library.load())
        return self._keys.encode(self._terminal._t[0], press)

    def encode_common_key(self, press: KeyPress) -> bytes:
        """Encode one key as the program's modes want it, but for a keyboard protocol; empty when a terminal
        sends nothing. Raises `InputRefused`."""
        self.catch_up()
        if self._keys is None:
            self._keys = KeyEncoder(library.load())
        return self._keys.encode(self._terminal._t[0], press, protocol=False)

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
            self._mouse = MouseEncoder(library.load())
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
        self._frames.end()
        if library.is_loaded() or self._terminal is not None:
            self.snapshot()
        if self._terminal is not None:
            painted = paint(library.load(), self._terminal._t[0], self._title(), unfinished=False)
            self._painted = restore_bytes(painted)
            self._terminal.on_reply(None)
            self._terminal.close()
            self._terminal = self._keys = self._plain_keys = self._mouse = self._filter = None
        self._waiting, self._waiting_size, self._at = deque(), 0, 0
        self._eager, self._on_reply = False, lambda reply: None
        return self._shot


@used_first
def _use_one() -> None:
    screen = Screen(2, 8, lambda reply: None)
    screen.feed(b"\x1b]0;x\x07\x1b[6n")
    screen.resize(3, 9)
    screen.snapshot()
    screen.encode_paste("x")
    screen.encode_key(KeyPress("Up"))
    screen.paint()
    screen.close()
