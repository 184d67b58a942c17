"""One subscription's view of one handle: its output from the spool, its state, its screen.

Rules: what is said is what is so when it is said. Nothing moves a mark of the session's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import trio
from msgspec import UNSET

from haft_protocol.pushes import OUTPUT, SCREEN, STATE, PushedOutput, PushedScreen, PushEvent
from haft_protocol.states import Screen
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.output_tail import OutputTail
from haftd.core.views import handle_state
from haftd.executions.execution import Execution, changes

from .reader import Reader

__all__ = ["Follower"]

_BETWEEN_PICTURES_S = 0.03
"""Between two pictures of one screen: no eye sees more, and each costs the daemon a look."""


class Follower:
    """One subscription's view of one handle."""

    __slots__ = (
        "_after",
        "_changed",
        "_events",
        "_handle",
        "_over",
        "_picture_at",
        "_reader",
        "_said",
        "_seen",
        "_sent",
        "_shown",
        "_subscription",
        "_tail",
        "_use_of",
        "is_due",
    )

    def __init__(
        self,
        handle: Handle,
        subscription: str,
        events: frozenset[PushEvent],
        reader: Reader,
        use_of: Callable[[Handle], Execution | None],
        over: Callable[[Handle], None],
        offset: int | None = None,
    ) -> None:
        """Send the output from `offset` on, by default from where it ends now. `over` is called when
        all has been told."""
        self.is_due = False
        self._handle = handle
        self._subscription = subscription
        self._events = events
        self._reader = reader
        self._use_of = use_of
        self._over = over
        self._sent = handle.readable_end() if offset is None else offset
        """The offset up to which output was sent."""
        self._tail = OutputTail(handle, self._sent) if "output" in events else None
        self._said: tuple[State, int] | None = None
        """The state that was sent last, with how many questions were asked by then."""
        self._seen: tuple[State, int] | None = None
        """The one that is to be sent, and the output that comes before it."""
        self._after = 0
        self._shown: Screen | None = None
        self._changed = -1
        self._picture_at = 0.0
        handle.listen(self.ring)
        self.ring()

    def ring(self) -> None:
        """The handle has changed."""
        self._reader.add(self)

    def close(self) -> None:
        """It is followed no more."""
        self._handle.unlisten(self.ring)
        self._reader.forget(self)

    def send(self) -> bool:
        """Send the next message, if there is one; whether another may be due."""
        handle, events = self._handle, self._events
        is_over = handle.stopped and handle.output_complete
        must_say = "state" in events and not handle.stopped and self._is_new_state()
        if must_say and (self._tail is None or self._tail.offset >= self._after):
            return self._say_state()
        if self._tail is not None and (piece := self._tail.read_chunk()) is not None:
            if not piece.text and not piece.omitted:
                return True  # only what speaks to a terminal
            said = PushedOutput(
                self._subscription,
                handle.id,
                handle.generation,
                self._sent + piece.omitted,
                piece.cursor,
                piece.text,
                piece.omitted,
                piece.omitted_from,
            )
            self._sent = piece.cursor
            self._reader.say(OUTPUT, said)
            return True
        if must_say:
            return self._say_state()
        if "screen" in events and handle.terminal and self._show(is_over):
            return True
        if is_over:
            if "state" in events:
                self._say_state()
            self._over(handle)
        return False

    def _is_new_state(self) -> bool:
        now = (self._handle.state, self._handle.question_count)
        if now == self._said:
            return False
        if now != self._seen:
            self._seen, self._after = now, self._handle.readable_end()
        return True

    def _say_state(self) -> bool:
        handle = self._handle
        self._said = (handle.state, handle.question_count)
        most = 65_536 if handle.stopped else 0
        state = handle_state(handle, trio.current_time(), max_bytes=most, peek=True)
        said: dict[str, Any] = msgspec.to_builtins(state)
        if not handle.stopped:
            # Output is the matter of another event; what the session has not read is nothing left out.
            said["content"] = ""
            said.pop("omitted", None)
        self._reader.say(STATE, {"subscription": self._subscription, **said})
        return True

    def _show(self, is_over: bool) -> bool:
        """Send what has changed on the screen; whether anything has. A picture that comes too soon
        after the last one is left for later."""
        handle, now = self._handle, trio.current_time()
        use = self._use_of(handle)
        if now < self._picture_at and not is_over:
            self._reader.add_later(self, self._picture_at)
            return False
        screen = handle.last_screen if use is None else use.picture()
        if screen is None or screen.revision == self._changed:
            return False
        self._changed = screen.revision
        shown, self._shown = self._shown, screen
        said = screen if shown is None else changes(shown, screen)
        if shown is not None and _is_same(shown, said):
            return False
        self._picture_at = now + _BETWEEN_PICTURES_S
        self._reader.say(
            SCREEN, PushedScreen(self._subscription, handle.id, handle.generation, said)
        )
        return True


def _is_same(shown: Screen, said: Screen) -> bool:
    """Whether nothing that is seen has changed."""
    if said.changed is UNSET or said.changed:
        return False
    return (shown.cursor, shown.alt, shown.title, shown.scrollback) == (
        said.cursor,
        said.alt,
        said.title,
        said.scrollback,
    )
