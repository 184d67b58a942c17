"""Waiting for handles: the one place where a call parks.

Rules: the condition is looked at synchronously whenever a handle changes, and the call is woken
only when it holds. A timer stands only for a bound that the caller gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import trio

from haftd.core.handles import Handle
from haftd.host import timer

T = TypeVar("T")


async def until(
    handles: Iterable[Handle],
    holds: Callable[[], T | None],
    *,
    deadline: float = float("inf"),
    look_again: Callable[[], float] | None = None,
) -> T | None:
    """Return what `holds` gives as soon as it is not None, or None at the deadline.

    `look_again` says when (trio's clock) `holds` may become true although nothing happens, as
    quiet does; it is asked again each time, and after every change: that may be sooner than it was.
    """
    found = holds()
    if found is not None:
        return found
    wait = _Wait(holds, deadline, look_again)
    watched = tuple(handles)
    for handle in watched:
        handle.listen_for_reply(wait.ring)
    try:
        return await wait.run()
    finally:
        for handle in watched:
            handle.unlisten_for_reply(wait.ring)


class _Wait(Generic[T]):
    """One call that waits; an object, since functions that know each other wait for the collector."""

    __slots__ = ("_bell", "_deadline", "_found", "_holds", "_look_again", "_over", "_timer")

    def __init__(
        self,
        holds: Callable[[], T | None],
        deadline: float,
        look_again: Callable[[], float] | None,
    ) -> None:
        self._holds = holds
        self._deadline = deadline
        self._look_again = look_again
        self._bell = trio.Event()
        self._timer = trio.CancelScope()
        self._found: T | None = None
        self._over = False

    def ring(self) -> None:
        """Something has changed, or may have."""
        if self._found is not None or self._over:
            return
        self._found = self._holds()
        if self._found is not None:
            self._bell.set()
        elif self._look_again is not None:
            when = self._due()
            # DeferredReply it may come to lie with every change; a timer that is early finds that out.
            self._timer.deadline = min(self._timer.deadline, when)
            self._be_rung_at(when)

    async def run(self) -> T | None:
        """See `until`."""
        try:
            while True:
                self._timer = trio.CancelScope(deadline=self._due())
                self._be_rung_at(self._timer.deadline)
                with self._timer:
                    await self._bell.wait()
                if self._found is None:
                    self._found = self._holds()
                if self._found is not None or trio.current_time() >= self._deadline:
                    return self._found
        finally:
            self._over = True

    def _due(self) -> float:
        return (
            self._deadline if self._look_again is None else min(self._deadline, self._look_again())
        )

    def _be_rung_at(self, when: float) -> None:
        left = when - trio.current_time()
        if left < timer.LOOP_RESOLUTION_S:
            timer.call_in(left, self.ring)
