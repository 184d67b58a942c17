"""What a session is owed the news of: handles of it that stopped, failed or wait, and it has not seen.

Rules: pure. A notice is handed out once. One whose news the session has had meanwhile, by reading
the handle or awaiting it, is not handed out at all. A queue is bounded; what it loses, oldest first,
is counted and said. Section 7.
"""

from __future__ import annotations

from collections import deque

import msgspec

from haft_protocol.states import Notice

from .handles import Handle
from .lifecycle import State
from .outcomes import failure_of

__all__ = ["Notices", "notice_of"]

_MOST = 256


class _Queued(msgspec.Struct, frozen=True):
    handle: Handle
    state: State
    asked: int
    notice: Notice

    @property
    def is_news(self) -> bool:
        """Whether the session has not seen what this tells of."""
        if self.state is State.STOPPED:
            return not self.handle.end_shown
        is_asked_now = self.handle.state is State.WAITING and self.handle.asked == self.asked
        return is_asked_now and self.handle.question_shown < self.asked


class Notices:
    """The queues of all sessions."""

    __slots__ = ("_lost", "_queues")

    def __init__(self) -> None:
        self._queues: dict[str, deque[_Queued]] = {}
        self._lost: dict[str, int] = {}

    def changed(self, handle: Handle, at: float) -> Notice | None:
        """A handle is in another state now; `at` is in seconds since the epoch. Returns what was
        queued, if that is news."""
        notice = notice_of(handle, at)
        if notice is None:
            return None
        queue = self._queues.setdefault(handle.session, deque())
        if len(queue) >= _MOST:
            self._make_room(handle.session, queue)
        queue.append(_Queued(handle, handle.state, handle.asked, notice))
        return notice

    def drain(self, session: str, at: float) -> tuple[Notice, ...]:
        """What the session has not seen, oldest first; it has now."""
        queue = self._queues.pop(session, deque())
        lost = self._lost.pop(session, 0)
        notices = tuple(queued.notice for queued in queue if queued.is_news)
        if not lost:
            return notices
        told = Notice(
            kind="notices.lost",
            level="warning",
            message=f"{lost} older notices were dropped, {_MOST} are kept; `handles/list` shows all "
            "handles as they are.",
            at=at,
        )
        return (told, *notices)

    def forget(self, session: str) -> None:
        """The session is closed."""
        self._queues.pop(session, None)
        self._lost.pop(session, None)

    def _make_room(self, session: str, queue: deque[_Queued]) -> None:
        kept = [queued for queued in queue if queued.is_news]
        if len(kept) >= _MOST:
            self._lost[session] = self._lost.get(session, 0) + len(kept) - _MOST + 1
            del kept[: len(kept) - _MOST + 1]
        queue.clear()
        queue.extend(kept)


def notice_of(handle: Handle, at: float) -> Notice | None:
    """What there is to tell of a handle as it is; None where that is nothing."""
    if handle.state is State.WAITING and handle.question is not None:
        text = handle.question.text
        return Notice(
            kind="tool.waiting",
            level="warning",
            message=f"`{handle.id}` ({handle.tool}) waits for an answer: {text}",
            at=at,
            id=handle.id,
        )
    if handle.state is not State.STOPPED or handle.ended_by is None:
        return None
    error = failure_of(
        handle.ended_by, handle.exit, handle.failure, raw=handle.raw, limit=handle.limit
    )
    if error is None:
        return Notice(
            kind="tool.stopped",
            level="info",
            message=f"`{handle.id}` ({handle.tool}) has ended and succeeded.",
            at=at,
            id=handle.id,
        )
    return Notice(
        kind="tool.failed",
        level="error",
        message=f"`{handle.id}` ({handle.tool}) has failed: {error.message}",
        at=at,
        id=handle.id,
    )
