"""A handle: one execution of a tool, from the reservation of its id to its last fetch.

Rules: the state changes only through the table in `lifecycle`; an illegal event raises and changes nothing.
Reading is pure; a `Read` moves the session's position, whose offset is frozen at the stop: output unread then is
the delta of every later reader. Output after the complete end is dropped. Times
are seconds of the caller's monotonic clock. Sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from haft_protocol.errors import RpcError
from haft_protocol.questions import Question
from haft_protocol.states import EndedBy, Exit, LeftBehind, Review, Screen, ToolError

from .handle_settings import DEFAULT_SETTINGS, HandleSettings
from .lifecycle import Event, State, step
from .output_file import save_output
from .read_position import START, Read, ReadPosition
from .spool import Spool
from .spool_files import SavedFile
from .text import STRIPPED, Rendering, shown_end
from .timeline import Timeline
from .withheld import Ending

__all__ = ["CallKey", "Handle", "Listener"]

CallKey = tuple[str, str, bytes]
"""Key of the call that created a handle: `call_id`, tool, and a digest of the arguments, which may be large."""

Listener = Callable[[], object]
"""Callback after every change; must not raise, may listen and unlisten."""


class Handle:
    """One execution of a tool. Created by the registry; compared by identity."""

    __slots__ = (
        "_await_count",
        "_left_behind",
        "_listeners",
        "_on_state_change",
        "_on_stop",
        "_position",
        "_state",
        "_terminal",
        "call",
        "command",
        "created_at",
        "ended_by",
        "exceeded_limit",
        "exit",
        "failure",
        "generation",
        "id",
        "inquiry_id",
        "last_activity",
        "last_output",
        "last_paint",
        "last_screen",
        "output_complete",
        "pid",
        "question",
        "question_count",
        "raw",
        "refusal",
        "rendering",
        "result",
        "review",
        "root",
        "session",
        "settings",
        "spool",
        "started_at_wall",
        "stopped_at",
        "timeline",
        "tool",
        "unconfirmed",
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
        terminal: bool = False,
        settings: HandleSettings = DEFAULT_SETTINGS,
        on_stop: Callable[[Handle], None] | None = None,
        on_state_change: Callable[[Handle], None] | None = None,
    ) -> None:
        """`on_stop` is called once, before all else; `on_state_change` when the handle asks or stops, before the
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
        self.spool = spool
        self.timeline: Final = Timeline()
        """Times at which the bytes of the spool were appended."""
        self._terminal = terminal
        self.command = ""
        self.pid: int | None = None
        self._state = State.PENDING
        self.question: Question | None = None
        self.inquiry_id = ""
        """The id under which its questions are answered."""
        self.exit: Exit | None = None
        self.result: str | None = None
        self.failure: ToolError | None = None
        self.raw = True
        self.ended_by: EndedBy | None = None
        self.exceeded_limit: str | None = None
        """The limit that ended the handle, if one did."""
        self.output_complete = True
        self.unconfirmed: tuple[int, ...] = ()
        self._left_behind: Callable[[], tuple[LeftBehind, ...]] | None = None
        """Asks the runtime for the processes left running; None where there are none."""
        self.created_at: Final = now
        self.started_at_wall: Final = wall
        self.stopped_at: float | None = None
        self.last_output: float | None = None
        self.last_activity = now
        self.last_screen: Screen | None = None
        """The final screen of a terminal."""
        self.last_paint: bytes | None = None
        """Bytes that draw the final screen."""
        self.rendering: Rendering = STRIPPED
        """Translation of the output's bytes to text."""
        self._position = START
        self.review: Review | None = None
        """State of the result's review; None where the result needs none."""
        self.refusal: RpcError | None = None
        """Error for calls that await a result that was not approved."""
        self.question_count = 0
        """Questions asked so far."""
        self._await_count = 0
        self._listeners: tuple[Listener, ...] = ()

    def __repr__(self) -> str:
        return f"<handle {self.session}/{self.id} #{self.generation} {self.tool} {self._state}>"

    @property
    def state(self) -> State:
        """The state; only events change it."""
        return self._state

    @property
    def stopped(self) -> bool:
        """True if the execution has ended."""
        return self._state is State.STOPPED

    @property
    def terminal(self) -> bool:
        """True if the tool runs on a terminal, or is to be started on one."""
        return self._terminal

    @property
    def position(self) -> ReadPosition:
        """The position of the session's reader."""
        return self._position

    @property
    def is_awaited(self) -> bool:
        """True if a call awaits the handle: its reply will report the end."""
        return self._await_count > 0

    @property
    def is_output(self) -> bool:
        """True if the text of the end is the printed output, not a result that the tool built."""
        return self.raw or (self.ended_by is not None and self.ended_by.by != "exit")

    @property
    def started_at(self) -> float:
        """Time at which the id was taken, in seconds since the epoch."""
        return self.started_at_wall

    @property
    def last_output_at(self) -> float | None:
        """Time of the last output, in seconds since the epoch; None without output."""
        if self.last_output is None:
            return None
        return self.started_at_wall + self.last_output - self.created_at

    @property
    def is_left_running(self) -> bool:
        """True if processes of a stopped handle may still run: the registry keeps the handle."""
        return self._left_behind is not None

    def left_behind(self) -> tuple[LeftBehind, ...]:
        """Return the processes that still run after the end, as of now."""
        return () if self._left_behind is None else self._left_behind()

    def readable_end(self) -> int:
        """Return the offset up to which a read shows output now; incomplete characters and sequences wait."""
        if self._state is State.STOPPED and self.output_complete:
            return self.spool.end
        return shown_end(self.spool, self.rendering)

    def set_left_behind(self, left_behind: Callable[[], tuple[LeftBehind, ...]]) -> None:
        """Keep the handle while its processes may run; `left_behind` asks the runtime which do."""
        self._left_behind = left_behind

    def clear_left_behind(self) -> None:
        """Record that no process of the handle is left."""
        self._left_behind = None

    # --- events -----------------------------------------------------------------------------

    def approve(self, *, terminal: bool) -> None:
        """Record that the start was approved, with the kind of runtime that the approved arguments need."""
        self._terminal = terminal

    def start(
        self,
        now: float,
        *,
        pid: int | None = None,
        command: str = "",
        terminal: bool = False,
        rendering: Rendering = STRIPPED,
    ) -> None:
        """Enter `running`."""
        self._state = step(self._state, Event.STARTED)
        self.pid = pid
        self.command = command
        self._terminal = terminal
        self.rendering = rendering
        self.last_activity = now
        self.wake()

    def append_output(self, data: bytes, now: float) -> None:
        """Append output; dropped once the end is complete."""
        if self._state is State.STOPPED and self.output_complete:
            return
        self.timeline.mark(self.spool.end, now)
        self.spool.append(data)
        self.last_output = self.last_activity = now
        for listener in self._listeners:
            listener()

    def ask(self, question: Question, now: float) -> None:
        """Enter `waiting` with a question."""
        self._state = step(self._state, Event.ASKED)
        self.question = question
        self.question_count += 1
        self.last_activity = now
        if self._on_state_change is not None:
            self._on_state_change(self)
        self.wake()

    def answer(self, now: float) -> None:
        """Leave `waiting`: the question is answered."""
        self._state = step(self._state, Event.ANSWERED)
        self.question = None
        self.last_activity = now
        self.wake()

    def withdraw(self, now: float) -> None:
        """Leave `waiting`: the tool withdrew its question."""
        self._state = step(self._state, Event.WITHDRAWN)
        self.question = None
        self.last_activity = now
        self.wake()

    def end(
        self,
        now: float,
        *,
        by: EndedBy,
        complete: bool,
        result: str | None = None,
        failure: ToolError | None = None,
        raw: bool = False,
        exit: Exit | None = None,
        limit: str | None = None,
        unconfirmed: tuple[int, ...] = (),
    ) -> None:
        """Enter `stopped`. Without `result` and `failure`, as with `raw`, the output is the result.

        `failure` is the tool's own; other failures are worded by `outcomes`. `complete`: no more output will
        come; else `complete_output` is called later.
        """
        self._state = step(self._state, Event.ENDED)
        self.question = None
        self.result = result
        self.failure = failure
        self.raw = raw or (result is None and failure is None)
        self.exit = exit
        self.ended_by = by
        self.exceeded_limit = limit
        self.output_complete = complete
        self.unconfirmed = unconfirmed
        self.stopped_at = self.last_activity = now
        if complete:
            self.spool.finish()
        if self._on_stop is not None:
            self._on_stop(self)
        if self._on_state_change is not None:
            self._on_state_change(self)
        self.wake()

    def reject(self, failure: ToolError, now: float) -> None:
        """Enter `stopped` without a notice: the handle was withdrawn, since its tool could not be started."""
        self._on_state_change = None
        self.end(now, by=EndedBy("exit"), complete=True, failure=failure)

    def end_as(self, ending: Ending, now: float, *, complete: bool) -> None:
        """End the handle with the fields of `ending`; see `end`."""
        self.end(
            now,
            by=ending.by,
            complete=complete,
            result=ending.result,
            failure=ending.failure,
            raw=ending.raw,
            exit=ending.exit,
            limit=ending.limit,
            unconfirmed=ending.unconfirmed,
        )

    def complete_output(self, now: float) -> None:
        """Record that no more output will come; the handle's last text is final."""
        if self._state is not State.STOPPED or self.output_complete:
            return
        self.output_complete = True
        self.last_activity = now
        self.spool.finish()
        self.wake()

    def touch(self, now: float) -> None:
        """Record activity other than output: written input, a changed screen."""
        self.last_activity = now
        self.wake()

    def read(self, read: Read, now: float) -> None:
        """Move the session's position after a reader was shown the handle's state, as of now."""
        before = self._position
        offset, viewed, question = before.offset, before.viewed, before.question
        is_end_shown, end_read_at = before.is_end_shown, before.end_read_at
        if read.viewed is not None:
            viewed = read.viewed
        if self._state is State.STOPPED:
            is_end_shown = is_end_shown or read.is_session
            end_read_at = now if end_read_at is None else end_read_at
        else:
            if read.offset is not None:
                offset = read.offset
            if read.is_session and self._state is State.WAITING:
                question = self.question_count
        self._position = ReadPosition(
            offset, viewed, before.notified, question, is_end_shown, end_read_at
        )

    def undo_read(self, before: ReadPosition, after: ReadPosition) -> None:
        """Restore the position for a reader that was not answered in the end, unless another has read on."""
        if self._position.offset == after.offset:
            self._position = replace(
                self._position, offset=before.offset, is_end_shown=before.is_end_shown
            )

    def notify_output(self) -> None:
        """Record that the session gets a notice of the output up to now."""
        self._position = replace(self._position, notified=self.readable_end())

    def save(self) -> SavedFile | None:
        """Save the whole output, or the result, to a file for a reader whose reply was truncated; None while
        more output may come."""
        if not self.stopped or not self.output_complete:
            return None
        return save_output(self.spool, None if self.is_output else self.result)

    # --- listeners -------------------------------------------------------------------------

    def listen(self, callback: Listener) -> None:
        """Register `callback` for every change; registered twice, it is called twice."""
        self._listeners = (*self._listeners, callback)

    def unlisten(self, callback: Listener) -> None:
        """Undo one `listen`; does nothing without one."""
        kept = list(self._listeners)
        if callback in kept:
            kept.remove(callback)
            self._listeners = tuple(kept)

    def listen_for_reply(self, callback: Listener) -> None:
        """Register `callback` of a call whose reply will report the handle's end."""
        self.listen(callback)
        self._await_count += 1

    def unlisten_for_reply(self, callback: Listener) -> None:
        """Undo one `listen_for_reply`."""
        self.unlisten(callback)
        self._await_count -= 1

    def wake(self) -> None:
        """Call every listener."""
        for listener in self._listeners:
            listener()
