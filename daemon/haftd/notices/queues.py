"""Per-session queues of undelivered notices.

A notice is delivered once, and dropped if the session meanwhile reads the handle. Each handle and
pattern has one growing notice. Lost notices (oldest first, critical last) are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable
from typing import Protocol

import msgspec

from haft_protocol.errors import describe_rejection
from haft_protocol.states import Notice
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.termination import failure_of
from haftd.core.views import last_lines
from haftd.notice_settings import Level

from .pattern_scanner import PatternMatches

_MAX_QUEUED = 256
"""Notices of one session; beyond, the oldest are lost and counted."""
_MAX_LINE_CHARS = 200
"""Characters of the last line in a notice of output."""


class _QueuedNotice(Protocol):
    @property
    def is_unseen(self) -> bool:
        """True until the session has seen this news."""

    def deliver(self) -> Notice:
        """Return the notice as of now."""


class _StateChange(msgspec.Struct, frozen=True):
    handle: Handle
    state: State
    asked: int
    notice: Notice

    @property
    def is_unseen(self) -> bool:
        if self.state is State.STOPPED:
            return not self.handle.position.is_end_shown
        is_asked_now = (
            self.handle.state is State.WAITING and self.handle.question_count == self.asked
        )
        return is_asked_now and self.handle.position.question < self.asked

    def deliver(self) -> Notice:
        return self.notice


class _MatchedOutput(msgspec.Struct):
    handle: Handle
    matches: PatternMatches
    at: float

    @property
    def is_unseen(self) -> bool:
        return self.matches.end > _read_offset(self.handle)

    def deliver(self) -> Notice:
        return self.matches.make_notice(self.handle, _read_offset(self.handle), self.at)


class _UnreadOutput(msgspec.Struct, frozen=True):
    """Unread output, described at delivery."""

    handle: Handle
    at: float

    @property
    def is_unseen(self) -> bool:
        return _count_unread(self.handle) > 0 and not _has_end_notice(self.handle)

    def deliver(self) -> Notice:
        notice = self.make_notice()
        self.handle.notify_output()
        return notice

    def make_notice(self) -> Notice:
        handle, count = self.handle, _count_unread(self.handle)
        lines = last_lines(handle, 1, _MAX_LINE_CHARS)
        ends = f"; the last line is: {lines[0]}" if lines else "."
        return Notice(
            kind="tool.content",
            level="info",
            message=f"`{handle.id}` ({handle.tool}) has printed {count} unread bytes{ends}",
            at=self.at,
            id=handle.id,
            lines=lines,
        )


class _Event(msgspec.Struct, frozen=True):
    notice: Notice

    @property
    def is_unseen(self) -> bool:
        return True

    def deliver(self) -> Notice:
        return self.notice


def _has_none(handle: Handle) -> bool:
    return False


class NoticeQueues:
    __slots__ = ("_lost", "_queues")

    def __init__(self) -> None:
        self._queues: dict[str, dict[Hashable, _QueuedNotice]] = {}
        """Entries by subject, oldest first."""
        self._lost: dict[str, int] = {}

    def add_state_change(self, handle: Handle, at: float) -> Notice | None:
        """Queue and return the notice of a new state, `at` seconds since the epoch; None if
        unwanted."""
        notice = make_notice(handle, at)
        if notice is None or not _wants(handle, notice.kind):
            return None
        key = (handle, handle.state, handle.question_count)
        self._put(
            handle.session, key, _StateChange(handle, handle.state, handle.question_count, notice)
        )
        return notice

    def add_matches(self, handle: Handle, matches: PatternMatches, at: float) -> Notice | None:
        """Queue matches, merged with unseen earlier matches; return their own notice, None if
        already read."""
        read = _read_offset(handle)
        if matches.end <= read:
            return None
        key = (handle, matches.pattern.name)
        queued = self._queues.get(handle.session, {}).get(key)
        notice = matches.make_notice(handle, read, at)
        if isinstance(queued, _MatchedOutput) and queued.is_unseen:
            queued.matches.merge(matches)
            queued.at = at
        else:
            self._put(handle.session, key, _MatchedOutput(handle, matches, at))
        return notice

    def add_output(self, handle: Handle, at: float) -> Notice | None:
        """Queue and return a notice of unread output; None if queued already or all is read."""
        key = (handle, None)
        output = _UnreadOutput(handle, at)
        if key in self._queues.get(handle.session, {}) or not output.is_unseen:
            return None
        notice = output.make_notice()
        self._put(handle.session, key, output)
        return notice

    def add_event(self, session: str, notice: Notice) -> None:
        """Queue a notice without a handle, once per kind and message."""
        self._put(session, (notice.kind, notice.message), _Event(notice))

    def drain(
        self, session: str, at: float, has_question: Callable[[Handle], bool] = _has_none
    ) -> tuple[Notice, ...]:
        """Take the session's unseen notices, oldest first, behind a notice of those lost. The end of a
        handle that a call awaits stays queued, as the call may report it; so does the question of a
        handle while `has_question` is true: the connection that takes the notices is being asked it.
        """
        queue = self._queues.pop(session, {})
        lost = self._lost.pop(session, 0)
        later = {key: entry for key, entry in queue.items() if _is_reported(entry, has_question)}
        if later:
            self._queues[session] = later
        notices = tuple(
            entry.deliver() for key, entry in queue.items() if key not in later and entry.is_unseen
        )
        if not lost:
            return notices
        loss = Notice(
            kind="notices.lost",
            level="warning",
            message=f"{lost} older notices were dropped ({_MAX_QUEUED} are kept); `handles/list` shows all "
            "handles as they are.",
            at=at,
        )
        return (loss, *notices)

    def forget(self, session: str) -> None:
        """Drop the notices of a closed session."""
        self._queues.pop(session, None)
        self._lost.pop(session, None)

    def _put(self, session: str, key: Hashable, entry: _QueuedNotice) -> None:
        queue = self._queues.setdefault(session, {})
        queue.pop(key, None)
        if len(queue) >= _MAX_QUEUED:
            queue = self._queues[session] = self._evict(session, queue)
        queue[key] = entry

    def _evict(
        self, session: str, queue: dict[Hashable, _QueuedNotice]
    ) -> dict[Hashable, _QueuedNotice]:
        """Drop seen notices, and if that makes no room the oldest, critical ones last; return the rest."""
        kept = {key: entry for key, entry in queue.items() if entry.is_unseen}
        excess = len(kept) - _MAX_QUEUED + 1
        if excess > 0:
            self._lost[session] = self._lost.get(session, 0) + excess
            for key in sorted(kept, key=lambda key: _is_critical(kept[key]))[:excess]:
                del kept[key]
        return kept


def _is_critical(entry: _QueuedNotice) -> bool:
    return isinstance(entry, _MatchedOutput) and entry.matches.pattern.level == "critical"


def _is_reported(entry: _QueuedNotice, has_question: Callable[[Handle], bool]) -> bool:
    """True if the news reaches the client otherwise: as a call's reply, or as an inquiry."""
    if not isinstance(entry, _StateChange):
        return False
    handle = entry.handle
    return handle.is_awaited if entry.state is State.STOPPED else has_question(handle)


def _read_offset(handle: Handle) -> float:
    """Return the end of the output that the session has read; infinite once the end was shown."""
    return float("inf") if handle.position.is_end_shown else handle.position.offset


def _count_unread(handle: Handle) -> int:
    position = handle.position
    if position.is_end_shown:
        return 0
    return handle.readable_end() - max(position.offset, position.viewed, position.notified)


def _wants(handle: Handle, kind: str) -> bool:
    match kind:
        case "tool.stopped":
            return handle.settings.notify.on_success
        case "tool.failed":
            return handle.settings.notify.on_failure
    return handle.settings.notify.on_waiting


def _has_end_notice(handle: Handle) -> bool:
    """True if a notice of the output is redundant beside the notice of the end."""
    if not handle.stopped:
        return False
    notice = make_notice(handle, 0.0)
    return notice is not None and _wants(handle, notice.kind)


def make_notice(handle: Handle, at: float) -> Notice | None:
    """Return the notice of a handle's question or end; None in other states."""
    level: Level
    if handle.state is State.WAITING and handle.question is not None:
        kind, level, news = (
            "tool.waiting",
            "warning",
            f"waits for an answer: {handle.question.text}",
        )
    elif (termination := handle.termination) is None:
        return None
    elif (error := failure_of(termination)) is None:
        kind, level, news = "tool.stopped", "info", "has ended and succeeded."
    elif handle.rejection is not None:
        kind, level, news = "tool.failed", "error", describe_rejection(error.message)
    else:
        kind, level, news = "tool.failed", "error", f"has failed: {error.message}"
    message = f"`{handle.id}` ({handle.tool}) {news}"
    return Notice(kind=kind, level=level, message=message, at=at, id=handle.id)


class NoticeDelivery(msgspec.Struct, frozen=True):
    """Delivery of new notices."""

    queues: NoticeQueues
    push: Callable[[str, Notice], None]
    """Called with the session and the notice."""

    def deliver_state_change(self, handle: Handle) -> None:
        """Deliver a handle's question or end, if its settings want the notice."""
        self._push(handle, self.queues.add_state_change(handle, time.time()))

    def deliver_output(self, handle: Handle, matches: Collection[PatternMatches]) -> None:
        """Deliver notices of new output, one a pattern, and one for any output."""
        now = time.time()
        notices = [self.queues.add_matches(handle, match, now) for match in matches]
        if handle.settings.notify.on_content:
            notices.append(self.queues.add_output(handle, now))
        for notice in notices:
            self._push(handle, notice)

    def _push(self, handle: Handle, notice: Notice | None) -> None:
        if notice is not None:
            self.push(handle.session, notice)
