"""A handle: one use of a tool, from the taking of its id to its last fetch.

Rules: the state changes only through the lifecycle's table; an illegal event raises and changes
nothing. `mark` is how far the session has read: a `delta` moves it over all that it returned or
left out, nothing else moves it. At the stop it is frozen: what was unread then is the delta for
every later reader alike. Output that comes after the end is complete is not taken. Times are
seconds of the caller's monotonic clock. Sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from haft_protocol.errors import RpcError
from haft_protocol.questions import Question
from haft_protocol.states import EndedBy, Exit, LeftBehind, Review, Screen, ToolError

from .lifecycle import Event, State, step
from .notify_settings import DEFAULT_NOTIFY, NotifySettings
from .output_file import save_output
from .spool import Spool
from .spool_files import SavedFile
from .text import STRIPPED, Rendering, shown_end
from .timeline import Timeline
from .withheld import Ending

__all__ = ["CallKey", "Handle", "Listener"]

CallKey = tuple[str, str, bytes]
"""The call that made a handle: its id, the tool, and a digest of the arguments, which may be large
and are only told from others."""

Listener = Callable[[], object]
"""Called after every change; must not raise, may listen and unlisten."""


class Handle:
    """One use of a tool. Made by the registry; compared by identity."""

    __slots__ = (
        "_left_behind",
        "_listeners",
        "_state",
        "asked",
        "awaited",
        "born",
        "call",
        "command",
        "end_shown",
        "ended_by",
        "exit",
        "failure",
        "generation",
        "id",
        "inquiry_id",
        "last_activity",
        "last_output",
        "last_paint",
        "last_screen",
        "limit",
        "mark",
        "may",
        "notify",
        "on_disconnect",
        "on_news",
        "on_stop",
        "on_turn_end",
        "output_complete",
        "pid",
        "policy",
        "question",
        "question_shown",
        "raw",
        "read_at",
        "refusal",
        "rendering",
        "result",
        "review",
        "root",
        "seen",
        "session",
        "spool",
        "started_at_wall",
        "stopped_at",
        "terminal",
        "timeline",
        "told",
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
    ) -> None:
        self.id = id
        self.tool = tool
        self.session = session
        self.generation = generation
        self.call = call
        self.root = root
        self.spool = spool
        self.timeline = Timeline()
        """When the bytes of the spool were appended."""
        self.terminal = False
        self.policy: Mapping[str, str] = {}
        """The actions on it that are not done unattended, and what is done instead."""
        self.may: frozenset[str] = frozenset()
        """What its processes may do for a person, as their definition says."""
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
        self.limit: str | None = None
        """The limit that ended it, if one did."""
        self.output_complete = True
        self.unconfirmed: tuple[int, ...] = ()
        self._left_behind: Callable[[], tuple[LeftBehind, ...]] | None = None
        """What says so, while it is held."""
        self.born = now
        self.started_at_wall = wall
        self.stopped_at: float | None = None
        self.last_output: float | None = None
        self.last_activity = now
        self.last_screen: Screen | None = None
        """What a terminal showed when nothing of it was left."""
        self.last_paint: bytes | None = None
        """The bytes that draw it."""
        self.rendering: Rendering = STRIPPED
        """How its output reads as text."""
        self.seen = 0
        """The end of the output when it was last looked at in whatever view."""
        self.mark = 0
        self.review: Review | None = None
        """Where the review of its result is, None where that is handed out without one."""
        self.refusal: RpcError | None = None
        """The error of a call to its end whose result was not approved."""
        self.read_at: float | None = None
        """When the end was first read."""
        self.end_shown = False
        """Whether its session was shown the end; who reads by a cursor looks on."""
        self.asked = 0
        """How many questions it has asked."""
        self.awaited = 0
        """How many calls wait for it: their answers will tell its end."""
        self.question_shown = 0
        """The last of them that a reader was shown."""
        self.on_turn_end: Literal["abort", "await", "keep", "inquire"] = "abort"
        """What becomes of it when the turn ends, as its tool says."""
        self.on_disconnect: Literal["keep", "abort"] = "keep"
        """And when the last connection of the session is gone."""
        self.notify: NotifySettings = DEFAULT_NOTIFY
        """What its session is told of without asking."""
        self.told = 0
        """The end of the output when its session was last told that there is some."""
        self.on_news: Callable[[Handle], None] | None = None
        """Called when it asks or stops, before the listeners."""
        self.on_stop: Callable[[Handle], None] | None = None
        """For the registry's books; called once, before the listeners."""
        self._listeners: tuple[Listener, ...] = ()

    def __repr__(self) -> str:
        return f"<handle {self.session}/{self.id} #{self.generation} {self.tool} {self._state}>"

    @property
    def state(self) -> State:
        """Where it is; only events change it."""
        return self._state

    @property
    def stopped(self) -> bool:
        """Whether it has ended."""
        return self._state is State.STOPPED

    @property
    def is_output(self) -> bool:
        """Whether the text that it ended with is what it printed, and not what its tool made of it."""
        return self.raw or (self.ended_by is not None and self.ended_by.by != "exit")

    @property
    def started_at(self) -> float:
        """When its id was taken, in seconds since the epoch."""
        return self.started_at_wall

    @property
    def last_output_at(self) -> float | None:
        """When it last printed something, in seconds since the epoch; None if never."""
        if self.last_output is None:
            return None
        return self.started_at_wall + self.last_output - self.born

    @property
    def held(self) -> bool:
        """Whether something of it may still run; it is kept for as long."""
        return self._left_behind is not None

    def left_behind(self) -> tuple[LeftBehind, ...]:
        """What of it lives on after the end, as of now."""
        return () if self._left_behind is None else self._left_behind()

    def readable_end(self) -> int:
        """Return the offset up to which a read would show output now: what has not arrived whole is
        not there yet."""
        if self._state is State.STOPPED and self.output_complete:
            return self.spool.end
        return shown_end(self.spool, self.rendering)

    def hold(self, left_behind: Callable[[], tuple[LeftBehind, ...]]) -> None:
        """Something of it may run from now on; `left_behind` asks the runtime what does."""
        self._left_behind = left_behind

    def release(self) -> None:
        """Nothing of it is left."""
        self._left_behind = None

    # --- events -----------------------------------------------------------------------------

    def start(
        self,
        now: float,
        *,
        pid: int | None = None,
        command: str = "",
        terminal: bool = False,
        rendering: Rendering = STRIPPED,
    ) -> None:
        """It runs."""
        self._state = step(self._state, Event.STARTED)
        self.pid = pid
        self.command = command
        self.terminal = terminal
        self.rendering = rendering
        self.last_activity = now
        self.wake()

    def emit(self, data: bytes, now: float) -> None:
        """It printed `data`. Dropped without a word when its end was complete."""
        if self._state is State.STOPPED and self.output_complete:
            return
        self.timeline.mark(self.spool.end, now)
        self.spool.append(data)
        self.last_output = self.last_activity = now
        for listener in self._listeners:
            listener()

    def ask(self, question: Question, now: float) -> None:
        """It waits for an answer."""
        self._state = step(self._state, Event.ASKED)
        self.question = question
        self.asked += 1
        self.last_activity = now
        if self.on_news is not None:
            self.on_news(self)
        self.wake()

    def answer(self, now: float) -> None:
        """Its question is answered."""
        self._state = step(self._state, Event.ANSWERED)
        self.question = None
        self.last_activity = now
        self.wake()

    def withdraw(self, now: float) -> None:
        """Whoever asked its question no longer wants to know."""
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
        """It has ended. With neither `result` nor `failure` its output is the result, as with `raw`.

        `failure` is the tool's own; what else went wrong is put into words by `outcomes`.
        `complete`: no more output will come; else `complete()` is called later.
        """
        self._state = step(self._state, Event.ENDED)
        self.question = None
        self.result = result
        self.failure = failure
        self.raw = raw or (result is None and failure is None)
        self.exit = exit
        self.ended_by = by
        self.limit = limit
        self.output_complete = complete
        self.unconfirmed = unconfirmed
        self.stopped_at = self.last_activity = now
        if complete:
            self.spool.finish()
        if self.on_stop is not None:
            self.on_stop(self)
        if self.on_news is not None:
            self.on_news(self)
        self.wake()

    def end_as(self, ending: Ending, now: float, *, complete: bool) -> None:
        """See `end`."""
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

    def complete(self, now: float) -> None:
        """No more output will come; the last text of this handle is now what it stays."""
        if self._state is not State.STOPPED or self.output_complete:
            return
        self.output_complete = True
        self.last_activity = now
        self.spool.finish()
        self.wake()

    def touch(self, now: float) -> None:
        """Input was written to it, or its screen has changed."""
        self.last_activity = now
        self.wake()

    def save(self) -> SavedFile | None:
        """Save all that it printed, or the result that was made of it, for whom it is too long; None
        while more may come."""
        if not self.stopped or not self.output_complete:
            return None
        return save_output(self.spool, None if self.is_output else self.result)

    # --- who waits --------------------------------------------------------------------------

    def listen(self, callback: Listener) -> None:
        """Call `callback` after every change; twice listened, called twice."""
        self._listeners = (*self._listeners, callback)

    def unlisten(self, callback: Listener) -> None:
        """Undo one `listen`; nothing happens if there was none."""
        kept = list(self._listeners)
        if callback in kept:
            kept.remove(callback)
            self._listeners = tuple(kept)

    def wake(self) -> None:
        """Call every listener: something about it has changed."""
        for listener in self._listeners:
            listener()
