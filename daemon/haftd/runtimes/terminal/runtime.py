"""Runtime `pty`, of tools on a terminal."""

from __future__ import annotations

import math
import signal
from collections.abc import Awaitable

import trio
from msgspec.structs import replace

from haft_protocol.states import Screen, StyledRows
from haftd.core.text import Rendering
from haftd.host import pump
from haftd.host.input_state import read_state
from haftd.host.process.ancestry import is_suspended
from haftd.host.tty import pseudo_terminal
from haftd.runtimes.base import Call, Input, InputRefused, InputState, RuntimeContext
from haftd.runtimes.process.child import Child, Output
from haftd.runtimes.process.control import ChildControl, translate
from haftd.runtimes.process.interpreter import Plain
from haftd.runtimes.process.resource_limits import ResourceLimits

from . import draw_scheduler, library, screen
from .input import TerminalInput
from .transcript import Transcript

MAX_FRAME_S = 1.0
"""Seconds until an unfinished frame of synchronized output is shown, as in other terminals."""

_INTERRUPTS = ("INT", "QUIT", "TERM", "KILL", "HUP")


class TerminalRuntime:
    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        async with await Child.start(call, context, ResourceLimits(call.launch.limits)) as child:
            control = TerminalControl(call, context, child)
            del call
            context.started(control)
            outputs = [Output(control.master, control.show, control.keep_up)]
            try:
                tasks = () if library.is_loaded() else (control.load,)
                await child.run(outputs, Plain(), tasks, control.close)
            finally:
                await control.finish()
        return None


class TerminalControl(ChildControl):
    terminal = True

    def __init__(self, call: Call, context: RuntimeContext, child: Child) -> None:
        super().__init__(call, child)
        master = child.launched.master
        if master is None:
            raise AssertionError("the child was launched without a terminal")
        self.master = master
        self._screen = screen.Screen(call.launch.rows, call.launch.cols, self._reply)
        self._input = TerminalInput(
            master,
            child.launched.slave,
            self._screen,
            context.written,
            lambda: self._kernel_state().state != "busy",
            child.start_io,
        )
        self._transcript = Transcript(call.launch.rows, call.launch.cols)
        self._context = context
        self._frame: int | None = None
        self._frame_ends_at = math.inf
        self._ends_frames = False
        self._is_redraw_due = False
        self._must_load = trio.Event()
        self._loaded = trio.Event()
        self._is_finished = False
        self._last: Screen | None = None

    @property
    def rendering(self) -> Rendering:
        return self._transcript

    def feed(self, data: bytes) -> int:
        raise InputRefused("It is on a terminal, where input is typed.")

    def write(self, item: Input) -> int:
        self.refuse_if_ended()
        if item.kind == "signal":
            self._signal(item.signal)
        elif item.kind == "resize":
            self._resize(item.rows, item.cols)
        elif item.kind == "bytes":
            raise InputRefused("Bytes are for a pipe; on a terminal give a `text`.")
        else:
            return self._input.type(item, self._resize)
        return self._input.last

    def screen(self) -> Screen | None:
        """Return the screen, after the end the last one; blocks only to load the library."""
        return self._last if self._is_finished else self._screen.snapshot()

    def paint(self) -> bytes | None:
        return None if self._is_finished and self._last is None else self._screen.paint()

    def styled_rows(self) -> StyledRows | None:
        return None if self._is_finished else self._screen.styled_rows()

    def screen_digest(self) -> int | None:
        return None if self._is_finished else self._screen.digest()

    def input_state(self) -> InputState:
        """Return the input state, by the kernel alone."""
        if not self._input.waits:
            return self._kernel_state()
        state = self._kernel_state() if self._input.holds_secret else None
        if state is None or state.state != "reads":
            return InputState("busy")
        return InputState("held", state.kind)

    def _kernel_state(self) -> InputState:
        child = self.child
        if child.ended or pump.is_readable(self.master):
            return InputState("busy")
        if self._screen.frame is not None:
            return InputState("busy")  # the program is drawing a frame
        if self._screen.is_behind:
            return InputState("busy")  # output may contain an unanswered query
        try:
            launched = child.launched
            wait = read_state.read_terminal_state(
                self.master, launched.slave, (child.pid,), launched.began_s
            )
        except OSError:
            return InputState("unknown")
        # Output printed before the wait is readable by now, and comes first.
        if pump.is_readable(self.master):
            return InputState("busy")
        state = translate(wait)
        if state.state == "reads" and state.kind != "key" and self._screen.end_string():
            self._redraw_soon()
        return replace(state, kind="line") if state.kind == "key" and self._edits_line() else state

    def _edits_line(self) -> bool:
        try:
            modes = pseudo_terminal.modes(self.master)
        except OSError:
            return False
        if modes.echo or not library.is_loaded():
            return modes.gives_enter_alone and not modes.echo
        return not self._screen.is_alternate and self._input.edits_line(modes)

    def is_suspended(self) -> bool:
        try:
            group = pseudo_terminal.foreground(self.master)
        except OSError:
            group = None
        if group is None:
            return super().is_suspended()
        return not self.child.ended and is_suspended(self.child.pid, group)

    def hides_input(self) -> bool:
        try:
            modes = pseudo_terminal.modes(self.master)
        except OSError:
            return False
        return modes.canonical and not modes.echo

    def show(self, data: bytes) -> None:
        self._input.note_output(data)
        if self.child.ended:
            self._screen.queue(data)  # queries go unanswered; `finish` draws
        else:
            self._screen.feed(data)
        self._input.recheck_echo()
        self._note_frame()
        if self._screen.must_load:
            self._must_load.set()
        self.child.emit(data)  # last: a listener may read the screen

    def _note_frame(self) -> None:
        """Set the deadline of a begun frame: its process may be killed."""
        if self._screen.frame in (None, self._frame):
            return
        self._frame = self._screen.frame
        self._frame_ends_at = trio.current_time() + MAX_FRAME_S
        if not self._ends_frames:
            self._ends_frames = True
            self.child.start_io(self._end_frames)

    async def _end_frames(self) -> None:
        while self._screen.frame is not None:
            if trio.current_time() < self._frame_ends_at:
                await trio.sleep_until(self._frame_ends_at)
            else:
                self._screen.end_frame()
                if self._screen.must_load:
                    self._must_load.set()
                await self._draw()
                self._redraw_soon()
        self._ends_frames = False

    def _redraw_soon(self) -> None:
        """Report a redraw in its own task: the caller may be a listener of the handle."""
        if not self._is_redraw_due:
            self._is_redraw_due = True
            self.child.start_io(self._report_redraw)

    async def _report_redraw(self) -> None:
        self._is_redraw_due = False
        self._context.redrawn()

    def keep_up(self) -> Awaitable[None] | None:
        return self._draw_and_keep_up() if self._screen.is_behind else self._context.keep_up()

    async def _draw_and_keep_up(self) -> None:
        await self._draw()
        catching_up = self._context.keep_up()
        if catching_up is not None:
            await catching_up

    async def _draw(self) -> None:
        while self._screen.is_behind:
            if not library.is_loaded():
                await self._loaded.wait()
            await draw_scheduler.in_turn(self._screen.draw)

    async def load(self) -> None:
        """Load the library in a thread, for all terminals that wait."""
        if library.is_loading():
            await self._must_load.wait()
        await trio.to_thread.run_sync(library.load, abandon_on_cancel=True)
        self._loaded.set()
        await self._draw()

    def close(self) -> None:
        self._input.close()

    async def finish(self) -> None:
        """Keep the last screen, once the library is loaded; no checkpoint where nothing is to be drawn."""
        self._screen.end_frame()
        if self._screen.has_backlog:
            with trio.CancelScope(shield=True):
                if self._screen.waits_for_library:
                    await trio.to_thread.run_sync(library.load)
                while await draw_scheduler.in_turn(self._screen.draw):
                    pass
        self._last = self._screen.close()
        self._is_finished = True

    def _reply(self, data: bytes) -> None:
        if not self.child.ended:
            self._input.answer(data)

    def _signal(self, name: str) -> None:
        """Signal the foreground group, as a keyboard does; if there is none, all processes."""
        number = signal.Signals[f"SIG{name}"]
        if name in _INTERRUPTS:
            self._input.drop_secrets()
        group = pseudo_terminal.foreground(self.master)
        if group is None or not self.child.tree.signal_group(number, group):
            self.child.tree.signal(number)

    def _resize(self, rows: int, cols: int) -> None:
        try:
            pseudo_terminal.set_size(self.master, rows, cols)
        except (OSError, ValueError) as refused:
            raise InputRefused(f"The terminal cannot be resized: {refused}.") from None
        self._screen.resize(rows, cols)
        self._transcript.resize(rows, cols)
