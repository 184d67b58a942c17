"""A handle: one use of a tool, from the taking of its id to its last fetch.

Rules: the state changes only through the lifecycle's table; an illegal event raises and changes
nothing. `mark` is how far the session has read: a `delta` moves it over all that it returned or
left out, nothing else moves it. At the stop it is frozen: what was unread then is the delta for
every later reader alike. Output that comes after the end is complete is not taken. Times are
seconds of the caller's monotonic clock. Sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType

from haft_protocol.questions import Question
from haft_protocol.states import (
    EndedBy,
    Exit,
    HandleState,
    InputWanted,
    LeftBehind,
    Pending,
    Running,
    Screen,
    Stopped,
    ToolError,
    Truncated,
    Waited,
    Waiting,
)

from .lifecycle import Event, State, step
from .outcomes import failure_of
from .spool import Spool
from .text import Slice, cut, cut_text, unfinished

__all__ = ["Handle", "Listener"]

Listener = Callable[[], object]
"""Called after every change; must not raise, may listen and unlisten."""


def _none_left() -> tuple[LeftBehind, ...]:
    return ()


class Handle:
    """One use of a tool. Made by the registry; compared by identity."""

    __slots__ = (
        "_listeners",
        "_state",
        "args",
        "born",
        "call_id",
        "command",
        "ended_by",
        "exit",
        "failure",
        "generation",
        "id",
        "last_activity",
        "last_output",
        "left_behind",
        "mark",
        "on_stop",
        "output_complete",
        "pid",
        "question",
        "raw",
        "read_at",
        "result",
        "root",
        "seen",
        "session",
        "spool",
        "spool_path",
        "started_at_wall",
        "stopped_at",
        "terminal",
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
        call_id: str | None = None,
        args: dict[str, Any] | None = None,
        root: str = "/",
        wall: float = 0.0,
    ) -> None:
        self.id = id
        self.tool = tool
        self.session = session
        self.generation = generation
        self.call_id = call_id
        self.args: dict[str, Any] = args if args is not None else {}
        self.root = root
        self.spool = spool
        self.spool_path: str | None = None
        """Where the spool's file is, for `truncated.path`; None if nobody can open it."""
        self.terminal = False
        self.command = ""
        self.pid: int | None = None
        self._state = State.PENDING
        self.question: Question | None = None
        self.exit: Exit | None = None
        self.result: str | None = None
        self.failure: ToolError | None = None
        self.raw = True
        self.ended_by: EndedBy | None = None
        self.output_complete = True
        self.unconfirmed: tuple[int, ...] = ()
        self.left_behind: Callable[[], tuple[LeftBehind, ...]] = _none_left
        """What lives on after the end, as of now; set by whoever can ask the runtime."""
        self.born = now
        self.started_at_wall = wall
        self.stopped_at: float | None = None
        self.last_output: float | None = None
        self.last_activity = now
        self.mark = 0
        self.seen = 0
        """Where the output ended at the last look of any kind: what is behind it is news."""
        self.read_at: float | None = None
        """When the end was first read."""
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
    def listeners(self) -> tuple[Listener, ...]:
        """Who is woken at a change."""
        return self._listeners

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

    def readable_end(self) -> int:
        """Return the offset up to which a read would show output now: a character that has not
        arrived whole is not there yet."""
        spool = self.spool
        if self._state is State.STOPPED and self.output_complete:
            return spool.end
        return spool.end - unfinished(spool.read(spool.end - 3, spool.end))

    # --- events -----------------------------------------------------------------------------

    def start(
        self, now: float, *, pid: int | None = None, command: str = "", terminal: bool = False
    ) -> None:
        """It runs."""
        self._state = step(self._state, Event.STARTED)
        self.pid = pid
        self.command = command
        self.terminal = terminal
        self.last_activity = now
        self.wake()

    def emit(self, data: bytes, now: float) -> None:
        """It printed `data`. Dropped without a word when its end was complete."""
        if self._state is State.STOPPED and self.output_complete:
            return
        self.spool.append(data)
        self.last_output = self.last_activity = now
        for listener in self._listeners:
            listener()

    def ask(self, question: Question, now: float) -> None:
        """It waits for an answer."""
        self._state = step(self._state, Event.ASKED)
        self.question = question
        self.last_activity = now
        self.wake()

    def answer(self, now: float) -> None:
        """Its question is answered."""
        self._state = step(self._state, Event.ANSWERED)
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
        unconfirmed: tuple[int, ...] = (),
    ) -> None:
        """It has ended. With neither `result` nor `failure` its output is the result, as with `raw`.

        `complete`: no more output will come; else `complete()` is called later.
        """
        self._state = step(self._state, Event.ENDED)
        self.question = None
        self.result = result
        self.failure = failure
        self.raw = raw or (result is None and failure is None)
        self.exit = exit
        self.ended_by = by
        self.output_complete = complete
        self.unconfirmed = unconfirmed
        self.stopped_at = self.last_activity = now
        if complete:
            self.spool.settle()
        if self.on_stop is not None:
            self.on_stop(self)
        self.wake()

    def complete(self, now: float) -> None:
        """No more output will come; the last text of this handle is now what it stays."""
        if self._state is not State.STOPPED or self.output_complete:
            return
        self.output_complete = True
        self.last_activity = now
        self.spool.settle()
        self.wake()

    def touch(self, now: float) -> None:
        """Input was written to it."""
        self.last_activity = now
        self.wake()

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

    # --- reading ----------------------------------------------------------------------------

    def view(
        self,
        now: float,
        *,
        view: str = "delta",
        cursor: int | None = None,
        max_bytes: int = 65_536,
        waited: Waited | UnsetType | None = UNSET,
        screen: Screen | UnsetType = UNSET,
        left_behind: tuple[LeftBehind, ...] | None = None,
        input_wanted: InputWanted | UnsetType | None = UNSET,
        peek: bool = False,
    ) -> HandleState:
        """Return the handle's state with the text that `view` or `cursor` asks for.

        A `peek` (a list, an error's data) moves no mark and does not count as read.
        """
        if waited is None:
            waited = UNSET
        state = self._state
        if state is State.STOPPED:
            return self._view_stopped(
                now, view, cursor, max_bytes, waited, screen, left_behind, peek
            )
        piece = self._text(view, cursor, max_bytes, final=False)
        if not peek:
            self.seen = self.spool.end
            if cursor is None and view == "delta":
                self.mark = piece.cursor
        elapsed = int((now - self.born) * 1000)
        if state is State.RUNNING:
            return Running(
                id=self.id,
                tool=self.tool,
                session=self.session,
                cursor=piece.cursor,
                generation=self.generation,
                elapsed_ms=elapsed,
                omitted=piece.omitted,
                waited=waited,
                screen=screen,
                content=piece.text,
                input_wanted=input_wanted,
            )
        if state is State.WAITING:
            assert self.question is not None, "a waiting handle has its question"
            return Waiting(
                id=self.id,
                tool=self.tool,
                session=self.session,
                cursor=piece.cursor,
                generation=self.generation,
                elapsed_ms=elapsed,
                omitted=piece.omitted,
                waited=waited,
                screen=screen,
                content=piece.text,
                question=self.question,
            )
        return Pending(
            id=self.id,
            tool=self.tool,
            session=self.session,
            cursor=piece.cursor,
            generation=self.generation,
            elapsed_ms=elapsed,
            omitted=piece.omitted,
            waited=waited,
            screen=screen,
            content=piece.text,
        )

    def _text(self, view: str, cursor: int | None, max_bytes: int, *, final: bool) -> Slice:
        spool = self.spool
        if cursor is not None:
            return cut(spool, cursor, spool.end, max_bytes, final=final, tail=view == "tail")
        if view == "delta" or (final and view == "screen"):
            return cut(spool, self.mark, spool.end, max_bytes, final=final)
        if view == "screen":
            # The screen is the answer; it says no more than what was printed so far.
            return Slice("", spool.end)
        return cut(spool, 0, spool.end, max_bytes, final=final, tail=view == "tail")

    def _view_stopped(
        self,
        now: float,
        view: str,
        cursor: int | None,
        max_bytes: int,
        waited: Waited | UnsetType,
        screen: Screen | UnsetType,
        left_behind: tuple[LeftBehind, ...] | None,
        peek: bool,
    ) -> Stopped:
        assert self.ended_by is not None and self.stopped_at is not None, "it has ended"
        error = failure_of(self.ended_by, self.exit, self.failure, raw=self.raw)
        result: str | UnsetType = UNSET
        content: str | UnsetType = UNSET
        truncated: Truncated | UnsetType = UNSET
        position, omitted = self.spool.end, 0
        if self.raw or self.ended_by.by != "exit":
            piece = self._text(view, cursor, max_bytes, final=self.output_complete)
            position, omitted = piece.cursor, piece.omitted
            if error is None:
                result = piece.text
                if omitted:
                    asked = self._asked_from(view, cursor)
                    truncated = self._truncated(position - asked, position - asked - omitted)
            else:
                content = piece.text
        elif error is None:
            assert self.result is not None, "without a failure there is a result"
            result, total, kept = cut_text(self.result, max_bytes)
            if kept < total:
                truncated = Truncated(bytes=total, kept=kept, path=None)
        if not peek:
            self.seen = self.spool.end
            if self.read_at is None:
                self.read_at = now
        if left_behind is None:
            left_behind = self.left_behind()
        return Stopped(
            id=self.id,
            tool=self.tool,
            session=self.session,
            cursor=position,
            generation=self.generation,
            elapsed_ms=int((self.stopped_at - self.born) * 1000),
            omitted=omitted,
            waited=waited,
            screen=screen,
            ended_by=self.ended_by,
            result=result,
            error=error if error is not None else UNSET,
            content=content,
            exit=self.exit if self.exit is not None else UNSET,
            output_complete=self.output_complete
            if self.exit is not None or not self.output_complete
            else UNSET,
            left_behind=left_behind or UNSET,
            unconfirmed=self.unconfirmed or UNSET,
            truncated=truncated,
        )

    def _asked_from(self, view: str, cursor: int | None) -> int:
        if cursor is not None:
            return cursor
        return 0 if view in ("all", "tail") else self.mark

    def _truncated(self, total: int, kept: int) -> Truncated:
        path = self.spool_path
        if path is not None and not (self.output_complete and self.spool.flush()):
            path = None
        return Truncated(bytes=total, kept=kept, path=path)
