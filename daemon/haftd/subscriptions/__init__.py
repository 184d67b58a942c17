"""Push for editors: what happens to a session's handles is sent to those who asked to be told.

Rules: nothing waits for a reader. A handle only marks its followers as due; one task a connection
sends what is due, a message at a time, and the next only when the last has left, so that a reply is
never behind more than one of them and a reader that is behind costs nobody anything. What is said is
what is so when it is said: output from the spool, the state and the screen as they are, never a queue
of what they were. What a subscription has come to is its own: no mark moves and no notice is used up.
It ends with its connection. A `reader` a connection, a `subscription` for what it asked, a `follower` for
each handle of that. Section 7, "Push".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import structlog
import trio

from haft_protocol.pushes import PushEvent
from haft_protocol.states import Notice
from haftd.caller import Caller
from haftd.client_requests import ClientRequests
from haftd.core.handles import Handle
from haftd.executions.execution import Execution

from .reader import Reader
from .subscription import Subscription

__all__ = ["MOST", "Subscriptions"]

MOST = 64
"""Subscriptions of one connection."""

log = structlog.get_logger("haftd.subscriptions")


@dataclass(slots=True, eq=False)
class _Told:
    """One connection that is told of something, and what it asked for."""

    reader: Reader
    subscriptions: dict[str, Subscription] = field(default_factory=dict)


class Subscriptions:
    """All subscriptions there are. `nursery` holds a task for each connection that has some."""

    def __init__(
        self,
        nursery: trio.Nursery,
        use_of: Callable[[Handle], Execution | None] = lambda handle: None,
    ) -> None:
        self._nursery = nursery
        self._use_of = use_of
        self._numbers = itertools.count(1)
        self._told: dict[Caller, _Told] = {}
        self._by_session: dict[str, dict[Subscription, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_session.values()))

    def count(self, caller: Caller) -> int:
        """How many subscriptions a connection has."""
        told = self._told.get(caller)
        return 0 if told is None else len(told.subscriptions)

    def open(
        self,
        client: ClientRequests,
        session: str,
        handles: Iterable[Handle],
        events: Iterable[PushEvent],
        *,
        only: bool,
        offsets: Mapping[str, int] = MappingProxyType({}),
    ) -> str:
        """Tell the peer of these handles, and with `only` of none but later uses of their ids;
        else of all that are started in the session. `offsets` says by id from where on output is
        sent. Returns the subscription's name."""
        known = tuple(handles)
        told = self._told.get(client.caller)
        if told is None:
            told = self._told[client.caller] = _Told(Reader(client))
            self._nursery.start_soon(self._serve, client.caller, told)
        subscription = Subscription(
            f"sub.{next(self._numbers)}",
            client.caller,
            told.reader,
            session,
            frozenset(one.id for one in known) if only else None,
            frozenset(events),
            self._use_of,
        )
        told.subscriptions[subscription.id] = subscription
        self._by_session.setdefault(session, {})[subscription] = None
        for one in known:
            subscription.follow(one, offsets.get(one.id))
        return subscription.id

    def close(self, caller: Caller, id: str) -> bool:
        """End a subscription; false where the connection has none of that name."""
        told = self._told.get(caller)
        subscription = None if told is None else told.subscriptions.pop(id, None)
        if told is None or subscription is None:
            return False
        self._end(subscription)
        if not told.subscriptions:
            self.leave(caller)
        return True

    def leave(self, caller: Caller) -> None:
        """The connection is gone, or is told of nothing any more."""
        told = self._told.pop(caller, None)
        if told is None:
            return
        told.reader.scope.cancel()
        for one in told.subscriptions.values():
            self._end(one)

    def appeared(self, handle: Handle) -> None:
        """A handle was started in its session."""
        for one in self._by_session.get(handle.session, ()):
            if one.caller.may_reach(handle.may):
                one.follow(handle)

    def announce(self, session: str, notice: Notice) -> None:
        """There is news for a session."""
        for one in self._by_session.get(session, ()):
            one.announce(notice)

    def tools_changed(self) -> None:
        """The list of tools may have changed."""
        for told in self._told.values():
            for one in told.subscriptions.values():
                one.tools_changed()

    def _end(self, subscription: Subscription) -> None:
        subscription.close()
        of_session = self._by_session[subscription.session]
        del of_session[subscription]
        if not of_session:
            del self._by_session[subscription.session]

    async def _serve(self, caller: Caller, told: _Told) -> None:
        try:
            await told.reader.run()
        except Exception:
            log.exception("subscriptions failed", client=caller.label)
        if self._told.get(caller) is told:
            self.leave(caller)
