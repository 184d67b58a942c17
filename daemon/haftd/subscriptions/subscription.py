"""A client's subscription to a session, or to all: handles, events, inquiries, notices.

Queued notices are bounded, critical ones apart from the others: beyond `_MAX_NOTICES` of either kind the
oldest are dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from haft_protocol.pushes import (
    APPROVAL_CLOSED,
    APPROVAL_OPENED,
    FORGOTTEN,
    INQUIRY_CLOSED,
    INQUIRY_OPENED,
    NOTIFICATION,
    TOOLS,
    ApprovalClosed,
    InquiryClosed,
    PushedForgotten,
    PushedTools,
    PushEvent,
)
from haft_protocol.states import Notice
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.terminal_filter import TerminalReader
from haftd.executions.execution import Execution
from haftd.inquiries.kind import InquiryKind

from .follower import Follower
from .push_queue import PushQueue

_MAX_NOTICES = 256
"""Queued notices of one subscription, of each kind."""
_SESSION_EVENTS = frozenset({"inquiries", "approvals", "notification", "tools"})
ALL = "*"
"""Session of a subscription to all."""


class Subscription:
    def __init__(
        self,
        id: str,
        caller: Caller,
        queue: PushQueue,
        session: str,
        handles: frozenset[str] | None,
        events: frozenset[PushEvent],
        execution_of: Callable[[Handle], Execution | None],
        terminal: TerminalReader | None = None,
        *,
        backpressure: bool = False,
        on_left: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_left` is called when a handle is no longer followed."""
        self.id = id
        self.caller = caller
        self._queue = queue
        self.session = session
        self._events = events
        self._execution_of = execution_of
        self._terminal = terminal
        self._backpressure = backpressure
        self._on_left = on_left
        self.is_due = False
        self._handles = handles
        self._followers: dict[Handle, Follower] = {}
        self._inquiries: dict[InquiryKind, bool] = {}
        """Inquiries whose opening (True) or end (False) is unsent."""
        self._evicted: set[Handle] = set()
        """Forgotten handles whose last state is unsent."""
        self._forgotten: dict[tuple[str, str], int] = {}
        """Unsent generations of forgotten handles, by session and id."""
        self._notices: deque[tuple[str, Notice]] = deque()
        self._critical: deque[tuple[str, Notice]] = deque()
        self._lost = 0
        self._lost_at = 0.0
        self._tools_changed = False

    def follow(self, handle: Handle, offset: int | None = None) -> None:
        """Follow a handle, unless the subscription names other handles; output starts at `offset`."""
        if self._handles is not None and handle.id not in self._handles:
            return
        if not self._events <= _SESSION_EVENTS and handle not in self._followers:
            self._followers[handle] = Follower(
                handle,
                self.id,
                self._events,
                self._queue,
                self._execution_of,
                self.unfollow,
                offset,
                self._terminal,
                names_session=self.session == ALL,
                backpressure=self._backpressure,
            )

    def unfollow(self, handle: Handle) -> None:
        """Stop following a handle: its end was sent, or it is gone."""
        self._followers.pop(handle).close()
        self._on_left()
        if handle in self._evicted:
            self._evicted.remove(handle)
            self._queue_forgotten(handle)

    def forget(self, handle: Handle) -> None:
        """Queue the end of a handle's retention, after its last state; a rejected start has none."""
        if handle in self._followers:
            self._evicted.add(handle)
            if not handle.stopped:
                self.unfollow(handle)
        elif self._handles is None or handle.id in self._handles:
            self._queue_forgotten(handle)

    def _queue_forgotten(self, handle: Handle) -> None:
        if "state" in self._events:
            self._forgotten[handle.session, handle.id] = handle.generation
            self._queue.add(self)

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()
        self._on_left()
        self._queue.discard(self)

    def push_inquiry(self, kind: InquiryKind) -> None:
        if self._covers(kind):
            self._inquiries[kind] = True
            self._queue.add(self)

    def push_inquiry_end(self, kind: InquiryKind) -> None:
        """Queue an inquiry's end; an inquiry with an unsent opening is dropped."""
        if not self._covers(kind):
            return
        if self._inquiries.pop(kind, False):
            return
        self._inquiries[kind] = False
        self._queue.add(self)

    def _covers(self, kind: InquiryKind) -> bool:
        event = "inquiries" if kind.capability == "inquiry" else "approvals"
        if event not in self._events or not kind.is_visible_to(self.caller):
            return False
        return self._handles is None or kind.labels.get("handle") in self._handles

    def push_notice(self, session: str, notice: Notice) -> None:
        """Queue a notice of a session; critical notices go first."""
        is_for_it = self._handles is None or notice.id in self._handles
        if "notification" not in self._events or not is_for_it:
            return
        is_critical = notice.level == "critical"
        if (
            is_critical
            and not self._critical
            and self._queue.send(NOTIFICATION, self._make_params(session, notice))
        ):
            return
        queue = self._critical if is_critical else self._notices
        if len(queue) >= _MAX_NOTICES:
            self._lost_at = queue.popleft()[1].at
            self._lost += 1
        queue.append((session, notice))
        self._queue.add(self)

    def push_tools_change(self) -> None:
        """Queue one message for consecutive changes of the tools."""
        if "tools" in self._events:
            self._tools_changed = True
            self._queue.add(self)

    def send_next(self) -> bool:
        """Send the next message; return True if another is due."""
        if self._tools_changed:
            self._tools_changed = False
            self._queue.send(TOOLS, PushedTools(self.id))
        elif self._critical:
            self._queue.send(NOTIFICATION, self._make_params(*self._critical.popleft()))
        elif self._inquiries:
            self._send_inquiry()
        elif self._forgotten:
            (session, id), generation = next(iter(self._forgotten.items()))
            del self._forgotten[session, id]
            self._queue.send(FORGOTTEN, PushedForgotten(self.id, session, id, generation))
        elif self._lost:
            message = f"{self._lost} older notices were dropped ({_MAX_NOTICES} are kept)."
            lost = Notice("notices.lost", "warning", message, self._lost_at)
            self._lost = 0
            self._queue.send(NOTIFICATION, self._make_params(self.session, lost))
        elif self._notices:
            self._queue.send(NOTIFICATION, self._make_params(*self._notices.popleft()))
        return bool(
            self._critical or self._inquiries or self._forgotten or self._lost or self._notices
        )

    def _send_inquiry(self) -> None:
        kind = next(iter(self._inquiries))
        is_opened = self._inquiries.pop(kind)
        is_question = kind.capability == "inquiry"
        if is_opened:
            method = INQUIRY_OPENED if is_question else APPROVAL_OPENED
            params = msgspec.to_builtins(kind.make_message())
            self._queue.send(method, {"subscription": self.id, **params})
        elif is_question:
            question = kind.labels.get("question", UNSET)
            self._queue.send(
                INQUIRY_CLOSED, InquiryClosed(self.id, kind.session, kind.id, question)
            )
        else:
            self._queue.send(APPROVAL_CLOSED, ApprovalClosed(self.id, kind.session, kind.id))

    def _make_params(self, session: str, notice: Notice) -> dict[str, Any]:
        return {
            "subscription": self.id,
            "session": session,
            **msgspec.to_builtins(notice),
        }
