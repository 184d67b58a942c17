"""Push of a session's changes to its subscribers (docs/protocol.md, "Subscriptions").

No execution waits for a subscriber, unless asked to: a handle marks its followers as due, and one
task a connection sends one message at a time, as of the moment of sending. A connection has a
`push_queue`, each request a `subscription` with a `follower` for each handle.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import msgspec
import structlog
import trio

from haft_protocol.pushes import PushEvent
from haft_protocol.states import Notice
from haftd.caller import Caller
from haftd.client_requests import ClientRequests
from haftd.core.handles import Handle
from haftd.core.terminal_filter import TerminalReader
from haftd.executions.execution import Execution
from haftd.inquiries.kind import InquiryKind

from .push_queue import PushQueue
from .subscription import ALL, Subscription

MAX_SUBSCRIPTIONS = 64
"""Subscriptions of one connection."""

log = structlog.get_logger("haftd.subscriptions")


class _Subscriber(msgspec.Struct, eq=False):
    queue: PushQueue
    subscriptions: dict[str, Subscription] = msgspec.field(default_factory=dict)


class Subscriptions:
    """All subscriptions; `nursery` holds one task a subscribed connection."""

    def __init__(
        self,
        nursery: trio.Nursery,
        execution_of: Callable[[Handle], Execution | None] = lambda handle: None,
        on_left: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_left` is called when a handle has one follower less."""
        self._nursery = nursery
        self._execution_of = execution_of
        self._on_left = on_left
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
        terminal: TerminalReader | None = None,
        backpressure: bool = False,
        inquiries: Iterable[InquiryKind] = (),
    ) -> str:
        """Subscribe the peer; return the subscription's name.

        With `only`, to these handles and later executions of their ids, else to all of the session,
        or of all sessions with `*`. `inquiries` are those open now, `offsets` the starts of output
        by id. Bytes for a `terminal` reader are filtered.
        """
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
            self._execution_of,
            terminal,
            backpressure=backpressure,
            on_left=self._on_left,
        )
        subscriber.subscriptions[subscription.id] = subscription
        self._by_session.setdefault(session, {})[subscription] = None
        for handle in initial:
            subscription.follow(handle, offsets.get(handle.id))
        for kind in inquiries:
            subscription.push_inquiry(kind)
        return subscription.id

    def close(self, caller: Caller, id: str) -> bool:
        """End a subscription; return False for an unknown name."""
        subscriber = self._subscribers.get(caller)
        subscription = None if subscriber is None else subscriber.subscriptions.pop(id, None)
        if subscriber is None or subscription is None:
            return False
        self._end(subscription)
        if not subscriber.subscriptions:
            self.remove_connection(caller)
        return True

    def remove_connection(self, caller: Caller) -> None:
        subscriber = self._subscribers.pop(caller, None)
        if subscriber is None:
            return
        subscriber.queue.scope.cancel()
        for subscription in subscriber.subscriptions.values():
            self._end(subscription)

    def add_handle(self, handle: Handle) -> None:
        for subscription in self._list_subscriptions(handle.session):
            if subscription.caller.may_reach(handle.settings.may):
                subscription.follow(handle)

    def remove_handle(self, handle: Handle) -> None:
        """Push the end of a handle's retention to subscribers with enough permissions."""
        for subscription in self._list_subscriptions(handle.session):
            if subscription.caller.may_reach(handle.settings.may):
                subscription.forget(handle)

    def push_notice(self, session: str, notice: Notice) -> None:
        for subscription in self._list_subscriptions(session):
            subscription.push_notice(session, notice)

    def push_inquiry(self, kind: InquiryKind) -> None:
        for subscription in self._list_subscriptions(kind.session):
            subscription.push_inquiry(kind)

    def push_inquiry_end(self, kind: InquiryKind) -> None:
        for subscription in self._list_subscriptions(kind.session):
            subscription.push_inquiry_end(kind)

    def push_tools_change(self) -> None:
        for subscriber in self._subscribers.values():
            for subscription in subscriber.subscriptions.values():
                subscription.push_tools_change()

    def _list_subscriptions(self, session: str) -> Iterator[Subscription]:
        yield from self._by_session.get(session, ())
        yield from self._by_session.get(ALL, ())

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
