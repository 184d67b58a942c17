"""An execution: a runtime's reports become the handle's events, methods act on the tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from math import inf
from typing import Any

import msgspec
import trio
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from haft_protocol.errors import (
    RpcError,
    input_refused,
    invalid_params,
)
from haft_protocol.questions import Question
from haft_protocol.states import EndedBy, InputKind, LeftBehind, Screen, StyledRows, TerminalSize
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.terminal_sizes import TerminalSizes
from haftd.core.termination import Termination
from haftd.host.readiness import LateEvent
from haftd.inquiries.kind import Withdrawn
from haftd.inquiries.pending_inquiry import PendingInquiry
from haftd.inquiries.tool_question import InquiryCancelled, InquiryQueue, NoAnswer
from haftd.runtimes.base import (
    Call,
    ExecutionControl,
    Input,
    InputRefused,
    InputState,
    PendingAnswer,
    Runtime,
    ToolFailed,
)

from .review import PendingReview

MAX_BACKLOG = 262_144
"""Bytes that a pipe or subscriber may lag before the program is held up: below the spool's share of
memory."""

_SHOWN_KEPT = 4
"""Screens kept as a base of changes."""
_NONE_SHOWN: Mapping[int, Screen] = {}

_SUSPENSION_KNOWN_S = 0.1


class Silence:
    """Silence of a process with an unknown input state; a process that begins or ends between
    readings ends it."""

    __slots__ = ("_processes", "since")

    def __init__(self) -> None:
        self.since = inf
        """Beginning by `record`'s clock; infinite after a known reading."""
        self._processes: object = None

    def record(self, input_state: InputState, now: float) -> None:
        if input_state.state != "unknown":
            self.since = inf
        elif self.since == inf or input_state.processes != self._processes:
            self.since = now
        self._processes = input_state.processes


class Skipped(Exception):
    """Deliberate skip; the argument is the notice."""

    def __init__(self, notice: str, by: str | UnsetType = UNSET) -> None:
        super().__init__(notice)
        self.notice = notice
        self.by = by


StartGate = Callable[[], Awaitable[tuple[Runtime, Call]]]
"""Awaited before the run; approves the handle and returns the call to run. Raises `Skipped`, or an
`RpcError` as if the handle had never been admitted."""


class Execution:
    """Execution from start to last process, and runtime context."""

    __slots__ = (
        "_backlog_changed",
        "_backlogs",
        "_early",
        "_shown",
        "_suspended",
        "_suspension_known_until",
        "begun",
        "callers",
        "control",
        "done",
        "grace_s",
        "handle",
        "inquiries",
        "is_stop_requested",
        "known_poll_ms",
        "mark",
        "review",
        "scope",
        "silence",
        "sizes",
        "written_to",
    )

    def __init__(
        self,
        handle: Handle,
        grace_s: float,
        inquiries: InquiryQueue | None = None,
        review: PendingReview | None = None,
    ) -> None:
        self.handle = handle
        self.mark = ""
        """Tag of the processes."""
        self.review = review
        self.inquiries = inquiries or InquiryQueue(handle)
        self.grace_s = grace_s
        self.scope = trio.CancelScope()
        self.sizes = TerminalSizes()
        self.begun = LateEvent()
        self.done = LateEvent()
        self.control: ExecutionControl | None = None
        self.is_stop_requested = False
        """True after a request to end the execution or processes left behind."""
        self._suspended = False
        self._suspension_known_until = 0.0
        self.written_to = 0
        self.known_poll_ms = 0
        """Longest timed wait without effect, at a prompt."""
        self.silence = Silence()
        self.callers: int | None = 0
        """Number of waiting calls; None after the handle is held."""
        self._early: tuple[Callable[[], None], ...] = ()
        self._backlogs: tuple[Callable[[], int], ...] = ()
        """Functions that return each reader's lag in bytes."""
        self._backlog_changed = LateEvent()
        self._shown = _NONE_SHOWN

    def join(self) -> None:
        if self.callers is not None:
            self.callers += 1

    def leave(self) -> bool:
        """Count a waiting call less; return True after the last, unless held."""
        if self.callers is None:
            return False
        self.callers -= 1
        return self.callers == 0

    def hold(self) -> None:
        """Let the execution outlive its waiting calls."""
        self.callers = None

    @property
    def is_unclaimed(self) -> bool:
        pending = self.inquiries.current
        return pending is not None and pending.is_unclaimed

    def cancel(self) -> None:
        self.scope.cancel()
        if self.review is not None:
            self.review.cancel()

    def renew_scope(self) -> None:
        """Replace the scope for the next task of the execution; a cancellation is carried over."""
        was, self.scope = self.scope, trio.CancelScope()
        if was.cancel_called:
            self.scope.cancel()

    def request_stop(self, by: EndedBy) -> bool:
        """Record a request to end; return True for the first."""
        is_first = not self.is_stop_requested
        self.is_stop_requested = True
        self.handle.request_stop(by)
        return is_first

    def skip(self, skipped: Skipped) -> None:
        termination = Termination(by=EndedBy("exit", skipped.by), result=skipped.notice)
        self.handle.end(termination, trio.current_time())

    # -- reports of the runtime

    def started(self, control: ExecutionControl) -> None:
        self.control = control
        self.handle.start(
            trio.current_time(),
            pid=control.pid,
            command=control.command,
            terminal=control.terminal,
            rendering=control.rendering,
        )
        self.begin()
        self.inquiries.open_next()

    def emit(self, data: bytes, *, is_stderr: bool = False) -> None:
        if self.review is not None:
            self.review.emit(data)
        else:
            self.handle.append_output(data, trio.current_time(), is_stderr=is_stderr)

    def keep_up(self) -> Awaitable[None] | None:
        if not self._backlogs or self._backlog() <= MAX_BACKLOG:
            return None
        return self._catch_up()

    async def _catch_up(self) -> None:
        while self._backlog() > MAX_BACKLOG // 2:
            if self._backlog_changed.is_set():  # another stream waits for the same event
                self._backlog_changed = LateEvent()
            await self._backlog_changed.wait()

    def _backlog(self) -> int:
        return max((backlog() for backlog in self._backlogs), default=0)

    def written(self, number: int) -> None:
        self.written_to = max(self.written_to, number)
        self.handle.touch(trio.current_time())

    def ended(self, termination: Termination, *, complete: bool = True) -> None:
        termination = termination.with_cause(self.handle.stop_requested_by)
        # The caller may know the argument only, and not the key of the definition.
        argument = self.handle.settings.limit_arguments.get(termination.limit or "")
        if argument is not None:
            termination = replace(termination, limit_argument=argument)
        now = trio.current_time()
        if self.review is None:
            self.handle.end(termination, now, complete=complete)
        else:
            self.review.end(termination, now, complete=complete)
        self.inquiries.withdraw_all()

    def redrawn(self) -> None:
        self.handle.touch(trio.current_time())

    def completed(self) -> None:
        if self.review is not None:
            self.review.complete()
        self.handle.complete_output(trio.current_time())

    def ask(self, question: Question, *, for_a_person: bool = False) -> PendingAnswer:
        queue = self.inquiries
        kind = queue.make_question(question)
        if for_a_person:
            kind = replace(kind, for_a_person=True)
        return _PendingAnswer(queue, queue.put(kind))

    # -- the pipes and subscribers that the process waits for

    def add_backlog(self, backlog: Callable[[], int]) -> None:
        """Hold the process up while `backlog` returns more than `MAX_BACKLOG` bytes."""
        self._backlogs = (*self._backlogs, backlog)

    def remove_backlog(self, backlog: Callable[[], int]) -> None:
        self._backlogs = tuple(other for other in self._backlogs if other != backlog)
        self.backlog_changed()

    def backlog_changed(self) -> None:
        self._backlog_changed.set()

    # -- actions of the methods

    def feed(self, data: bytes) -> int:
        """Queue another handle's output as input; raises `InputRefused`."""
        if self.control is None:
            raise InputRefused("The program has not started.")
        return self.control.feed(data)

    def write(self, item: Input) -> int:
        """Queue input; raises `RpcError` if the tool takes none."""
        if self.control is None:
            raise AssertionError("`write` was called before the tool runs; `when_begun` queues")
        before = self.written_to
        try:
            number = self.control.write(item)
        except InputRefused as refused:
            message = refused.message(secret=item.secret)
            if refused.malformed:
                raise invalid_params(message, field="input") from None
            raise input_refused(self.handle.tool, message) from None
        handle = self.handle
        if item.rows:
            now = trio.current_time()
            handle.timeline.add_resize(handle.spool.end, now, item.rows, item.cols)
        if self.written_to == before:  # else `written` has touched the handle
            handle.touch(trio.current_time())
        self._suspension_known_until = 0.0  # the signal may be CONT
        return number

    def resized(self, caller: Caller, rows: int, cols: int) -> None:
        self.sizes.resize(caller, (rows, cols))
        self.handle.wake()

    def type(self, caller: Caller, item: Input) -> int:
        """Queue typed input like `write`; the terminal takes the size of the client that types, unless
        the input is refused."""
        size = self.sizes.wanted(caller)
        number = self.write(item if size is None else replace(item, rows=size[0], cols=size[1]))
        if self.sizes.claim(caller):
            self.handle.wake()
        return number

    def leave_size(self, caller: Caller) -> None:
        if self.sizes.leave(caller):
            self.handle.wake()

    def size_for(self, caller: Caller) -> TerminalSize | UnsetType:
        """Return the terminal's size and its owner, once a client has resized."""
        if self.sizes.current is None:
            return UNSET
        owner = self.sizes.owner
        client = owner.label if isinstance(owner, Caller) else UNSET
        return TerminalSize(*self.sizes.current, client, owner is caller)

    def when_begun(self, act: Callable[[], None]) -> None:
        """Call `act` once the tool runs or has failed to start, in order of registration."""
        if self.begun.is_set():
            act()
        else:
            self._early = (*self._early, act)

    def screen(self, since: int | None = None) -> Screen | None:
        """Return the terminal's screen, if any: whole, or changes since a shown revision."""
        shot = self.picture()
        if shot is None:
            return None
        before = None if since is None else self._shown.get(since)
        newest = sorted({*self._shown, shot.revision})[-_SHOWN_KEPT:]
        shown = {**self._shown, shot.revision: shot}
        self._shown = {revision: shown[revision] for revision in newest}
        return shot if before is None else changes(before, shot)

    def picture(self) -> Screen | None:
        """Return the whole screen, if any; later changes are not relative to it."""
        return self.control.screen() if self.control is not None else None

    def paint(self) -> bytes | None:
        return self.control.paint() if self.control is not None else None

    def styled_rows(self) -> StyledRows | None:
        return self.control.styled_rows() if self.control is not None else None

    def screen_digest(self) -> int | None:
        return None if self.control is None else self.control.screen_digest()

    def input_state(self) -> InputState:
        """Return the input state, in some 0.2 ms for a terminal."""
        input_state = InputState("busy") if self.control is None else self.control.input_state()
        self.silence.record(input_state, trio.current_time())
        return input_state

    def reads(self) -> InputKind | None:
        if not self.handle.terminal or self.handle.state is not State.RUNNING:
            return None
        return self.input_state().expected

    def check_suspended(self, now: float) -> bool:
        """True while a signal has stopped the tool; asks the kernel ten times a second at most."""
        if now >= self._suspension_known_until:
            self._suspended = self.control is not None and self.control.is_suspended()
            self._suspension_known_until = now + _SUSPENSION_KNOWN_S
        return self._suspended

    def read_output(self) -> None:
        """Take output that is readable already, so that a call need not wait for it."""
        if self.control is not None:
            self.control.read_output()

    def hides_input(self) -> bool:
        return self.control is not None and self.control.hides_input()

    def begin(self) -> None:
        is_first = not self.begun.is_set()
        self.begun.set()
        early, self._early = self._early, ()
        for act in early:
            act()
        if is_first:
            self.handle.wake()

    def kill(self) -> None:
        self.grace_s = 0.0
        if self.control is not None:
            self.control.kill()

    def members(self) -> tuple[int, ...]:
        return () if self.control is None else self.control.members()

    def left_behind(self) -> tuple[LeftBehind, ...]:
        return () if self.control is None else self.control.left_behind()

    def finish(self) -> None:
        """Record that no process is left; the control's reference back is a cycle."""
        self.control = None
        self.done.set()

    def reject(self, error: RpcError) -> None:
        self.handle.reject(error, trio.current_time(), is_reported=self.callers is not None)
        self.inquiries.withdraw_all()


class _PendingAnswer:
    __slots__ = ("_pending", "_queue")

    def __init__(self, queue: InquiryQueue, pending: PendingInquiry) -> None:
        self._queue = queue
        self._pending = pending

    async def wait(self) -> Any:
        try:
            return await self._queue.wait(self._pending)
        except InquiryCancelled:
            # Withdrawn by the runtime itself.
            return await trio.sleep_forever()
        except NoAnswer as none:
            raise ToolFailed(f"The inquiry failed: {str(none).rstrip('.')}.") from None

    def withdraw(self) -> None:
        self._pending.settle(Withdrawn())


def changes(before: Screen, now: Screen) -> Screen:
    """Return the rows that differ, or all if the size does; both screens are whole."""
    if (before.rows, before.cols) != (now.rows, now.cols):
        return now
    changed = {str(at): text for at, text in enumerate(now.lines) if before.lines[at] != text}
    return msgspec.structs.replace(now, lines=(), changed=changed)
