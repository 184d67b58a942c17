"""Scripted runtime for tests: deterministic, without processes.

A script waits only at `WaitFor`, `TakeInput`, `Ask`, and for the end of `LeaveBehind`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

import msgspec
import trio
from msgspec.structs import replace

from haft_protocol.questions import Question
from haft_protocol.states import Exit as ExitState
from haft_protocol.states import LeftBehind, Screen, StyledRows
from haftd.core.termination import LOST, Termination
from haftd.core.text import STRIPPED
from haftd.runtimes.base import (
    Call,
    Input,
    InputRefused,
    InputState,
    RuntimeContext,
    StartFailed,
    ToolFailed,
    is_cancellation,
)

_FIRST_PID = 1 << 23
"""Above Linux's highest pid (2 to the 22nd)."""

_pids = itertools.count(_FIRST_PID)


class CannotStart(msgspec.Struct, frozen=True):
    """Fail the start, as the first step; `reason` as in `StartFailed`."""

    message: str
    reason: str = "program"


class Emit(msgspec.Struct, frozen=True):
    """Print `data`."""

    data: bytes


class Ask(msgspec.Struct, frozen=True):
    """Ask `question`; with `show`, print the answer as a JSON line."""

    question: Question
    show: bool = True


class TakeInput(msgspec.Struct, frozen=True):
    """Take the next input (also `eof`); with `show`, print a text, line, paste or keys. Signals and
    resizes act at once and are never taken."""

    show: bool = True


class WaitFor(msgspec.Struct, frozen=True, eq=False):
    """Wait until `event` is set."""

    event: trio.Event = msgspec.field(default_factory=trio.Event)


class Stubborn(msgspec.Struct, frozen=True):
    """Ignore TERM, INT, HUP and QUIT: an abort kills after the grace."""


class Unkillable(msgspec.Struct, frozen=True):
    """Report `pid` as `unconfirmed` at an abort."""

    pid: int


class LeaveBehind(msgspec.Struct, frozen=True, eq=False):
    """Leave a process that lives until `until` is set, or an abort.

    With `holds_output` the end is reported with incomplete output, and `completed` at the next
    checkpoint, while the process lives.
    """

    until: trio.Event = msgspec.field(default_factory=trio.Event)
    command: str = "left-behind"
    holds_output: bool = False


class Fail(msgspec.Struct, frozen=True):
    """End with the tool's own failure and exit status 1."""

    message: str
    trace: tuple[str, ...] = ()
    transient: bool = False


class Exit(msgspec.Struct, frozen=True):
    """End with exit status `code` or by `signal`; without `result` the output is the result."""

    code: int | None = 0
    signal: str | None = None
    result: str | None = None


Step = (
    CannotStart
    | Emit
    | Ask
    | TakeInput
    | WaitFor
    | Stubborn
    | Unkillable
    | LeaveBehind
    | Fail
    | Exit
)


class FakeControl:
    """Control of one execution.

    `inputs` has every accepted input in order, `alive` the commands of living processes by pid.
    `take_signal` is called with names of signals.
    """

    rendering = STRIPPED

    def __init__(
        self, call: Call, context: RuntimeContext, take_signal: Callable[[str], None]
    ) -> None:
        self.inputs: list[Input] = []
        self.alive: dict[int, str] = {next(_pids): call.tool}
        self._leader = next(iter(self.alive))
        self._call = call
        self._context = context
        self._take_signal = take_signal
        self._queue: deque[tuple[int, Input]] = deque()
        self._arrived = trio.Event()
        self._number = 0
        """Number of the last queued input."""
        self._parked = False
        self._closed = False
        self._size = (call.launch.rows, call.launch.cols)
        self._shown = ""
        """All output."""
        self._revision = 0

    @property
    def pid(self) -> int | None:
        return self._leader

    @property
    def command(self) -> str:
        return self._call.tool

    @property
    def terminal(self) -> bool:
        return self._call.launch.terminal

    def feed(self, data: bytes) -> int:
        return self.write(Input("text", data.decode()))

    def write(self, item: Input) -> int:
        if self._leader not in self.alive:
            raise InputRefused("The tool has ended; it takes no input.")
        if item.kind == "signal":
            self.inputs.append(item)
            self._take_signal(item.signal)
            return self._number
        if item.kind == "resize":
            if not self._call.launch.terminal:
                raise InputRefused("There is no terminal to resize.")
            self.inputs.append(item)
            self._size = (item.rows, item.cols)
            self._revision += 1
            return self._number
        if item.kind == "mouse" and not self._call.launch.terminal:
            raise InputRefused("There is no terminal to use a mouse on.")
        if self._closed or (self._call.launch.stdin == "null" and not self._call.launch.terminal):
            raise InputRefused("The input of the tool is closed.")
        if item.rows:
            self._size = (item.rows, item.cols)
        self.inputs.append(item)
        self._number += 1
        self._closed = item.kind == "eof" and not self._call.launch.terminal
        self._queue.append((self._number, item))
        self._arrived.set()
        return self._number

    def kill(self) -> None:
        self._take_signal("KILL")

    def left_behind(self) -> tuple[LeftBehind, ...]:
        if self._leader in self.alive:
            return ()
        return tuple(LeftBehind(pid, command) for pid, command in self.alive.items())

    def members(self) -> tuple[int, ...]:
        return tuple(self.alive)

    def styled_rows(self) -> StyledRows | None:
        return None

    def screen_digest(self) -> int | None:
        return hash((self._shown, self._size)) if self._call.launch.terminal else None

    def input_state(self) -> InputState:
        reads = self._parked and not self._queue
        return InputState("reads", "line") if reads else InputState("busy")

    def read_output(self) -> None:
        pass

    def is_suspended(self) -> bool:
        return False

    def hides_input(self) -> bool:
        return False

    def screen(self) -> Screen | None:
        if not self._call.launch.terminal:
            return None
        rows, cols = self._size
        lines = self._shown.split("\n")[-rows:]
        cursor = (len(lines) - 1, min(len(lines[-1]), cols - 1))
        lines += [""] * (rows - len(lines))
        return Screen(rows, cols, cursor, False, "", self._revision, 0, tuple(lines))

    def paint(self) -> bytes | None:
        screen = self.screen()
        return None if screen is None else "\r\n".join(screen.lines).rstrip().encode()

    def show(self, data: bytes) -> None:
        self._shown += data.decode("utf-8", "replace")
        self._revision += len(data)
        self._context.emit(data)

    def end_leader(self) -> None:
        """End the leader: report queued input as written, ignore later signals."""
        self.alive.pop(self._leader, None)
        self._take_signal = lambda name: None
        if self._queue:
            self._queue.clear()
            self._context.written(self._number)

    async def take(self) -> Input:
        while not self._queue:
            self._arrived = trio.Event()
            self._parked = True
            try:
                await self._arrived.wait()
            finally:
                self._parked = False
        number, item = self._queue.popleft()
        self._context.written(number)
        return item


class FakeRuntime:
    """Runs `call.script`."""

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        """Run the script; the status is 0 without `Exit` or `Fail`."""
        await trio.lowlevel.checkpoint()
        steps: deque[Step] = deque(call.script)
        if steps and isinstance(steps[0], CannotStart):
            raise StartFailed(steps[0].message, steps[0].reason)
        return await _Run(call, context, steps).run()


class _Run:
    def __init__(self, call: Call, context: RuntimeContext, steps: deque[Step]) -> None:
        self._context = context
        self._steps = steps
        self._stubborn = False
        self._signal: str | None = None
        self._scope = trio.CancelScope()
        self._unkillable: list[int] = []
        self._left: list[LeaveBehind] = []
        self._control = FakeControl(call, context, self._take_signal)
        self._ended = False

    async def run(self) -> str | None:
        self._context.started(self._control)
        try:
            end: Exit | Fail = Exit()
            with self._scope:
                end = await self._run_steps()
            if self._scope.cancelled_caught:
                end = Exit(None, self._signal)
            return await self._leave(end)
        except BaseException as error:
            if is_cancellation(error):
                await self._abort()
            raise

    def _take_signal(self, name: str) -> None:
        if name == "KILL" or (name in ("INT", "TERM", "HUP", "QUIT") and not self._stubborn):
            self._signal = name
            self._scope.cancel()

    async def _run_steps(self) -> Exit | Fail:
        for step in self._steps:
            match step:
                case Emit(data=data):
                    self._control.show(data)
                case Ask(question=question, show=show):
                    answer = await self._context.ask(question).wait()
                    if show:
                        self._control.show(msgspec.json.encode(answer) + b"\n")
                case TakeInput(show=show):
                    item = await self._control.take()
                    if show and item.kind in ("text", "line", "paste"):
                        self._control.show(item.text.encode() + b"\n" * (item.kind == "line"))
                    elif show and item.kind == "keys":
                        self._control.show(" ".join(item.keys).encode())
                case WaitFor(event=event):
                    await event.wait()
                case Stubborn():
                    self._stubborn = True
                case Unkillable(pid=pid):
                    self._unkillable.append(pid)
                case LeaveBehind():
                    self._left.append(step)
                case Exit() | Fail():
                    return step
                case CannotStart():
                    raise AssertionError("a start fails before anything else")
        return Exit()

    async def _leave(self, end: Exit | Fail) -> str | None:
        left = {next(_pids): step for step in self._left if not step.until.is_set()}
        self._control.alive.update({pid: step.command for pid, step in left.items()})
        self._control.end_leader()
        complete = not any(step.holds_output for step in left.values())
        failure = None
        result = None
        if isinstance(end, Fail):
            failure = ToolFailed(end.message, end.trace, transient=end.transient)
            termination = replace(failure.termination, exit=ExitState(code=1))
        else:
            result = end.result
            status = ExitState(code=end.code) if end.code is not None else None
            if end.signal is not None:
                status = ExitState(signal=end.signal)
            termination = Termination(exit=status, result=result)
        self._ended = True
        self._context.ended(termination, complete=complete)
        if not complete:
            await trio.lowlevel.checkpoint()
            self._context.completed()
        for pid, step in left.items():
            await step.until.wait()
            del self._control.alive[pid]
        if failure is not None:
            raise failure
        return result

    async def _abort(self) -> None:
        with trio.CancelScope(shield=True):
            if self._stubborn and not self._ended:
                await trio.sleep(self._context.grace_s)
        self._control.end_leader()
        self._control.alive.clear()
        if not self._ended:
            signal = "KILL" if self._stubborn else "TERM"
            unconfirmed = tuple(self._unkillable)
            status = ExitState(signal=signal)
            self._context.ended(Termination(by=LOST, exit=status, unconfirmed=unconfirmed))
