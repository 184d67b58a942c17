"""One session's handles, and which of the stopped ones may go.

Rules: a stopped handle stays until its end was read and its time is over; when there are too many,
the oldest go, those that were read first. A live handle never goes, nor one of which something may
still run: who else could end that? Section 4.
"""

from __future__ import annotations

from collections.abc import Iterable

from .handles import CallKey, Handle

__all__ = ["SessionHandles", "choose_evicted", "expires_at"]

_MIN_RETENTION_AFTER_READ_S = 5.0
"""A result first read late stays this long, so that a reader whose reply got lost can ask again."""


class SessionHandles:
    """The handles of one session; counting them over all sessions is the registry's."""

    __slots__ = ("calls", "handles", "live_count", "stopped")

    def __init__(self) -> None:
        self.handles: dict[str, Handle] = {}
        """The newest handle of each id."""
        self.live_count = 0
        """How many of them are not stopped."""
        self.stopped: dict[Handle, None] = {}
        """Those that are, in the order in which they stopped."""
        self.calls: dict[CallKey, Handle] = {}
        """By the call that made it, where that had an id."""

    def add_stopped(self, handle: Handle) -> None:
        """Take in a stopped handle."""
        self.handles[handle.id] = handle
        self.stopped[handle] = None
        if handle.call is not None:
            self.calls.setdefault(handle.call, handle)

    def remove(self, handle: Handle) -> None:
        """Take out a stopped handle."""
        del self.handles[handle.id]
        del self.stopped[handle]
        self.forget_call(handle)

    def forget_call(self, handle: Handle) -> None:
        """A repeated call no longer finds `handle`."""
        if handle.call is not None and self.calls.get(handle.call) is handle:
            del self.calls[handle.call]

    def has_evictable(self, *, is_open: bool = False) -> bool:
        """Whether there is a stopped one that could go, or whose file could."""
        return any(
            not handle.held and (handle.spool.is_open or not is_open) for handle in self.stopped
        )

    def expired(self, now: float, retain_s: float) -> list[Handle]:
        """Return those whose time is over."""
        gone = []
        for handle in self.stopped:
            if handle.stopped_at is not None and handle.stopped_at + retain_s > now:
                break
            when = expires_at(handle, retain_s)
            if when is not None and when <= now:
                gone.append(handle)
        return gone


def expires_at(handle: Handle, retain_s: float) -> float | None:
    """Return when a handle may go, None while it lives or nobody has read its end."""
    if handle.read_at is None or handle.stopped_at is None or handle.held:
        return None
    return max(
        handle.stopped_at + retain_s, handle.read_at + min(retain_s, _MIN_RETENTION_AFTER_READ_S)
    )


def choose_evicted(stopped: Iterable[Handle], count: int) -> list[Handle]:
    """Choose `count` handles to let go; `stopped` has the longest stopped first."""
    read: list[Handle] = []
    unread: list[Handle] = []
    for handle in stopped:
        if handle.held:
            continue
        (unread if handle.read_at is None else read).append(handle)
    return (read + unread)[:count]
