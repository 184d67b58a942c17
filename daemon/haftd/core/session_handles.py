"""Handles of one session, and the choice of those to evict.

A stopped handle stays until read and its retention is over, a transient one some seconds after its
last output; above the limits the oldest go, read handles first. Handles with processes stay: no
other handle could end these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from .handles import CallKey, Handle

_MIN_RETENTION_AFTER_READ_S = 5.0
"""Retention after the first read, for a repeat after a lost reply; also the retention of a transient
handle that is not read."""


class SessionHandles:
    __slots__ = ("by_id", "calls", "live_count", "stopped", "transient")

    def __init__(self) -> None:
        self.by_id: dict[str, Handle] = {}
        """Newest handle of each id."""
        self.live_count = 0
        self.stopped: dict[Handle, None] = {}
        """In the order of their stops."""
        self.transient: set[Handle] = set()
        """Stopped handles that expire without a read."""
        self.calls: dict[CallKey, Handle] = {}
        """Handles by creating call, if that has an id."""

    def add_stopped(self, handle: Handle) -> None:
        self.by_id[handle.id] = handle
        self.note_stopped(handle)
        if handle.call is not None:
            self.calls.setdefault(handle.call, handle)

    def note_stopped(self, handle: Handle) -> None:
        self.stopped[handle] = None
        if handle.settings.is_transient:
            self.transient.add(handle)

    def remove(self, handle: Handle) -> None:
        del self.by_id[handle.id]
        self.forget_stopped(handle)
        self.forget_call(handle)

    def forget_stopped(self, handle: Handle) -> None:
        del self.stopped[handle]
        self.transient.discard(handle)

    def forget_call(self, handle: Handle) -> None:
        """Let a repeated call create a new handle."""
        if handle.call is not None and self.calls.get(handle.call) is handle:
            del self.calls[handle.call]

    def has_evictable(self, *, is_open: bool = False) -> bool:
        return any(
            not handle.is_left_running and (handle.spool.is_open or not is_open)
            for handle in self.stopped
        )

    def expired(self, now: float, retain_s: float) -> list[Handle]:
        gone = [handle for handle in self.transient if _is_due(handle, now, retain_s)]
        for handle in self.stopped:
            if handle.stopped_at is not None and handle.stopped_at + retain_s > now:
                break  # and all that stopped later
            if handle not in self.transient and _is_due(handle, now, retain_s):
                gone.append(handle)
        return gone

    def next_expiry(self, retain_s: float) -> float | None:
        """Return the time of the first expiry."""
        earliest: float | None = None
        for handle in itertools.chain(self.transient, self.stopped):
            if handle not in self.transient and earliest is not None:
                stopped_at = handle.stopped_at
                if stopped_at is not None and stopped_at + retain_s >= earliest:
                    break  # and all that stopped later
            when = expires_at(handle, retain_s)
            if when is not None and (earliest is None or when < earliest):
                earliest = when
        return earliest


def _is_due(handle: Handle, now: float, retain_s: float) -> bool:
    when = expires_at(handle, retain_s)
    return when is not None and when <= now


def expires_at(handle: Handle, retain_s: float) -> float | None:
    """Return the time of expiry; None for a live or unread handle."""
    if handle.settings.is_transient and handle.stopped_at is not None:
        is_over = handle.output_complete and not handle.is_left_running and not handle.is_followed
        kept_s = min(retain_s, _MIN_RETENTION_AFTER_READ_S)
        return handle.last_activity + kept_s if is_over else None
    read_at = handle.position.end_read_at
    if read_at is None or handle.stopped_at is None or handle.is_left_running:
        return None
    return max(handle.stopped_at + retain_s, read_at + min(retain_s, _MIN_RETENTION_AFTER_READ_S))


def choose_evicted(stopped: Iterable[Handle], count: int) -> list[Handle]:
    """Return the `count` handles to evict; `stopped` begins with the longest stopped."""
    if count <= 0:
        return []
    read: list[Handle] = []
    unread: list[Handle] = []
    for handle in stopped:
        if handle.is_left_running:
            continue
        (unread if handle.position.end_read_at is None else read).append(handle)
        if len(read) == count:
            break
    return (read + unread)[:count]
