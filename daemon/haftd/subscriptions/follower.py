"""One subscription's view of one handle: output and bytes from the spool, state, screen; the
session's read offset stays."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import msgspec
import trio
from msgspec import UNSET, UnsetType

from haft_protocol.pushes import (
    BYTES,
    OUTPUT,
    SCREEN,
    STATE,
    PushedBytes,
    PushedOutput,
    PushedScreen,
    PushEvent,
)
from haft_protocol.states import InputKind, Needs, Screen, TerminalSize
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.output_tail import BytesTail, OutputTail
from haftd.core.terminal_filter import TerminalReader, find_complete_end
from haftd.core.views import handle_state, needs_of
from haftd.executions.execution import Execution, changes

from .push_queue import PushQueue

_MIN_SCREEN_INTERVAL_S = 0.03
"""An eye sees no more, and each message costs a rendering."""
_FIRST_PAUSE_S = 0.05
"""Pause from a terminal's event to the first reading of its input state; pauses double."""

_ShownState = tuple[State, int, Needs, TerminalSize | UnsetType]
"""State with number of questions, need and size."""


class Follower:
    __slots__ = (
        "_activity",
        "_awaited_by",
        "_bytes",
        "_due_state",
        "_events",
        "_execution_of",
        "_handle",
        "_next_reading_at",
        "_next_screen_at",
        "_on_complete",
        "_queue",
        "_reading_pause",
        "_reads",
        "_sent_offset",
        "_sent_revision",
        "_sent_screen",
        "_sent_state",
        "_session",
        "_state_offset",
        "_subscription",
        "_tail",
        "is_due",
    )

    def __init__(
        self,
        handle: Handle,
        subscription: str,
        events: frozenset[PushEvent],
        queue: PushQueue,
        execution_of: Callable[[Handle], Execution | None],
        on_complete: Callable[[Handle], None],
        offset: int | None = None,
        terminal: TerminalReader | None = None,
        *,
        names_session: bool = False,
        backpressure: bool = False,
    ) -> None:
        """Follow the output from `offset`, by default from its end; `on_complete` is called after
        the end was sent.

        With `backpressure` the process waits for the reader of the bytes.
        """
        self.is_due = False
        self._handle = handle
        self._session = handle.session if names_session else UNSET
        self._subscription = subscription
        self._events = events
        self._queue = queue
        self._execution_of = execution_of
        self._on_complete = on_complete
        self._sent_offset = handle.readable_end() if offset is None else offset
        """End of the output sent."""
        self._tail = OutputTail(handle, self._sent_offset) if "output" in events else None
        self._bytes: BytesTail | None = None
        if "bytes" in events:
            if offset is None:
                is_filtered = terminal is not None and not handle.stopped
                offset = find_complete_end(handle.spool) if is_filtered else handle.spool.end
            self._bytes = BytesTail(handle, offset, terminal, keeps_all=backpressure)
        self._awaited_by = execution_of(handle) if backpressure else None
        """Execution that waits for this reader."""
        if self._awaited_by is not None:
            self._awaited_by.add_backlog(self._count_backlog)
        self._sent_state: _ShownState | None = None
        self._due_state: _ShownState | None = None
        """Next state to send, after the output up to `_state_offset`."""
        self._state_offset = 0
        self._reads: InputKind | None = None
        """Input that the program waits for, as last read."""
        self._activity = -1.0
        self._next_reading_at = 0.0
        self._reading_pause = _FIRST_PAUSE_S
        self._sent_screen: Screen | None = None
        self._sent_revision = -1
        self._next_screen_at = 0.0
        handle.listen(self.on_change)
        self.on_change()

    def on_change(self) -> None:
        self._queue.add(self)

    def _count_backlog(self) -> int:
        return 0 if self._bytes is None else self._handle.spool.end - self._bytes.offset

    def close(self) -> None:
        if self._awaited_by is not None:
            self._awaited_by.remove_backlog(self._count_backlog)
        self._handle.unlisten(self.on_change)
        self._queue.discard(self)

    def send_next(self) -> bool:
        """Send the next message, if any; return True if another may be due. After the last one of an
        ended handle, call `on_complete`."""
        handle, events = self._handle, self._events
        is_over = handle.stopped and handle.output_complete
        is_state_due = "state" in events and not handle.stopped and self._note_new_state()
        tails = [tail for tail in (self._tail, self._bytes) if tail is not None]
        if is_state_due and all(tail.offset >= self._state_offset for tail in tails):
            return self._send_state()
        if self._bytes is not None and self._send_bytes(self._bytes):
            return True
        if self._tail is not None and (chunk := self._tail.read_chunk()) is not None:
            if not chunk.text and not chunk.omitted:
                return True  # only escape sequences
            message = PushedOutput(
                self._subscription,
                handle.id,
                handle.generation,
                self._sent_offset + chunk.omitted,
                chunk.cursor,
                chunk.text,
                chunk.omitted,
                chunk.omitted_from,
                self._session,
            )
            self._sent_offset = chunk.cursor
            self._queue.send(OUTPUT, message)
            return True
        if is_state_due:
            return self._send_state()
        if "screen" in events and handle.terminal and self._send_screen(is_over):
            return True
        if is_over:
            if "state" in events:
                self._send_state()
            self._on_complete(handle)
        return False

    def _send_bytes(self, tail: BytesTail) -> bool:
        begun = tail.offset
        chunk = tail.read_chunk()
        if chunk is None:
            return False
        message = PushedBytes(
            self._subscription,
            self._handle.id,
            self._handle.generation,
            begun + chunk.omitted,
            chunk.cursor,
            b64encode(chunk.data).decode(),
            chunk.omitted,
            chunk.omitted_from,
            self._session,
            self._handle.stderr_spans.between(begun + chunk.omitted, chunk.cursor) or UNSET,
        )
        self._queue.send(BYTES, message)
        if self._awaited_by is not None:
            self._awaited_by.backlog_changed()
        return True

    def _read_input_state(self) -> None:
        """Read the input state after a terminal's last event, in doubling pauses, as the kernel has
        no event for it."""
        handle, now = self._handle, trio.current_time()
        execution = self._execution_of(handle)
        if execution is None or not handle.terminal or handle.state is not State.RUNNING:
            self._reads = None
            return
        if self._activity != handle.last_activity:
            self._activity = handle.last_activity
            self._reading_pause = _FIRST_PAUSE_S
            self._next_reading_at = self._activity + _FIRST_PAUSE_S
        if now >= self._next_reading_at:
            self._reads = execution.reads()
            self._next_reading_at = now + self._reading_pause
            self._reading_pause *= 2
        self._queue.add_later(self, self._next_reading_at)

    def _note_new_state(self) -> bool:
        self._read_input_state()
        now = self._read_shown_state()
        if now == self._sent_state:
            return False
        if now != self._due_state:
            self._due_state, self._state_offset = now, self._handle.readable_end()
        return True

    def _read_shown_state(self) -> _ShownState:
        handle = self._handle
        return handle.state, handle.question_count, needs_of(handle, self._reads), self._find_size()

    def _find_size(self) -> TerminalSize | UnsetType:
        execution = self._execution_of(self._handle)
        return UNSET if execution is None else execution.size_for(self._queue.caller)

    def _send_state(self) -> bool:
        handle = self._handle
        self._sent_state = self._read_shown_state()
        max_bytes = 65_536 if handle.stopped else 0
        state = handle_state(
            handle,
            trio.current_time(),
            max_bytes=max_bytes,
            reads=self._reads,
            size=self._find_size(),
        )
        params: dict[str, Any] = msgspec.to_builtins(state)
        if not handle.stopped:
            # Output has its own event; `omitted` would be wrong.
            params["content"] = ""
            params.pop("omitted", None)
        self._queue.send(STATE, {"subscription": self._subscription, **params})
        return True

    def _send_screen(self, is_over: bool) -> bool:
        """Send changes of the screen, or schedule changes that come too soon; return True if any
        were sent."""
        handle, now = self._handle, trio.current_time()
        execution = self._execution_of(handle)
        if now < self._next_screen_at and not is_over:
            self._queue.add_later(self, self._next_screen_at)
            return False
        screen = handle.last_screen if execution is None else execution.picture()
        if screen is None or screen.revision == self._sent_revision:
            return False
        self._sent_revision = screen.revision
        previous, self._sent_screen = self._sent_screen, screen
        changed = screen if previous is None else changes(previous, screen)
        if previous is not None and _is_unchanged(previous, changed):
            return False
        self._next_screen_at = now + _MIN_SCREEN_INTERVAL_S
        self._queue.send(
            SCREEN,
            PushedScreen(self._subscription, handle.id, handle.generation, changed, self._session),
        )
        return True


def _is_unchanged(previous: Screen, current: Screen) -> bool:
    if current.changed is UNSET or current.changed:
        return False
    return (previous.cursor, previous.alt, previous.title, previous.scrollback) == (
        current.cursor,
        current.alt,
        current.title,
        current.scrollback,
    )
