"""Push for editors: send changes of a session's handles to its subscribers.

No execution waits for a subscriber. A handle only marks its followers as due; one task for each
connection sends one message at a time, the next after the last has left, so that a reply is behind
one message at most and a slow client costs others nothing. A message describes the moment of
sending: output from the spool, state and screen as they are, never a queue of older ones. A
subscription has its own offsets: no read offset moves and no notice is consumed. A connection has a
`push_queue` and for each request a `subscription`, with a `follower` for each handle; all end with
the connection. Section 7, "Push".
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

from .push_queue import PushQueue
from .subscription import Subscription

MAX_SUBSCRIPTIONS = 64
"""Subscriptions of one connection."""

log = structlog.get_logger("haftd.subscriptions")


@dataclass(slots=True, eq=False)
class _Subscriber:
    """One subscribed connection, with its subscriptions by name."""

    queue: PushQueue
    subscriptions: dict[str, Subscription] = field(default_factory=dict)


class Subscriptions:
    """All subscriptions. `nursery` holds one task for each connection that has some."""

    def __init__(
        self,
        nursery: trio.Nursery,
        use_of: Callable[[Handle], Execution | None] = lambda handle: None,
    ) -> None:
        self._nursery = nursery
        self._use_of = use_of
        self._numbers = itertools.count(1)
        self._subscribers: dict[Caller, _Subscriber] = {}
        self._by_session: dict[str, dict[Subscription, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_session.values()))

    def count(self, caller: Caller) -> int:
        """Return the number of a connection's subscriptions."""
        subscriber = self._subscribers.get(caller)
        return 0 if subscriber is None else len(subscriber.subscriptions)

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
        """Subscribe the peer to these handles; with `only` and later executions of their ids, else
        with all handles started in the session. `offsets`: by id the offset from which output is
        sent. Returns the subscription's name."""
        initial = tuple(handles)
        subscriber = self._subscribers.get(client.caller)
        if subscriber is None:
            subscriber = self._subscribers[client.caller] = _Subscriber(PushQueue(client))
            self._nursery.start_soon(self._serve, client.caller, subscriber)
        subscription = Subscription(
            f"sub.{next(self._numbers)}",
            client.caller,
            subscriber.queue,
            session,
            frozenset(handle.id for handle in initial) if only else None,
            frozenset(events),
            self._use_of,
        )
        subscriber.subscriptions[subscription.id] = subscription
        self._by_session.setdefault(session, {})[subscription] = None
        for handle in initial:
            subscription.follow(handle, offsets.get(handle.id))
        return subscription.id

    def close(self, caller: Caller, id: str) -> bool:
        """End a subscription; return False where the connection has none of that name."""
        subscriber = self._subscribers.get(caller)
        subscription = None if subscriber is None else subscriber.subscriptions.pop(id, None)
        if subscriber is None or subscription is None:
            return False
        self._end(subscription)
        if not subscriber.subscriptions:
            self.remove_connection(caller)
        return True

    def remove_connection(self, caller: Caller) -> None:
        """End all subscriptions of a connection."""
        subscriber = self._subscribers.pop(caller, None)
        if subscriber is None:
            return
        subscriber.queue.scope.cancel()
        for subscription in subscriber.subscriptions.values():
            self._end(subscription)

    def add_handle(self, handle: Handle) -> None:
        """Follow a handle that was started in its session."""
        for subscription in self._by_session.get(handle.session, ()):
            if subscription.caller.may_reach(handle.settings.may):
                subscription.follow(handle)

    def push_notice(self, session: str, notice: Notice) -> None:
        """Push a notice to the session's subscribers."""
        for subscription in self._by_session.get(session, ()):
            subscription.push_notice(notice)

    def tools_changed(self) -> None:
        """Push that the list of tools may have changed."""
        for subscriber in self._subscribers.values():
            for subscription in subscriber.subscriptions.values():
                subscription.tools_changed()

    def _end(self, subscription: Subscription) -> None:
        subscription.close()
        of_session = self._by_session[subscription.session]
        del of_session[subscription]
        if not of_session:
            del self._by_session[subscription.session]

    async def _serve(self, caller: Caller, subscriber: _Subscriber) -> None:
        try:
            await subscriber.queue.run()
        except Exception:
            log.exception("subscriptions failed", client=caller.label)
        if self._subscribers.get(caller) is subscriber:
            self.remove_connection(caller)
