"""What a session is owed the news of: handles of it that stopped, failed, wait or printed something,
and it has not seen.

Rules: pure. A notice is handed out once. One whose news the session has had meanwhile, by reading
the handle or awaiting it, is not handed out at all; the end of one that a call waits for stays queued
until that has answered. Of output there is one notice a handle and pattern,
which grows while it is queued. A queue is bounded; what it loses, oldest first and what is critical
last, is counted and said. Section 7.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

import msgspec

from haft_protocol.states import Notice

from .handles import Handle
from .last_lines import last_lines
from .lifecycle import State
from .matches import PatternMatches
from .outcomes import failure_of

__all__ = ["NoticeQueues", "notice_of"]

_MAX_QUEUED = 256
_MAX_LINE_CHARS = 200


class _QueuedNotice(Protocol):
    """Something that is queued."""

    @property
    def handle(self) -> Handle:
        """What it is about."""

    @property
    def is_unseen(self) -> bool:
        """Whether the session has not seen what this tells of."""

    @property
    def level(self) -> str:
        """How much it matters."""

    def deliver(self) -> Notice:
        """The notice, which is handed out."""


class _StateChange(msgspec.Struct, frozen=True):
    """A handle has stopped, or waits."""

    handle: Handle
    state: State
    asked: int
    notice: Notice

    @property
    def is_unseen(self) -> bool:
        if self.state is State.STOPPED:
            return not self.handle.end_shown
        is_asked_now = self.handle.state is State.WAITING and self.handle.asked == self.asked
        return is_asked_now and self.handle.question_shown < self.asked

    @property
    def level(self) -> str:
        return self.notice.level

    def deliver(self) -> Notice:
        return self.notice


class _MatchedOutput(msgspec.Struct):
    """Lines of its output match one of its patterns."""

    handle: Handle
    matches: PatternMatches
    at: float

    @property
    def is_unseen(self) -> bool:
        return self.matches.end > _read_offset(self.handle)

    @property
    def level(self) -> str:
        return self.matches.pattern.level

    def deliver(self) -> Notice:
        return self.matches.notice(self.handle, _read_offset(self.handle), self.at)


class _UnreadOutput(msgspec.Struct, frozen=True):
    """There is output that was not read. What there is then is told, not what there was."""

    handle: Handle
    at: float

    @property
    def level(self) -> str:
        return "info"

    @property
    def is_unseen(self) -> bool:
        return _unread_count(self.handle) > 0 and not _has_end_notice(self.handle)

    def deliver(self) -> Notice:
        told = self.notice()
        self.handle.told = self.handle.readable_end()
        return told

    def notice(self) -> Notice:
        handle, count = self.handle, _unread_count(self.handle)
        lines = last_lines(handle, 1, _MAX_LINE_CHARS)
        ends = f", the last line is: {lines[0]}" if lines else "."
        return Notice(
            kind="tool.content",
            level="info",
            message=f"`{handle.id}` ({handle.tool}) has printed {count} bytes that were not read{ends}",
            at=self.at,
            id=handle.id,
            lines=lines,
        )


class NoticeQueues:
    """The queues of all sessions."""

    __slots__ = ("_lost", "_queues")

    def __init__(self) -> None:
        self._queues: dict[str, dict[Hashable, _QueuedNotice]] = {}
        """By what each is about, the oldest first."""
        self._lost: dict[str, int] = {}

    def add_state_change(self, handle: Handle, at: float) -> Notice | None:
        """A handle is in another state now; `at` is in seconds since the epoch. Returns what was
        queued, if that is news that its tool's definition wants to be told."""
        notice = notice_of(handle, at)
        if notice is None or not _wants(handle, notice.kind):
            return None
        about = (handle, handle.state, handle.asked)
        self._put(about, _StateChange(handle, handle.state, handle.asked, notice))
        return notice

    def add_matches(self, handle: Handle, matches: PatternMatches, at: float) -> Notice | None:
        """Lines of its output match a pattern. Returns what there is to tell of these alone, if
        they were not read already; what is queued is told of as one."""
        read = _read_offset(handle)
        if matches.end <= read:
            return None
        about = (handle, matches.pattern.name)
        queued = self._queues.get(handle.session, {}).get(about)
        told = matches.notice(handle, read, at)
        if isinstance(queued, _MatchedOutput) and queued.is_unseen:
            queued.matches.merge(matches)
            queued.at = at
        else:
            self._put(about, _MatchedOutput(handle, matches, at))
        return told

    def add_output(self, handle: Handle, at: float) -> Notice | None:
        """It has printed something. Returns what was queued, if that is news."""
        about = (handle, None)
        output = _UnreadOutput(handle, at)
        if about in self._queues.get(handle.session, {}) or not output.is_unseen:
            return None
        told = output.notice()
        self._put(about, output)
        return told

    def drain(self, session: str, at: float) -> tuple[Notice, ...]:
        """What the session has not seen, oldest first; it has now."""
        queue = self._queues.pop(session, {})
        lost = self._lost.pop(session, 0)
        later = {about: news for about, news in queue.items() if _is_awaited(news)}
        if later:
            self._queues[session] = later
        notices = tuple(
            news.deliver() for about, news in queue.items() if about not in later and news.is_unseen
        )
        if not lost:
            return notices
        told = Notice(
            kind="notices.lost",
            level="warning",
            message=f"{lost} older notices were dropped, {_MAX_QUEUED} are kept; `handles/list` shows all "
            "handles as they are.",
            at=at,
        )
        return (told, *notices)

    def forget(self, session: str) -> None:
        """The session is closed."""
        self._queues.pop(session, None)
        self._lost.pop(session, None)

    def _put(self, about: Hashable, news: _QueuedNotice) -> None:
        session = news.handle.session
        queue = self._queues.setdefault(session, {})
        queue.pop(about, None)
        if len(queue) >= _MAX_QUEUED:
            queue = self._queues[session] = self._evict(session, queue)
        queue[about] = news

    def _evict(
        self, session: str, queue: dict[Hashable, _QueuedNotice]
    ) -> dict[Hashable, _QueuedNotice]:
        """Drop what is no news any more, then the oldest, of what is critical at last."""
        kept = {about: news for about, news in queue.items() if news.is_unseen}
        excess = len(kept) - _MAX_QUEUED + 1
        if excess > 0:
            self._lost[session] = self._lost.get(session, 0) + excess
            by_weight = sorted(kept, key=lambda about: kept[about].level == "critical")
            for about in by_weight[:excess]:
                del kept[about]
        return kept


def _is_awaited(news: _QueuedNotice) -> bool:
    return (
        isinstance(news, _StateChange) and news.state is State.STOPPED and news.handle.awaited > 0
    )


def _read_offset(handle: Handle) -> float:
    """Up to where its session has read it."""
    return float("inf") if handle.end_shown else handle.mark


def _unread_count(handle: Handle) -> int:
    """Bytes that its session has neither read nor been told of."""
    if handle.end_shown:
        return 0
    return handle.readable_end() - max(handle.mark, handle.seen, handle.told)


def _wants(handle: Handle, kind: str) -> bool:
    match kind:
        case "tool.stopped":
            return handle.notify.on_success
        case "tool.failed":
            return handle.notify.on_failure
    return handle.notify.on_waiting


def _has_end_notice(handle: Handle) -> bool:
    """Whether its end was news by itself; then that is told, and no output besides."""
    if not handle.stopped:
        return False
    notice = notice_of(handle, 0.0)
    return notice is not None and _wants(handle, notice.kind)


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
