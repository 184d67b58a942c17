"""Terminal input, written in the form that the process and its modes expect.

A key waits, up to `_PATIENCE_S`, until earlier input is read, as one read's bytes count for a
paste; a secret waits for the echo to go off, or it would be shown, or flushed by the process, as
does a reply to a query. The tty's modes take precedence over the screen's, which outlive a killed
process.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec
import trio
from msgspec.structs import replace

from haftd.host import pump
from haftd.host.tty import pseudo_terminal
from haftd.lazy_pattern import lazy_pattern
from haftd.runtimes import keys
from haftd.runtimes.base import Input, InputRefused

from . import library, screen
from .keyboard_owner import KeyboardOwner
from .read_watch import Reads, unread_bytes

_PATIENCE_S = 1.0
_FIRST_LOOK_S = 0.002
_LAST_LOOK_S = 0.25
_MAX_WAITING = 1 << 20
_MAX_ANSWERS = 64
_LINE_END = lazy_pattern(rb"[\r\n\x03\x04\x15\x1c]")
"""Those of `_BEGINS_ANEW`: a full line can be erased."""
_BEGINS_ANEW = (b"\r", b"\n", b"\x03", b"\x04", b"\x15", b"\x1c")
"""Characters that end, submit or erase a line in canonical mode."""


_ROW_END = lazy_pattern(r"\r\n|\n")
_BLANKED = lazy_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
"""Characters that a paste changes."""


def _may_be_pasted(item: Input) -> bool:
    """True for a line with a tab or several rows that a paste leaves unchanged."""
    text = item.text
    return not item.secret and ("\t" in text or "\n" in text) and not _BLANKED.search(text)


def _enter(modes: pseudo_terminal.Modes) -> str:
    """Return the bytes of Enter: LF only if the tty does not map CR."""
    return "\r" if modes.maps_cr or not modes.canonical else "\n"


class _Typed(msgspec.Struct, frozen=True):
    number: int
    item: Input
    size: int


class TerminalInput:
    """Keyboard of one terminal: writes inputs in order, at once or by `run`, with which
    `on_waiting` is called when the first has to wait. Call `recheck_echo` at every output."""

    def __init__(
        self,
        master: int,
        slave: str,
        shown: screen.Screen,
        on_written: Callable[[int], None],
        reads: Callable[[], bool],
        on_waiting: Callable[[Callable[[], Awaitable[None]]], None] = lambda _: None,
    ) -> None:
        self._on_waiting = on_waiting
        self._is_running = False
        self._reads = reads
        self._master = master
        self._slave = slave
        self._screen = shown
        self._on_written = on_written
        # `type` bounds the queue.
        self._keyboard_owner = KeyboardOwner(self._foreground)
        self._writer = pump.Writer(
            master, self._report_written, limit=sys.maxsize, on_waiting=lambda _: self._begin()
        )
        self._completions: deque[tuple[int, int]] = deque()
        self._queue: deque[_Typed] = deque()
        self._size = 0
        self._number = 0
        self._busy = False
        self._answers: list[bytes] = []
        self._asker: int | None = None
        self._has_answers = trio.Event()
        self._wake = trio.Event()
        self._printed = trio.Event()
        self._line = 0
        self._unread = False
        self._last_was_key = False

    @property
    def last(self) -> int:
        return self._number

    def type(
        self, item: Input, resize: Callable[[int, int], None] = lambda rows, cols: None
    ) -> int:
        """Write or queue `item`; return its number. Raises `InputRefused`, also for a line that a
        canonical terminal would truncate. `resize` is called with the size that the item has, if any,
        once nothing else refuses it."""
        modes = self._modes()
        if self._writer.closed or modes is None:
            raise InputRefused("The terminal is closed; the program takes no more input.")
        if self._queue and self._queue[0].item.secret and modes.echo:
            raise InputRefused(
                "A secret input waits until the program turns the echo off to ask for it; "
                'it is written first. {"signal": "INT"} interrupts the program and drops it.'
            )
        parts = self._check(item, modes)
        size = len(item.text.encode()) + 16 * len(item.keys)
        if self._size + self._writer.waiting + size > _MAX_WAITING and self.waits:
            raise InputRefused(
                "The program does not read its input: "
                f"{self._size + self._writer.waiting:,} bytes are queued; the limit is {_MAX_WAITING:,}."
            )
        if item.rows:
            resize(item.rows, item.cols)
            item = replace(item, rows=0, cols=0)
        self._number += 1
        typed = _Typed(self._number, item, size)
        if not self._queue and not self._busy and self._at_once(item, parts, modes):
            self._press(typed, parts, modes)
        else:
            self._queue.append(typed)
            self._size += size
            self._wake.set()
            self._begin()
        return self._number

    def answer(self, data: bytes) -> None:
        """Write the screen's reply to a query once the echo is off."""
        modes = self._modes()
        if modes is None:
            return
        if modes.echo or self._answers:
            if not self._answers:
                self._asker = self._foreground()
            if len(self._answers) < _MAX_ANSWERS:
                self._answers.append(data)
                self._has_answers.set()
                self._begin()
            return
        with contextlib.suppress(pump.InputFull, pump.Closed):
            self._writer.put(data)

    def note_output(self, data: bytes) -> None:
        self._keyboard_owner.note_output(data)

    def recheck_echo(self) -> None:
        self._printed.set()

    def drop_secrets(self) -> None:
        """Drop the waiting secrets; they count as written."""
        if self._queue and any(typed.item.secret for typed in self._queue):
            kept = [typed for typed in self._queue if not typed.item.secret]
            self._queue = deque(kept)
            self._size = sum(typed.size for typed in kept)
            self._printed.set()
            if not self.waits:
                self._on_written(self._number)

    def close(self) -> None:
        """Drop queued input, reported as written."""
        self._queue.clear()
        self._size = 0
        self._completions.clear()
        if self._number:
            self._on_written(self._number)
        self._on_written, self._reads = (lambda number: None), (lambda: False)
        self._on_waiting = lambda _: None

    def _begin(self) -> None:
        if not self._is_running:
            self._is_running = True
            self._on_waiting(self.run)

    async def run(self) -> None:
        self._is_running = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._writer.run)
            nursery.start_soon(self._answer_late)
            while True:
                if not self._queue:
                    self._wake = trio.Event()
                    await self._wake.wait()
                    continue
                await self._next()

    @property
    def waits(self) -> bool:
        return bool(self._queue or self._busy or self._writer.waiting)

    @property
    def holds_secret(self) -> bool:
        """True if input waits for the echo to go off."""
        return bool(self._queue) and self._queue[0].item.secret and not self._busy

    def _modes(self) -> pseudo_terminal.Modes | None:
        try:
            return pseudo_terminal.modes(self._master)
        except OSError:
            return None

    def _foreground(self) -> int | None:
        try:
            return pseudo_terminal.foreground(self._master)
        except OSError:
            return None

    def _report_written(self, number: int) -> None:
        done = 0
        while self._completions and self._completions[0][0] <= number:
            done = self._completions.popleft()[1]
        if done:
            self._on_written(done)

    # -- encoding

    def _check(self, item: Input, modes: pseudo_terminal.Modes) -> tuple[bytes, ...]:
        """Return the bytes of an input, or none without the library; refuse before any write."""
        if item.kind == "keys":
            keys.encode(item.keys, True, False, lambda press: b"x")
        elif item.kind in ("text", "line", "paste") and modes.canonical:
            longest, before = 0, self._line
            for part in _LINE_END.split(item.text.encode()):
                longest, before = max(longest, before + len(part)), 0
            if longest > pseudo_terminal.MAX_LINE:
                raise InputRefused(
                    f"A line of {longest:,} bytes is too long for a terminal that reads by the "
                    f"line: it would be cut at {pseudo_terminal.MAX_LINE:,} bytes silently. Give "
                    "shorter lines, put the text into a file, or start the tool on a pipe."
                )
        return () if self._wants_library(item) else self._encode(item, modes)

    def _at_once(self, item: Input, parts: tuple[bytes, ...], modes: pseudo_terminal.Modes) -> bool:
        if len(parts) != 1 or (item.secret and not self._hides(modes)):
            return False
        return not self._has_to_wait(item) or not self._check_unread(modes)

    def _wants_library(self, item: Input) -> bool:
        if library.is_loaded():
            return False
        if item.secret and self._screen.has_modes:
            return True
        match item.kind:
            case "paste":
                return True
            case "line":
                return self._screen.has_modes and _may_be_pasted(item)
            case "mouse":  # refused without a mode, which needs no library
                return self._screen.has_modes
            case "keys":
                return self._screen.has_modes or not keys.are_plain(item.keys)
        return False

    def _has_to_wait(self, item: Input) -> bool:
        """True if earlier input must be read first: text may follow text."""
        is_key = item.kind in ("keys", "mouse", "eof") or (item.kind == "line" and not item.text)
        return is_key or self._last_was_key

    def _encode(self, item: Input, modes: pseudo_terminal.Modes) -> tuple[bytes, ...]:
        match item.kind:
            case "text":
                return (item.text.replace("\r\n", _enter(modes)).encode(),)
            case "paste":
                return (self._paste(item.text, modes),)
            case "line":
                end = _enter(modes)
                if self._is_pasted(item, modes):
                    return (self._paste(item.text, modes), end.encode())
                text = _ROW_END.sub(end, item.text)
                whole = modes.canonical or not text
                return ((text + end).encode(),) if whole else (text.encode(), end.encode())
            case "keys":
                shown = self._screen
                if modes.canonical:
                    # The kernel edits the line, without a protocol.
                    plain = keys.encode(item.keys, False, False, shown.encode_plain_key)
                    return (b"".join(plain),)
                swapped, protocol = shown.swaps_backspace, shown.keyboard_protocol
                if protocol and self._keyboard_owner.is_left_over():
                    return keys.encode(item.keys, False, swapped, shown.encode_common_key)
                return keys.encode(item.keys, protocol, swapped, shown.encode_key)
            case "mouse":
                if item.mouse is None:
                    raise AssertionError("a mouse input has no `mouse`")
                return self._screen.encode_mouse(item.mouse, item.rows, item.cols)
            case "eof":
                return (self._end_of_input(modes),)
        raise AssertionError(f"input of the kind {item.kind} cannot be encoded")

    def _paste(self, text: str, modes: pseudo_terminal.Modes) -> bytes:
        return self._screen.encode_paste(text.replace("\r\n", "\n"), plain=modes.canonical)

    def _is_pasted(self, item: Input, modes: pseudo_terminal.Modes) -> bool:
        """True if typing would change the line: line editors complete on tab and indent rows."""
        return (
            _may_be_pasted(item)
            and not modes.canonical
            and self._screen.bracketed_paste
            and not self._screen.is_alternate
        )

    def _encode_late(self, item: Input, modes: pseudo_terminal.Modes) -> tuple[bytes, ...]:
        try:
            return self._encode(item, modes)
        except InputRefused:
            return ()

    def _end_of_input(self, modes: pseudo_terminal.Modes) -> bytes:
        """Return the EOF characters: the first of two submits a begun line."""
        eof = modes.eof or b"\x04"
        return eof * 2 if modes.canonical and self._line else eof

    # -- typing --------------------------------------------------------------------------------

    def _press(self, typed: _Typed, parts: tuple[bytes, ...], modes: pseudo_terminal.Modes) -> None:
        (data,) = parts
        self._put(data, modes)
        self._done(typed)

    def _put(self, data: bytes, modes: pseudo_terminal.Modes) -> None:
        try:
            self._writer.put(data)
        except pump.Closed:
            pass
        self._unread = True
        if not modes.canonical:
            self._line = 0
            return
        last = max(map(data.rfind, _BEGINS_ANEW))
        self._line = len(data) - last - 1 + (self._line if last < 0 else 0)

    def _done(self, typed: _Typed) -> None:
        self._last_was_key = typed.item.kind in ("keys", "mouse", "line", "eof")
        # With an empty queue the dropped inputs are also complete.
        number = typed.number if self._queue else self._number
        if self._writer.waiting:
            self._completions.append((self._writer.last, number))
        else:
            self._on_written(number)

    async def _next(self) -> None:
        typed = self._queue[0]
        if self._wants_library(typed.item):
            await trio.to_thread.run_sync(library.load)
        if typed.item.secret and not await self._echo_is_off(typed):
            return
        if not self._queue or self._queue[0] is not typed:
            return  # a secret, dropped meanwhile
        modes = self._modes()
        if modes is None:
            self.close()
            return
        self._queue.popleft()
        self._size -= typed.size
        self._busy = True
        try:
            for place, part in enumerate(self._encode_late(typed.item, modes)):
                # Text may follow unread input; a key, or input after one, may not.
                if place or self._has_to_wait(typed.item):
                    await self._read_up()
                self._put(part, modes)
        finally:
            self._busy = False
        self._done(typed)

    async def _answer_late(self) -> None:
        while True:
            if not self._answers:
                self._has_answers = trio.Event()
                await self._has_answers.wait()
            with trio.move_on_after(_PATIENCE_S):
                asks = self._wait_echo_off(
                    lambda: self._foreground() == self._asker, lambda modes: not modes.echo
                )
                if await asks:
                    with contextlib.suppress(pump.InputFull, pump.Closed):
                        self._writer.put(b"".join(self._answers))
            self._answers.clear()

    async def _echo_is_off(self, typed: _Typed) -> bool:
        """Wait for the echo to go off; False if the secret was dropped."""
        return await self._wait_echo_off(
            lambda: bool(self._queue) and self._queue[0] is typed, self._hides
        )

    def _hides(self, modes: pseudo_terminal.Modes) -> bool:
        """True if a secret would not be shown. A process that takes keys must wait for input and
        edit no line, unlike a shell at its prompt, which turns the echo on before a command can
        ask."""
        if modes.echo or modes.canonical:
            return not modes.echo
        return not self.edits_line(modes) and self._reads()

    def edits_line(self, modes: pseudo_terminal.Modes) -> bool:
        """True if a process edits and shows the typed line: it takes pastes, or has taken Enter
        from the tty but left the interrupt, like readline, zsh, fish, and unlike password prompts."""
        return self._screen.bracketed_paste or modes.gives_enter_alone

    async def _wait_echo_off(
        self, still: Callable[[], bool], hides: Callable[[pseudo_terminal.Modes], bool]
    ) -> bool:
        """Poll until the echo is off; False when `still` returns False."""
        pause = _FIRST_LOOK_S
        while still():
            modes = self._modes()
            if modes is None or hides(modes):
                return True
            # A prompt's output triggers a check. The echo may change before or after it, and packet
            # mode reports changes only with EXTPROC.
            if self._printed.is_set():
                self._printed = trio.Event()
            printed = self._printed
            with trio.move_on_after(pause):
                await printed.wait()
            pause = _FIRST_LOOK_S if printed.is_set() else min(2 * pause, _LAST_LOOK_S)
        return False

    # -- reads by the process -------------------------------------------------------------------

    def _check_unread(self, modes: pseudo_terminal.Modes) -> bool:
        """Always False in canonical mode."""
        if not self._unread or modes.canonical:
            return False
        self._unread = bool(self._writer.waiting) or unread_bytes(self._slave) > 0
        return self._unread

    async def _read_up(self) -> None:
        modes = self._modes()
        if modes is None or not self._check_unread(modes):
            return
        with trio.move_on_after(_PATIENCE_S), Reads(self._slave) as reads:
            while True:
                reads.clear()
                modes = self._modes()
                if modes is None or not self._check_unread(modes):
                    return
                await reads.wait()
