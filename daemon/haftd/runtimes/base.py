"""Interface between the supervisor and the runtime of a tool: one coroutine, `run(call, context)`.
- A runtime reports through `context` and touches no handle, session or connection.
- `context.started(control)` is called once; only before that `run` may raise `StartFailed`.
- `run` returns the result, or None if the output is the result, or raises `ToolFailed`.
- A runtime with a process emits all available output, calls `context.ended(...)` with the same
  result or failure, and returns or raises once no process is left. Output that another process
  holds follows for a bounded time, up to `context.completed()`.
- Cancellation is abort: in a shielded scope the runtime ends all processes (KILL after
  `context.grace_s` seconds), calls `context.ended(...)` unless it has, and lets the cancellation
  pass. Only processes in `unconfirmed` outlive it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import msgspec
import trio

from haft_protocol.inputs import Input
from haft_protocol.methods import Surface
from haft_protocol.states import InputKind, LeftBehind, Screen, StyledRows, ToolError
from haftd.core.termination import Termination
from haftd.launch_spec import LaunchSpec
from haftd.redaction import Redacted

if TYPE_CHECKING:
    from haftd.core.text import Rendering
    from haftd.host.cgroup import Cgroup
    from haftd.host.limit_group import LimitGroup
    from haftd.host.process.identity import Identity
    from haftd.host_calls.decisions import HostAccess

__all__ = [
    "Call",
    "ExecutionControl",
    "Input",
    "InputRefused",
    "InputState",
    "LaunchSpec",
    "Mediation",
    "PendingAnswer",
    "Runtime",
    "RuntimeContext",
    "StartFailed",
    "ToolFailed",
    "WithoutScreen",
    "is_cancellation",
]


# Defaults of the functions of `Call`, for programs without a handle and for tests.
def _record_nothing(identity: Identity) -> None:
    pass


def _refuse_nothing() -> str:
    return ""


def _save_nothing(data: bytes, suffix: str) -> str | None:
    return None


def _free_nothing() -> bool:
    return False


class Mediation(msgspec.Struct, frozen=True):
    """Access of a mediated tool to the host."""

    access: HostAccess
    make_program: Callable[[tuple[str, ...], str, tuple[str, ...], Mapping[str, float]], Call]
    """Make the call of a program, in the tool's sandbox: words, folder, names of variables, limits."""
    clear_up: Callable[[Call, bool], None]
    """Called after the last process."""


class Call(Redacted, frozen=True):
    """Resolved execution; `mark` is the value of HAFT_HANDLE.

    >>> call = Call("list", LaunchSpec(("ls", "-l"), "/tmp"), mark="")
    >>> call.launch.argv, call.without_launch().launch.argv
    (('ls', '-l'), ())
    """

    UNSHOWN: ClassVar[tuple[str, ...]] = ("arguments",)

    tool: str
    launch: LaunchSpec
    mark: str
    runtime: str = "stdio"
    record: Callable[[Identity], None] = _record_nothing
    """Called with each started process, before its program runs; an exception fails the start."""

    make_room: Callable[[], bool] = _free_nothing
    """Free descriptors after EMFILE; returns False if none could be freed."""

    cgroup: Cgroup | None = None
    """The child's cgroup from its first instruction; created and removed by the caller, like
    `limit_group`."""

    limit_group: LimitGroup | None = None
    """The kernel's count for the handle's limits."""

    arguments: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Validated arguments, for tools without a process."""

    builtin: bool = False
    """The tool runs within the daemon."""

    surface: Surface = "actions"
    """The surface of `tools/call`, for tools that describe other tools."""

    served: tuple[str, str] | None = None
    """The MCP server of the tool, and the tool's name there."""

    save: Callable[[bytes, str], str | None] = _save_nothing
    """Save binary data to a file of the handle with this suffix; returns the path, None on failure.
    """

    with_answers: Callable[[Mapping[str, Any]], Call] | None = None
    """Return the call for another run, with these answers to its questions; required where `output` is
    `outcome` and the tool may ask."""

    mediation: Mediation | None = None
    """Host calls of a tool of the runtime `vfs`."""

    refused_destination: Callable[[], str] = _refuse_nothing
    """Return the last destination that haft's proxy refused, or an empty string."""

    explained: tuple[int, ...] = ()
    """Exit codes whose reason is the process's last line of output."""

    script: tuple[Any, ...] = ()
    """Script of the runtime `fake`."""

    def without_launch(self) -> Call:
        """Return the part of the call that outlives the start, without environment and argv (some
        KiB)."""
        return Call(
            self.tool, _LAUNCHED, self.mark, cgroup=self.cgroup, limit_group=self.limit_group
        )


_LAUNCHED = LaunchSpec((), "/")


class ToolFailed(Exception):
    """Failure of the tool itself; `shows_output` adds the output to the reply.

    >>> ToolFailed("The table is locked.", transient=True).termination.failure
    ToolError(message='The table is locked.', trace=(), transient=True)
    """

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
    def termination(self) -> Termination:
        error = ToolError(self.message, self.trace, self.transient)
        return Termination(failure=error, shows_output=self.shows_output)


class StartFailed(Exception):
    """Failed start without a process left. `reason` is `program`, `folder`, `interpreter`, `size`,
    `permission`, `resources`, `record`, `format`, `sandbox`, `runtime` or `server`."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


class InputRefused(Exception):
    """Refused input. `malformed`: no state of the tool would accept it; `quoted`: input that the
    message repeats."""

    def __init__(self, message: str, *, malformed: bool = False, quoted: str = "") -> None:
        super().__init__(message)
        self.malformed = malformed
        self.quoted = quoted

    def message(self, *, secret: bool) -> str:
        """Return the message, of a secret input without the input.

        >>> InputRefused("'x1' is not a key", quoted="'x1'").message(secret=True)
        '[secret] is not a key'
        """
        text = str(self)
        return text.replace(self.quoted, "[secret]") if secret and self.quoted else text


def is_cancellation(error: BaseException) -> bool:
    """True for `trio.Cancelled`, alone or in a nursery's group.

    >>> is_cancellation(ExceptionGroup("", [KeyError("a")]))
    False
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_cancellation, error.exceptions))
    return isinstance(error, trio.Cancelled)


class ExecutionControl(Protocol):
    """Actions on a running tool; none blocks."""

    @property
    def pid(self) -> int | None:
        """Pid of the leader."""

    @property
    def command(self) -> str:
        """Arguments for display, up to 200 characters; may contain secrets."""

    @property
    def terminal(self) -> bool:
        """True for a tool on a terminal."""

    @property
    def rendering(self) -> Rendering:
        """Conversion of output to text, also after the end."""

    def write(self, item: Input) -> int:
        """Queue `item`; return its number for `context.written`, which may be called before this
        returns. Signals and resizes (and C-c on a pipe) act at once and return the last number.
        Typed input with `rows` and `cols` resizes the terminal first, unless it is refused. Raises
        `InputRefused`, and has then changed nothing."""

    def feed(self, data: bytes) -> int:
        """Queue raw bytes on a pipe without a protocol; otherwise like `write`."""

    def kill(self) -> None:
        """Send KILL to all processes."""

    def left_behind(self) -> tuple[LeftBehind, ...]:
        """Processes that have outlived the leader."""

    def members(self) -> tuple[int, ...]:
        """Pids of all living processes."""

    def screen(self) -> Screen | None:
        """The screen, after the end the last one; None without a terminal or output."""

    def paint(self) -> bytes | None:
        """Bytes that draw the screen on an empty terminal of its size."""

    def styled_rows(self) -> StyledRows | None:
        """Rows of a running terminal's screen as runs of text and SGR parameters."""

    def screen_digest(self) -> int | None:
        """Hash of cells and cursor, equal while no cell has changed; None if unknown."""

    def input_state(self) -> InputState:
        """Input state; a tool with unread input or output is `busy` or `held`."""

    def read_output(self) -> None:
        """Report output that is readable already, before a call waits for some; may do nothing."""

    def is_suspended(self) -> bool:
        """True if a signal has stopped a process of the terminal's foreground group, or of the
        group on pipes."""

    def hides_input(self) -> bool:
        """True if a line typed now is not shown: echo off in canonical mode. Echo by the process
        itself does not count."""


class WithoutScreen:
    """Part of `ExecutionControl` of a tool without a terminal.

    >>> WithoutScreen().screen() is None
    True
    """

    def screen(self) -> Screen | None:
        return None

    def paint(self) -> bytes | None:
        return None

    def styled_rows(self) -> StyledRows | None:
        return None

    def screen_digest(self) -> int | None:
        return None


class InputState(msgspec.Struct, frozen=True):
    """Input that a tool waits for, as far as is known.

    >>> InputState("reads", "line").expected
    'line'
    >>> InputState("unknown", "line").expected is None
    True
    """

    state: Literal["reads", "busy", "unknown", "held"]
    """`reads`: waits for input; `busy`: does not; `unknown`: silence is the only evidence; `held`:
    waits, but queued input is for another prompt."""
    kind: InputKind | None = None
    """Expected input: a line, a hidden line, or keys."""
    within_ms: int | None = None
    """For `reads`: the timeout of the wait; None if only input ends it."""
    at_work: bool = False
    """For `reads` with a timeout: the process works meanwhile; earlier waits are no evidence."""
    processes: frozenset[tuple[int, int, int]] = frozenset()
    """For `unknown`: equal in two readings if no process has begun or ended between."""
    is_stable: bool = False
    """For `unknown`: no process has just begun; the tool may well wait."""

    @property
    def expected(self) -> InputKind | None:
        """Expected input, certain or not; None where unknown."""
        if self.state == "busy" or (self.state == "unknown" and not self.is_stable):
            return None
        return self.kind

    def __eq__(self, other: object) -> bool:
        """Compare without the evidence of idleness."""
        return isinstance(other, InputState) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def _facts(self) -> tuple[object, ...]:
        return self.state, self.kind, self.within_ms, self.at_work


class PendingAnswer(Protocol):
    """Answer to a question, to await or withdraw."""

    async def wait(self) -> Any:
        """Return the checked answer. Raises `ToolFailed` if no backend answers; cancellation withdraws the
        question. Never returns after the handle's end."""

    def withdraw(self) -> None:
        """Withdraw the question unless it has ended."""


class RuntimeContext(Protocol):
    """Reports of a runtime; no method blocks."""

    grace_s: float
    """Seconds between TERM and KILL on abort; read when cancellation arrives."""

    def started(self, control: ExecutionControl) -> None:
        """Report that the tool runs."""

    def emit(self, data: bytes, *, is_stderr: bool = False) -> None:
        """Report output; `is_stderr` where standard error has its own pipe."""

    def keep_up(self) -> Awaitable[None] | None:
        """Return an awaitable that bounds the output, to await before the next read."""

    def written(self, number: int) -> None:
        """Report that the process has all input up to `number`, or never will."""

    def ended(self, termination: Termination, *, complete: bool = True) -> None:
        """Report the leader's end, at most once. The cause is `EXIT` if the end preceded every
        signal of an abort, else `LIMIT` or `LOST`. `complete`: no process holds the output."""

    def redrawn(self) -> None:
        """Report a screen change without output."""

    def completed(self) -> None:
        """Report the end of output that `ended` left incomplete."""

    def ask(self, question: Any, *, for_a_person: bool = False) -> PendingAnswer:
        """Ask a `haft_protocol.questions.Question` in one step with the output emitted before. With
        `for_a_person` no assistant may answer, regardless of the definition."""


class Runtime(Protocol):
    """A way of running a tool."""

    async def run(self, call: Call, context: RuntimeContext) -> str | None:
        """Run the tool by this module's rules."""
