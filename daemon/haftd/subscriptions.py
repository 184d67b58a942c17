"""Push for editors: what happens to a session's handles is sent to those who asked to be told.

Rules: nothing waits for a reader. A handle only marks its followers as due; one task a connection
sends what is due, a message at a time, and the next only when the last has left, so that a reply is
never behind more than one of them and a reader that is behind costs nobody anything. What is said is
what is so when it is said: output from the spool, the state and the screen as they are, never a queue
of what they were. What a subscription has come to is its own: no mark moves and no notice is used up.
It ends with its connection. Section 7, "Push".
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import structlog
import trio
from msgspec import UNSET

from haft_protocol.pushes import (
    NOTIFICATION,
    OUTPUT,
    SCREEN,
    STATE,
    PushedOutput,
    PushedScreen,
    PushEvent,
)
from haft_protocol.states import Notice, Screen
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.tail import Tail
from haftd.links import Link
from haftd.use import Use, changes

__all__ = ["MOST", "Subscriptions"]

MOST = 64
"""Subscriptions of one connection."""

_NOTICES = 256
"""Notices that wait for one subscription; what it loses, oldest first, is counted and said."""

_BETWEEN_PICTURES_S = 0.03
"""Between two pictures of one screen: no eye sees more, and each costs the daemon a look."""

log = structlog.get_logger("haftd.subscriptions")


class _Follower:
    """One subscription's view of one handle."""

    __slots__ = (
        "_after",
        "_changed",
        "_handle",
        "_picture_at",
        "_said",
        "_seen",
        "_shown",
        "_subscription",
        "_tail",
        "is_due",
    )

    def __init__(self, subscription: _Subscription, handle: Handle) -> None:
        events = subscription.events
        self.is_due = False
        self._subscription = subscription
        self._handle = handle
        self._tail = Tail(handle, handle.readable_end()) if "output" in events else None
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
        if not self.is_due:
            self.is_due = True
            self._subscription.reader.add(self)

    def close(self) -> None:
        """It is followed no more."""
        self._handle.unlisten(self.ring)

    def send(self) -> bool:
        """Send the next message, if there is one; whether another may be due."""
        handle, events = self._handle, self._subscription.events
        is_over = handle.stopped and handle.output_complete
        must_say = "state" in events and not handle.stopped and self._is_new_state()
        if must_say and (self._tail is None or self._tail.offset >= self._after):
            return self._say_state()
        if self._tail is not None and (piece := self._tail.take()) is not None:
            if not piece.text and not piece.omitted:
                return True  # only what speaks to a terminal
            said = PushedOutput(
                self._subscription.id,
                handle.id,
                handle.generation,
                piece.cursor,
                piece.text,
                piece.omitted,
                piece.omitted_from,
            )
            self._subscription.say(OUTPUT, said)
            return True
        if must_say:
            return self._say_state()
        if "screen" in events and handle.terminal and self._show(is_over):
            return True
        if is_over:
            if "state" in events:
                self._say_state()
            self._subscription.drop(handle)
        return False

    def _is_new_state(self) -> bool:
        now = (self._handle.state, self._handle.asked)
        if now == self._said:
            return False
        if now != self._seen:
            self._seen, self._after = now, self._handle.readable_end()
        return True

    def _say_state(self) -> bool:
        handle = self._handle
        self._said = (handle.state, handle.asked)
        most = 65_536 if handle.stopped else 0
        state = handle.view(trio.current_time(), max_bytes=most, peek=True)
        said: dict[str, Any] = msgspec.to_builtins(state)
        if not handle.stopped:
            # Output is the matter of another event; what the session has not read is nothing left out.
            said["content"] = ""
            said.pop("omitted", None)
        self._subscription.say(STATE, {"subscription": self._subscription.id, **said})
        return True

    def _show(self, is_over: bool) -> bool:
        """Send what has changed on the screen; whether anything has. A picture that comes too soon
        after the last one is left for later."""
        handle, now = self._handle, trio.current_time()
        use = self._subscription.use_of(handle)
        if now < self._picture_at and not is_over:
            self._subscription.reader.add_later(self, self._picture_at)
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
        self._subscription.say(
            SCREEN, PushedScreen(self._subscription.id, handle.id, handle.generation, said)
        )
        return True


class _Subscription:
    """What one client asked to be told of one session."""

    def __init__(
        self,
        id: str,
        reader: _Reader,
        session: str,
        handles: frozenset[str] | None,
        events: frozenset[PushEvent],
        use_of: Callable[[Handle], Use | None],
    ) -> None:
        self.id = id
        self.reader = reader
        self.session = session
        self.events = events
        self.use_of = use_of
        self.is_due = False
        self._handles = handles
        self._followers: dict[Handle, _Follower] = {}
        self._notices: deque[Notice] = deque()
        self._lost = 0

    def follow(self, handle: Handle) -> None:
        """Tell of this handle, if that is asked for."""
        if self._handles is not None and handle.id not in self._handles:
            return
        if self.events != {"notification"} and handle not in self._followers:
            self._followers[handle] = _Follower(self, handle)

    def drop(self, handle: Handle) -> None:
        """All has been told of this one."""
        one = self._followers.pop(handle)
        one.close()
        self.reader.forget(one)

    def close(self) -> None:
        """Nothing more is told."""
        for one in self._followers.values():
            one.close()
            self.reader.forget(one)
        self._followers.clear()
        self.reader.forget(self)

    def announce(self, notice: Notice) -> None:
        """Tell of a notice; a critical one goes before whatever waits."""
        is_for_it = self._handles is None or notice.id in self._handles
        if "notification" not in self.events or not is_for_it:
            return
        if notice.level == "critical" and self.say(NOTIFICATION, self._worded(notice)):
            return
        if len(self._notices) >= _NOTICES:
            self._notices.popleft()
            self._lost += 1
        self._notices.append(notice)
        if not self.is_due:
            self.is_due = True
            self.reader.add(self)

    def send(self) -> bool:
        """Send the next notice; whether there is another."""
        if self._lost:
            message = f"{self._lost} older notices were dropped, {_NOTICES} are kept."
            lost = Notice("notices.lost", "warning", message, self._notices[0].at)
            self._lost = 0
            self.say(NOTIFICATION, self._worded(lost))
        else:
            self.say(NOTIFICATION, self._worded(self._notices.popleft()))
        return bool(self._notices)

    def say(self, method: str, params: object) -> bool:
        """Send a message; whether it was."""
        return self.reader.link.notify(method, params)

    def _worded(self, notice: Notice) -> dict[str, Any]:
        return {
            "subscription": self.id,
            "session": self.session,
            **msgspec.to_builtins(notice),
        }


class _Reader:
    """One connection that is told of something: what is due to it, in turns."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.subscriptions: dict[str, _Subscription] = {}
        self.scope = trio.CancelScope()
        self._due: deque[_Follower | _Subscription] = deque()
        self._later: dict[_Follower, float] = {}
        self._bell = trio.lowlevel.ParkingLot()

    def add(self, one: _Follower | _Subscription) -> None:
        """There is something to send. Called for every chunk of a tool's output."""
        self._due.append(one)
        if self._bell:
            self._bell.unpark()

    def add_later(self, one: _Follower, at: float) -> None:
        """There is something to send from this time on."""
        self._later[one] = at

    def forget(self, one: _Follower | _Subscription) -> None:
        """It sends nothing more."""
        if isinstance(one, _Follower):
            self._later.pop(one, None)
        if one.is_due and one in self._due:
            self._due.remove(one)

    async def run(self) -> None:
        """Send what is due, until cancelled or the peer is read no more."""
        with self.scope:
            while True:
                while self._due:
                    if not await self.link.idle():
                        return
                    if self._due:  # what was due may have been forgotten meanwhile
                        self._send_one()
                    await trio.lowlevel.checkpoint()
                with trio.move_on_at(min(self._later.values(), default=float("inf"))):
                    await self._bell.park()
                now = trio.current_time()
                for one in [one for one, at in self._later.items() if at <= now]:
                    del self._later[one]
                    one.ring()

    def _send_one(self) -> None:
        one = self._due.popleft()
        one.is_due = False
        # Each gets its turn: one that floods does not keep the others silent.
        if one.send() and not one.is_due:
            one.is_due = True
            self._due.append(one)


class Subscriptions:
    """All subscriptions there are. `nursery` holds a task for each connection that has some."""

    def __init__(
        self, nursery: trio.Nursery, use_of: Callable[[Handle], Use | None] = lambda handle: None
    ) -> None:
        self._nursery = nursery
        self._use_of = use_of
        self._numbers = itertools.count(1)
        self._readers: dict[Caller, _Reader] = {}
        self._by_session: dict[str, dict[_Subscription, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_session.values()))

    def count(self, caller: Caller) -> int:
        """How many subscriptions a connection has."""
        reader = self._readers.get(caller)
        return 0 if reader is None else len(reader.subscriptions)

    def open(
        self,
        link: Link,
        session: str,
        handles: Iterable[Handle],
        events: Iterable[PushEvent],
        *,
        only: bool,
    ) -> str:
        """Tell the peer of these handles, and with `only` of none but later uses of their ids;
        else of all that are started in the session. Returns the subscription's name."""
        known = tuple(handles)
        reader = self._readers.get(link.caller)
        if reader is None:
            reader = self._readers[link.caller] = _Reader(link)
            self._nursery.start_soon(self._serve, link.caller, reader)
        subscription = _Subscription(
            f"sub.{next(self._numbers)}",
            reader,
            session,
            frozenset(one.id for one in known) if only else None,
            frozenset(events),
            self._use_of,
        )
        reader.subscriptions[subscription.id] = subscription
        self._by_session.setdefault(session, {})[subscription] = None
        for one in known:
            subscription.follow(one)
        return subscription.id

    def close(self, caller: Caller, id: str) -> bool:
        """End a subscription; false where the connection has none of that name."""
        reader = self._readers.get(caller)
        subscription = None if reader is None else reader.subscriptions.pop(id, None)
        if reader is None or subscription is None:
            return False
        self._end(subscription)
        if not reader.subscriptions:
            self.leave(caller)
        return True

    def leave(self, caller: Caller) -> None:
        """The connection is gone, or is told of nothing any more."""
        reader = self._readers.pop(caller, None)
        if reader is None:
            return
        reader.scope.cancel()
        for one in reader.subscriptions.values():
            self._end(one)

    def appeared(self, handle: Handle) -> None:
        """A handle was started in its session."""
        for one in self._by_session.get(handle.session, ()):
            one.follow(handle)

    def announce(self, session: str, notice: Notice) -> None:
        """There is news for a session."""
        for one in self._by_session.get(session, ()):
            one.announce(notice)

    def _end(self, subscription: _Subscription) -> None:
        subscription.close()
        of_session = self._by_session[subscription.session]
        del of_session[subscription]
        if not of_session:
            del self._by_session[subscription.session]

    async def _serve(self, caller: Caller, reader: _Reader) -> None:
        try:
            await reader.run()
        except Exception:
            log.exception("subscriptions failed", client=caller.label)
        if self._readers.get(caller) is reader:
            self.leave(caller)


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
