"""What one client asked to be told of one session: which handles, which events, and its notices.

Rules: notices are queued within a bound; what it loses, oldest first, is counted and said. A critical one
goes before whatever waits, and is never lost to one that is not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from haft_protocol.pushes import NOTIFICATION, TOOLS, PushedTools, PushEvent
from haft_protocol.states import Notice
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.executions.execution import Execution

from .follower import Follower
from .reader import Reader

__all__ = ["Subscription"]

_NOTICES = 256
"""Notices that wait for one subscription."""
_OF_NO_HANDLE = frozenset({"notification", "tools"})


class Subscription:
    """What one client asked to be told of one session."""

    def __init__(
        self,
        id: str,
        caller: Caller,
        reader: Reader,
        session: str,
        handles: frozenset[str] | None,
        events: frozenset[PushEvent],
        use_of: Callable[[Handle], Execution | None],
    ) -> None:
        self.id = id
        self.caller = caller
        self._reader = reader
        self.session = session
        self._events = events
        self._use_of = use_of
        self.is_due = False
        self._handles = handles
        self._followers: dict[Handle, Follower] = {}
        self._notices: deque[Notice] = deque()
        self._urgent: deque[Notice] = deque()
        """Critical ones that the connection had no room for."""
        self._lost = 0
        self._lost_at = 0.0
        self._tools_changed = False

    def follow(self, handle: Handle, offset: int | None = None) -> None:
        """Tell of this handle, if that is asked for; of its output from `offset` on."""
        if self._handles is not None and handle.id not in self._handles:
            return
        if not self._events <= _OF_NO_HANDLE and handle not in self._followers:
            self._followers[handle] = Follower(
                handle, self.id, self._events, self._reader, self._use_of, self.drop, offset
            )

    def drop(self, handle: Handle) -> None:
        """All has been told of this one."""
        self._followers.pop(handle).close()

    def close(self) -> None:
        """Nothing more is told."""
        for one in self._followers.values():
            one.close()
        self._followers.clear()
        self._reader.forget(self)

    def announce(self, notice: Notice) -> None:
        """Tell of a notice; a critical one goes before whatever waits."""
        is_for_it = self._handles is None or notice.id in self._handles
        if "notification" not in self._events or not is_for_it:
            return
        is_critical = notice.level == "critical"
        if (
            is_critical
            and not self._urgent
            and self._reader.say(NOTIFICATION, self._worded(notice))
        ):
            return
        queue = self._urgent if is_critical else self._notices
        if len(queue) >= _NOTICES:
            self._lost_at = queue.popleft().at
            self._lost += 1
        queue.append(notice)
        self._reader.add(self)

    def tools_changed(self) -> None:
        """Tell that the list of tools may have changed, once for changes that follow each other."""
        if "tools" in self._events:
            self._tools_changed = True
            self._reader.add(self)

    def send(self) -> bool:
        """Send the next notice; whether there is another."""
        if self._tools_changed:
            self._tools_changed = False
            self._reader.say(TOOLS, PushedTools(self.id))
        elif self._urgent:
            self._reader.say(NOTIFICATION, self._worded(self._urgent.popleft()))
        elif self._lost:
            message = f"{self._lost} older notices were dropped, {_NOTICES} are kept."
            lost = Notice("notices.lost", "warning", message, self._lost_at)
            self._lost = 0
            self._reader.say(NOTIFICATION, self._worded(lost))
        else:
            self._reader.say(NOTIFICATION, self._worded(self._notices.popleft()))
        return bool(self._urgent or self._lost or self._notices)

    def _worded(self, notice: Notice) -> dict[str, Any]:
        return {
            "subscription": self.id,
            "session": self.session,
            **msgspec.to_builtins(notice),
        }
