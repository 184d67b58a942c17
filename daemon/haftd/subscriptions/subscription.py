"""What one client asked to be told of one session: which handles, which events, and its notices.

Rules: notices are queued within a bound; what it loses, oldest first, is counted and said. A critical one
goes before whatever waits, and is never lost to one that is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from haft_protocol.pushes import NOTIFICATION, PushEvent
from haft_protocol.states import Notice
from haftd.core.handles import Handle
from haftd.use import Use

from .follower import Follower

if TYPE_CHECKING:
    from .reader import Reader

__all__ = ["Subscription"]

_NOTICES = 256
"""Notices that wait for one subscription."""


class Subscription:
    """What one client asked to be told of one session."""

    def __init__(
        self,
        id: str,
        reader: Reader,
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
        self._followers: dict[Handle, Follower] = {}
        self._notices: deque[Notice] = deque()
        self._urgent: deque[Notice] = deque()
        """Critical ones that the connection had no room for."""
        self._lost = 0
        self._lost_at = 0.0

    def follow(self, handle: Handle) -> None:
        """Tell of this handle, if that is asked for."""
        if self._handles is not None and handle.id not in self._handles:
            return
        if self.events != {"notification"} and handle not in self._followers:
            self._followers[handle] = Follower(self, handle)

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
        is_critical = notice.level == "critical"
        if is_critical and not self._urgent and self.say(NOTIFICATION, self._worded(notice)):
            return
        queue = self._urgent if is_critical else self._notices
        if len(queue) >= _NOTICES:
            self._lost_at = queue.popleft().at
            self._lost += 1
        queue.append(notice)
        if not self.is_due:
            self.is_due = True
            self.reader.add(self)

    def send(self) -> bool:
        """Send the next notice; whether there is another."""
        if self._urgent:
            self.say(NOTIFICATION, self._worded(self._urgent.popleft()))
        elif self._lost:
            message = f"{self._lost} older notices were dropped, {_NOTICES} are kept."
            lost = Notice("notices.lost", "warning", message, self._lost_at)
            self._lost = 0
            self.say(NOTIFICATION, self._worded(lost))
        else:
            self.say(NOTIFICATION, self._worded(self._notices.popleft()))
        return bool(self._urgent or self._lost or self._notices)

    def say(self, method: str, params: object) -> bool:
        """Send a message; whether it was."""
        return self.reader.link.notify(method, params)

    def _worded(self, notice: Notice) -> dict[str, Any]:
        return {
            "subscription": self.id,
            "session": self.session,
            **msgspec.to_builtins(notice),
        }
