"""A handle: one execution of a tool, from the reservation of the id to the last fetch.

An illegal event raises and changes nothing. Reading is pure; the event `Read` moves the session's
read offset, which freezes at the stop: later readers get the same delta. Times are monotonic
seconds, unless named otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from haft_protocol.errors import RpcError
from haft_protocol.questions import Question
from haft_protocol.states import EndedBy, HandleState, LeftBehind, Review, Screen
from haftd.notice_settings import DEFAULT_NOTICES, NoticeSettings

from .base_state import base_state
from .lifecycle import (
    Abandoned,
    AwaitingApproval,
    Draining,
    Event,
    Lifecycle,
    Outcome,
    Rejected,
    Running,
    Starting,
    State,
    Stopped,
    Stopping,
    UnderReview,
    Waiting,
    step,
)
from .output_file import CHUNK, Steps, finish, save_output
from .read_position import START, Read, ReadPosition
from .spool import SavedFile, Spool
from .stderr_spans import NO_SPANS, StderrSpans
from .termination import Termination
from .text import STRIPPED, Rendering, shown_end
from .timeline import Timeline


class HandleSettings(msgspec.Struct, frozen=True):
    """Settings of a tool's handles (docs/definitions.md)."""

    policy: Mapping[str, str] = MappingProxyType({})
    """Mode (`ask`, `edit` or `skip`) of each action that is not unattended."""
    may: frozenset[str] = frozenset()
    """Rights of the processes to act for a person."""
    is_sandboxed: bool = False
    """The processes run in a sandbox, without the right to call haftd."""
    on_turn_end: Literal["abort", "await", "keep", "inquire"] = "abort"
    on_disconnect: Literal["keep", "abort"] = "keep"
    """Action when the session's last connection closes."""
    notify: NoticeSettings = DEFAULT_NOTICES
    """Notices to the session."""
    is_transient: bool = False
    """Forgotten when it has ended and has no reader."""
    is_reviewed: bool = False
    """A reviewer decides on the result."""
    limit_arguments: Mapping[str, str] = MappingProxyType({})
    """Argument of the tool that is the value of a limit, by the limit."""


DEFAULT_SETTINGS = HandleSettings()


CallKey = tuple[str, str, bytes]
"""Key of the call that created a handle: `call_id`, tool, and a digest of the arguments."""

Listener = Callable[[], object]
"""Callback after every change; must not raise, may listen and unlisten."""


class Program(msgspec.Struct, frozen=True):
    """Program of an execution; before the start, planned values."""

    command: str = ""
    pid: int | None = None
    terminal: bool = False
    rendering: Rendering = STRIPPED


_NO_SCREEN: Final[tuple[Screen | None, bytes | None]] = (None, None)


class Handle:
    """Execution of a tool; compared by identity."""

    __slots__ = (
        "_await_count",
        "_base_state",
        "_base_state_of",
        "_last_screen",
        "_left_behind",
        "_listeners",
        "_on_state_change",
        "_on_stop",
        "_program",
        "call",
        "created_at",
        "generation",
        "id",
        "last_activity",
        "last_output",
        "lifecycle",
        "position",
        "question_count",
        "root",
        "session",
        "settings",
        "spool",
        "started_at",
        "stderr_spans",
        "timeline",
        "tool",
    )

    def __init__(
        self,
        *,
        id: str,
        tool: str,
        session: str,
        generation: int,
        spool: Spool,
        now: float,
        call: CallKey | None = None,
        root: str = "/",
        wall: float = 0.0,
        command: str = "",
        terminal: bool = False,
        needs_approval: bool = False,
        settings: HandleSettings = DEFAULT_SETTINGS,
        on_stop: Callable[[Handle], None] | None = None,
        on_state_change: Callable[[Handle], None] | None = None,
    ) -> None:
        """`on_stop` is called once, first; `on_state_change` on a question or the stop, before
        listeners."""
        self.id: Final = id
        self.tool: Final = tool
        self.session: Final = session
        self.generation: Final = generation
        self.call: Final = call
        self.root: Final = root
        self.settings: Final = settings
        self._on_stop = on_stop
        self._on_state_change = on_state_change
        self.lifecycle: Lifecycle = AwaitingApproval() if needs_approval else Starting()
        self._base_state: HandleState | None = None
        self._base_state_of: Lifecycle | None = None
        self._program = Program(command, terminal=terminal)
        self.spool = spool
        """Output; a review may replace it at the end."""
        self.timeline: Final = Timeline()
        """Times of the spool's bytes."""
        self.stderr_spans: StderrSpans = NO_SPANS
        """Parts that are standard error, if that has its own pipe."""
        self.created_at: Final = now
        self.started_at: Final = wall
        """Time of admission, in seconds since the epoch."""
        self.last_output: float | None = None
        self.last_activity = now
        self.question_count = 0
        self._last_screen = _NO_SCREEN
        self._left_behind: Callable[[], tuple[LeftBehind, ...]] | None = None
        """Returns processes left running; None without."""
        self.position = START
        self._await_count = 0
        self._listeners: tuple[Listener, ...] = ()

    def __repr__(self) -> str:
        stage = self.lifecycle.stage
        return f"<handle {self.session}/{self.id} #{self.generation} {self.tool} {stage}>"

    @property
    def phase(
        self,
    ) -> AwaitingApproval | Starting | Running | Waiting | UnderReview | Abandoned | Outcome:
        """State, regardless of a requested stop."""
        lifecycle = self.lifecycle
        return lifecycle.was if isinstance(lifecycle, Stopping) else lifecycle

    @property
    def state(self) -> State:
        return self.lifecycle.state

    @property
    def stopped(self) -> bool:
        return self.lifecycle.state is State.STOPPED

    @property
    def has_ended(self) -> bool:
        """True after the end, even while a review shows the handle running."""
        return self.stopped or isinstance(self.phase, UnderReview)

    @property
    def is_awaiting_approval(self) -> bool:
        return isinstance(self.phase, AwaitingApproval | Abandoned)

    @property
    def is_awaiting_decision(self) -> bool:
        """True while only a user's decision is awaited: on the start, or on the result."""
        return self.is_awaiting_approval or isinstance(self.phase, UnderReview)

    @property
    def stop_requested_by(self) -> EndedBy | None:
        """Cause of the first request to end; None after the end."""
        lifecycle = self.lifecycle
        return lifecycle.by if isinstance(lifecycle, Stopping | Abandoned) else None

    @property
    def question(self) -> Question | None:
        phase = self.phase
        return phase.question if isinstance(phase, Waiting) else None

    @property
    def outcome(self) -> Outcome | None:
        lifecycle = self.lifecycle
        return lifecycle if isinstance(lifecycle, (Draining, Stopped, Rejected)) else None

    @property
    def termination(self) -> Termination | None:
        outcome = self.outcome
        return None if outcome is None else outcome.termination

    @property
    def stopped_at(self) -> float | None:
        outcome = self.outcome
        return None if outcome is None else outcome.at

    @property
    def output_complete(self) -> bool:
        """False if the execution has ended and output may still come."""
        return not isinstance(self.lifecycle, Draining)

    @property
    def review(self) -> Review | None:
        if not self.settings.is_reviewed:
            return None
        lifecycle = self.lifecycle
        if isinstance(lifecycle, (Draining, Stopped, Rejected)):
            return lifecycle.review
        return "waits" if isinstance(self.phase, UnderReview) else "held"

    @property
    def base_state(self) -> HandleState:
        """State for readers without text and times, made at the first read after an event: the
        lifecycle is frozen, and all else in it is the handle's for good."""
        state = self._base_state
        if state is None or self._base_state_of is not self.lifecycle:
            state = self._base_state = base_state(
                self.lifecycle,
                self.review,
                id=self.id,
                tool=self.tool,
                session=self.session,
                generation=self.generation,
                created_at=self.created_at,
            )
            self._base_state_of = self.lifecycle
        return state

    @property
    def refusal(self) -> RpcError | None:
        outcome = self.outcome
        return None if outcome is None else outcome.refusal

    @property
    def rejection(self) -> RpcError | None:
        lifecycle = self.lifecycle
        return lifecycle.error if isinstance(lifecycle, Rejected) else None

    @property
    def unconfirmed(self) -> tuple[int, ...]:
        termination = self.termination
        return () if termination is None else termination.unconfirmed

    @property
    def command(self) -> str:
        return self._program.command

    @property
    def pid(self) -> int | None:
        return self._program.pid

    @property
    def terminal(self) -> bool:
        return self._program.terminal

    @property
    def rendering(self) -> Rendering:
        return self._program.rendering

    @property
    def last_screen(self) -> Screen | None:
        return self._last_screen[0]

    @property
    def last_paint(self) -> bytes | None:
        return self._last_screen[1]

    @property
    def is_awaited(self) -> bool:
        """True if a waiting call will report the end, by `listen_for_reply`."""
        return self._await_count > 0

    @property
    def last_output_at(self) -> float | None:
        """Seconds since the epoch."""
        if self.last_output is None:
            return None
        return self.started_at + self.last_output - self.created_at

    @property
    def is_left_running(self) -> bool:
        """True if processes may outlive the end; the registry then keeps the handle."""
        return self._left_behind is not None

    def left_behind(self) -> tuple[LeftBehind, ...]:
        return () if self._left_behind is None else self._left_behind()

    def readable_end(self) -> int:
        """Return the offset where reads end now: incomplete characters and sequences wait."""
        if self.lifecycle.is_final:
            return self.spool.end
        return shown_end(self.spool, self._program.rendering)

    @property
    def ends_within_line(self) -> bool:
        """True if the output ends within a line, as at a prompt."""
        end = self.spool.end
        return end > 0 and self.spool.read(end - 1, end) != b"\n"

    # -- events

    def approve(self, *, terminal: bool) -> None:
        if self._advance(Event.APPROVED, Starting()):
            self._program = replace(self._program, terminal=terminal)

    def start(
        self,
        now: float,
        *,
        pid: int | None = None,
        command: str = "",
        terminal: bool = False,
        rendering: Rendering = STRIPPED,
    ) -> None:
        self._advance(Event.STARTED, Running())
        self._program = Program(command, pid, terminal, rendering)
        self.touch(now)

    def append_output(self, data: bytes, now: float, *, is_stderr: bool = False) -> None:
        if self.lifecycle.is_final:
            return
        if is_stderr or self.stderr_spans is not NO_SPANS:
            self._mark_stream(is_stderr=is_stderr)
        self.timeline.record(self.spool.end, now)
        self.spool.append(data)
        self.last_output = self.last_activity = now
        for listener in self._listeners:
            listener()

    def _mark_stream(self, *, is_stderr: bool) -> None:
        if self.stderr_spans is NO_SPANS:
            self.stderr_spans = StderrSpans()
        self.stderr_spans.record(self.spool.end, is_stderr=is_stderr)

    def ask(self, question: Question, now: float, inquiry_id: str = "") -> None:
        """Enter `waiting`; clients answer under `inquiry_id`."""
        self._advance(Event.ASKED, Waiting(question, inquiry_id))
        self.question_count += 1
        self.last_activity = now
        if self._on_state_change is not None:
            self._on_state_change(self)
        self.wake()

    def answer(self, now: float) -> None:
        self._advance(Event.ANSWERED, Running())
        self.touch(now)

    def withdraw(self, now: float) -> None:
        self._advance(Event.WITHDRAWN, Running())
        self.touch(now)

    def request_stop(self, by: EndedBy) -> None:
        """Record a request to end; later requests do not change the requester."""
        if step(self.lifecycle.stage, Event.STOP_REQUESTED) is not None:
            phase = self.phase
            assert not isinstance(phase, Abandoned | Outcome), (
                f"a stop in the phase {type(phase).__name__}"
            )
            self.lifecycle = Stopping(phase, by)

    def abandon(self, by: EndedBy) -> None:
        """Record that no call waits for the approval; ignored in later stages."""
        if step(self.lifecycle.stage, Event.ABANDONED) is not None:
            self.lifecycle = Abandoned(self.stop_requested_by or by)

    def omit_notices(self) -> None:
        """Report no further question or end: the session's client has caused the end, or is told of
        it by its call."""
        self._on_state_change = None

    def reject(self, error: RpcError, now: float, *, is_reported: bool = True) -> None:
        """Stop before the start. `is_reported`: the starting call waits, and returns the error."""
        step(self.lifecycle.stage, Event.REJECTED)
        if is_reported:
            self.omit_notices()
        self._end(Rejected(error, now, self.review))

    def withhold(self, termination: Termination, now: float) -> None:
        """Withhold the end for review; withdraws an open question."""
        step(self.lifecycle.stage, Event.WITHHELD)
        phase = self.phase
        self.lifecycle = UnderReview(
            phase if isinstance(phase, Starting) else Running(), termination
        )
        self.touch(now)

    def end(
        self,
        termination: Termination,
        now: float,
        *,
        complete: bool = True,
        review: Review | None = None,
    ) -> None:
        """Stop. Unless `complete`, output may still come, and `complete_output` must follow."""
        step(self.lifecycle.stage, Event.ENDED if complete else Event.EXITED)
        outcome = Stopped if complete else Draining
        self._end(outcome(termination, now, self.review if review is None else review))

    def release(
        self,
        termination: Termination,
        now: float,
        *,
        review: Review,
        spool: Spool | None = None,
        refusal: RpcError | None = None,
    ) -> None:
        """Stop after the review.

        `spool` replaces the withheld output; `refusal` is the error for calls that await the
        result.
        """
        step(self.lifecycle.stage, Event.REVIEWED)
        if spool is not None:
            self.spool.close()
            self.spool = spool
        self._end(Stopped(termination, now, review, refusal))

    def complete_output(self, now: float) -> None:
        if step(self.lifecycle.stage, Event.OUTPUT_COMPLETED) is None:
            return
        outcome = self.lifecycle
        assert isinstance(outcome, Draining), f"a completion in the phase {type(outcome).__name__}"
        self.lifecycle = Stopped(outcome.termination, outcome.at, outcome.review, outcome.refusal)
        self.spool.finish()
        self.touch(now)

    def end_survivors(self) -> None:
        step(self.lifecycle.stage, Event.SURVIVORS_ENDED)
        outcome = self.lifecycle
        assert isinstance(outcome, Draining | Stopped), (
            f"survivors in the phase {type(outcome).__name__}"
        )
        self.lifecycle = replace(outcome, termination=replace(outcome.termination, unconfirmed=()))
        self._left_behind = None
        self.wake()

    def keep_screen(self, screen: Screen | None, paint: bytes) -> None:
        self._last_screen = screen, paint

    def set_left_behind(self, left_behind: Callable[[], tuple[LeftBehind, ...]]) -> None:
        self._left_behind = left_behind

    def clear_left_behind(self) -> None:
        self._left_behind = None

    def _advance(self, event: Event, phase: Starting | Running | Waiting) -> bool:
        """Apply an event of a live execution; return False if ignored."""
        if step(self.lifecycle.stage, event) is None:
            return False
        by = self.stop_requested_by
        self.lifecycle = phase if by is None else Stopping(phase, by)
        return True

    def _end(self, outcome: Outcome) -> None:
        self.lifecycle = outcome
        self.last_activity = outcome.at
        if outcome.is_final:
            self.spool.finish()
        if self._on_stop is not None:
            self._on_stop(self)
        if self._on_state_change is not None:
            self._on_state_change(self)
        self.wake()

    def touch(self, now: float) -> None:
        """Record other activity than output: input, a redrawn screen."""
        self.last_activity = now
        self.wake()

    def read(self, read: Read, now: float) -> None:
        state, before = self.lifecycle.state, self.position
        if state is State.STOPPED:
            after = before.read_end(read, now)
        else:
            question = self.question_count if state is State.WAITING else before.question
            after = before.read_output(read, question)
        self.position = after

    def undo_read(self, before: ReadPosition, after: ReadPosition) -> None:
        """Restore the position for a reader without a reply, unless another reader has read on."""
        if self.position.offset == after.offset:
            self.position = replace(
                self.position, offset=before.offset, is_end_shown=before.is_end_shown
            )

    def notify_output(self) -> None:
        self.position = replace(self.position, notified=self.readable_end())

    def save(self) -> SavedFile | None:
        """Save the whole output or result for a truncated reply; None while output may come."""
        return finish(self.save_in_steps())

    def save_in_steps(self) -> Steps:
        """Save the same, with turns for other tasks."""
        outcome = self.outcome
        if outcome is None or not outcome.is_final:
            return None
        termination = outcome.termination
        text = None if termination.is_output else termination.result
        return (yield from save_output(self.spool, text))

    def takes_long_to_save(self, start: int | None = None, max_bytes: int = 65_536) -> bool:
        """True if a read of `max_bytes` from `start`, by default the read offset, is truncated, and
        saves more than a step's bytes."""
        outcome = self.outcome
        if outcome is None or not outcome.is_final or self.spool.saved is not None:
            return False
        result = outcome.termination.result
        if result is not None and not outcome.termination.is_output:
            return len(result) > max(max_bytes, CHUNK)
        begin = self.position.offset if start is None else start
        is_long = self.spool.end - begin > max_bytes and self.spool.end > CHUNK
        return is_long and not self.spool.is_whole

    # --- listeners -------------------------------------------------------------------------

    def listen(self, callback: Listener) -> None:
        self._listeners = (*self._listeners, callback)

    def unlisten(self, callback: Listener) -> None:
        kept = list(self._listeners)
        if callback in kept:
            kept.remove(callback)
            self._listeners = tuple(kept)

    @property
    def is_followed(self) -> bool:
        return bool(self._listeners)

    def listen_for_reply(self, callback: Listener) -> None:
        self.listen(callback)
        self._await_count += 1

    def unlisten_for_reply(self, callback: Listener) -> None:
        self.unlisten(callback)
        self._await_count -= 1

    def wake(self) -> None:
        for listener in self._listeners:
            listener()
