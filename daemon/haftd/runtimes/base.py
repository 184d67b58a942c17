"""The seam between the supervisor and whatever runs a tool.

A runtime is one coroutine, `async def run(call, port)`. Rules:

- It reports facts through `port` and never touches a handle, a session or a connection.
- It calls `port.started(grip)` once, when the tool runs; before that it may raise `StartFailed`.
- It returns a text (the result), or None (the output is the result); it raises `ToolFailed` for
  the tool's own failure.
- One that starts a process says `port.ended(...)` before it returns or raises, with the same
  result or failure in it: the handle is stopped from there on. All output that is there by then
  was emitted before. While others of it live on it stays, and returns when nothing of it is left.
- If something else holds the output when the process ends, `ended` says so; what still comes is
  emitted for a bounded time, then `port.completed()` is the last of it.
- Cancellation is abort: within a shielded scope it ends everything it started, taking
  `port.grace_s` seconds at most before it kills, says `port.ended(...)` if it had not, and lets
  the cancellation pass. Nothing it started outlives it but what it names in `unconfirmed`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import trio

from haft_protocol.inputs import Input
from haft_protocol.states import LeftBehind, ToolError
from haftd.core.ending import Ending

if TYPE_CHECKING:
    from haftd.core.text import Rendering
    from haftd.host.cgroup import Cgroup
    from haftd.host.process.identity import Identity

__all__ = [
    "Call",
    "ExecutionControl",
    "Input",
    "InputRefused",
    "PendingAnswer",
    "Runtime",
    "RuntimeContext",
    "StartFailed",
    "ToolFailed",
    "Wanted",
    "is_cancellation",
]


def _no_record(identity: Identity) -> None:
    """Nobody keeps records."""


def _no_folder(data: bytes, suffix: str) -> str | None:
    """There is no folder to save in."""
    return None


def _no_room() -> bool:
    """There is nothing to free."""
    return False


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a tool, resolved: nothing is looked up after this.

    `env` is the whole environment of the child. `stdin`: `pipe` for a handle that takes input,
    `null` for an empty one. `output`: how what it prints is read. `mark` is the value of
    HAFT_HANDLE. `umask` and resource limits of the child are the daemon's unless given.
    """

    tool: str
    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    mark: str
    runtime: str = "stdio"
    terminal: bool = False
    stdin: Literal["pipe", "null"] = "null"
    output: Literal["raw", "outcome", "events"] = "raw"
    rows: int = 24
    cols: int = 80
    limits: Mapping[str, float] = field(default_factory=dict)
    """`memory` (bytes), `cpu_s`, `wall_s`, `processes`, `output` (bytes)."""

    nofile: int | None = None
    """The soft limit of descriptors of the child, where the daemon has raised its own."""

    record: Callable[[Identity], None] = _no_record
    """Called with each process that is started, before its program runs; what it raises ends
    the start."""

    make_room: Callable[[], bool] = _no_room
    """Free some descriptors where none is left; says whether there were any to free."""

    cgroup: Cgroup | None = None
    """Where the child is put before its program runs; made and removed by the caller."""

    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What it was called with, checked; for tools without a process of their own."""

    builtin: bool = False
    """The daemon itself is the program: nothing is started."""

    served: tuple[str, str] | None = None
    """The MCP server that runs the tool, and the tool's name there: nothing is started for the call."""

    save: Callable[[bytes, str], str | None] = _no_folder
    """Save data of the result, no text, in a file of the handle whose name has this suffix; returns the path, None
    where the data cannot be saved."""

    again: Callable[[Mapping[str, Any]], Call] | None = None
    """Resolve the call anew with these answers; needed where `output` is `outcome` and the tool
    may ask."""

    script: tuple[Any, ...] = ()
    """For the `fake` runtime only: the steps it plays."""


class ToolFailed(Exception):
    """The tool's own failure, in its own words. With `shows_output` its output is handed out beside
    the failure, as that of a raw tool is."""

    def __init__(
        self,
        message: str,
        trace: tuple[str, ...] = (),
        *,
        transient: bool = False,
        shows_output: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.trace = trace
        self.transient = transient
        self.shows_output = shows_output

    @property
    def ending(self) -> Ending:
        """The end of an execution that this failure has ended."""
        error = ToolError(self.message, self.trace, self.transient)
        return Ending(failure=error, shows_output=self.shows_output)


class StartFailed(Exception):
    """The tool could not be started and nothing of it runs. `reason` is one of `program`,
    `folder`, `interpreter`, `size`, `permission`, `resources`, `record`, `format`, `runtime`,
    `server`."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


class InputRefused(Exception):
    """The input cannot be given; the message says why and what would work. `malformed`: it never
    could be, in whatever state the tool is."""

    def __init__(self, message: str, *, malformed: bool = False) -> None:
        super().__init__(message)
        self.malformed = malformed


def is_cancellation(error: BaseException) -> bool:
    """Whether an error is nothing but a cancellation: a nursery raises one as a group of them, which
    `except trio.Cancelled` does not see."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_cancellation, error.exceptions))
    return isinstance(error, trio.Cancelled)


class ExecutionControl(Protocol):
    """What can be done to a running tool from outside; every call decides at once."""

    @property
    def pid(self) -> int | None:
        """The process that was started, if there is one."""

    @property
    def command(self) -> str:
        """What runs, for a person to read: the arguments as they were given, cut short at 200
        characters. What is secret in them is in here, too."""

    @property
    def terminal(self) -> bool:
        """Whether it sits on a terminal."""

    @property
    def rendering(self) -> Rendering:
        """How its output reads as text, also after the end."""

    def write(self, item: Input) -> int:
        """Queue `item` whole, behind what is queued; returns its number. Raises `InputRefused`.

        Signals and resizes (and C-c on a pipe) act at once and return the last number given.
        The number is reported through `port.written` when all of it is with the program, which
        may be before this returns.
        """

    def feed(self, data: bytes) -> int:
        """Queue bytes as they are, on a pipe that speaks no protocol; as `write` otherwise."""

    def kill(self) -> None:
        """Kill everything of it that lives, without asking; nothing is waited for."""

    def left_behind(self) -> tuple[LeftBehind, ...]:
        """What lives on after the process that was started has ended, as of now."""

    def members(self) -> tuple[int, ...]:
        """The pids of everything of it that lives, as of now."""

    def screen(self) -> ScreenShot | None:
        """The terminal's screen, after the end the last one; None without a terminal, or where
        nothing was ever on it."""

    def paint(self) -> bytes | None:
        """The bytes that draw the terminal's screen, as of now, on an empty terminal of its size;
        None where `screen` is None."""

    def screen_digest(self) -> int | None:
        """A hash of the terminal's screen and the place of its cursor: of two that are equal no cell has
        changed in between. None where nothing is known of it."""

    def wanted(self) -> Wanted:
        """Whether it waits for input, as of now: all that was typed is read, all that it printed
        is emitted."""

    def is_suspended(self) -> bool:
        """Whether a signal has stopped it (TSTP, STOP, TTIN): a process of the foreground of a terminal, on
        a pipe of the process group that was started."""

    def hides_input(self) -> bool:
        """Whether a line that is typed now is not shown: a terminal with its echo off that reads
        by the line, as for a password. Keys that a program shows by itself are not hidden."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whether a tool waits for input, as of one moment.

    `reads`: it does; `busy`: it does not; `unknown`: nobody can tell, and only its silence says
    something; `held`: it does, and is kept waiting, as what it was given is for another prompt.
    `kind` is what it waits for: a line, a line that is not shown, keys.
    """

    state: Literal["reads", "busy", "unknown", "held"]
    kind: Literal["line", "key", "secret"] | None = None
    within_ms: int | None = None
    """Of a `reads`: it does something else after so long, input or not, as a matter of routine.
    None where it waits for nothing but input."""
    at_work: bool = False
    """Of such a one: it does something else meanwhile, of which its earlier waits say nothing."""
    processes: frozenset[tuple[int, int, int]] = field(default=frozenset(), compare=False)
    """Of an `unknown`: equal in two looks if no process of it has begun or ended in between."""
    is_settled: bool = field(default=False, compare=False)
    """Of an `unknown`: it runs nothing that has only just begun, so that it may well wait."""


@dataclass(frozen=True, slots=True)
class ScreenShot:
    """A plain snapshot of a screen; `cursor` is (row, col) from 0; `revision` grows with output;
    `scrollback` counts the lines above it that are kept."""

    rows: int
    cols: int
    cursor: tuple[int, int]
    alt: bool
    title: str
    lines: tuple[str, ...]
    revision: int
    scrollback: int = 0


class PendingAnswer(Protocol):
    """The answer to a question that was asked; whoever has asked awaits or withdraws it."""

    async def wait(self) -> Any:
        """Return the checked answer. Raises `ToolFailed` where there will be none; cancelled, the
        question is withdrawn. Never returns once the handle has ended."""

    def withdraw(self) -> None:
        """Ask it no more, unless it has ended already."""


class RuntimeContext(Protocol):
    """How a runtime reports; everything here decides at once and never blocks."""

    grace_s: float
    """How long an abort waits between TERM and KILL; read when cancellation arrives."""

    def started(self, grip: ExecutionControl) -> None:
        """The tool runs."""

    def emit(self, data: bytes) -> None:
        """It printed `data`."""

    def keep_up(self) -> Awaitable[None] | None:
        """What is to be awaited before more output is read, as whoever reads it is behind; None: nothing."""

    def written(self, number: int) -> None:
        """All input up to `number` is with the program, or was dropped as nobody will read it."""

    def ended(self, ending: Ending, *, complete: bool = True) -> None:
        """The process that was started has ended. At most once.

        The cause is `EXIT` if it ended before any signal of an abort reached it, `LIMIT`, or else `LOST`.
        `complete`: nothing holds its output any more.
        """

    def redrawn(self) -> None:
        """The terminal's screen has changed without output."""

    def completed(self) -> None:
        """No more output will come, although `ended` said that it was not complete."""

    def ask(self, question: Any, *, for_a_person: bool = False) -> PendingAnswer:
        """Ask a `haft_protocol.questions.Question`, in one step with what was emitted right before. With
        `for_a_person` no assistant may answer, whatever the definition says."""


class Runtime(Protocol):
    """One way of running a tool."""

    async def run(self, call: Call, port: RuntimeContext) -> str | None:
        """See the head of this file."""
