"""Waiting for handles: the one place where a call blocks. A handle's changes evaluate the
condition; only a true one wakes the call."""

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
    is_reader: bool = True,
) -> T | None:
    """Return the first value of `holds` other than None, or None at the deadline.

    `look_again` returns the time (trio's clock) of the next evaluation without an event. A session
    reader's reply reports the end, in place of a notice.
    """
    value = holds()
    if value is not None:
        return value
    wait = _Wait(holds, deadline, look_again)
    watched = tuple(handles)
    for handle in watched:
        (handle.listen_for_reply if is_reader else handle.listen)(wait.ring)
    try:
        return await wait.run()
    finally:
        for handle in watched:
            (handle.unlisten_for_reply if is_reader else handle.unlisten)(wait.ring)


class _Wait(Generic[T]):
    """Waiting call; closures would be a cycle, left to the garbage collector."""

    __slots__ = ("_bell", "_deadline", "_holds", "_look_again", "_over", "_timer", "_value")

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
        self._value: T | None = None
        self._over = False

    def ring(self) -> None:
        if self._value is not None or self._over:
            return
        self._value = self._holds()
        if self._value is not None:
            self._bell.set()
        elif self._look_again is not None:
            when = self._look_again()
            # The time may move later; an early timer finds that out.
            if when < self._deadline:
                if when < self._timer.deadline:
                    self._timer.deadline = when
                self._be_rung_at(when)

    async def run(self) -> T | None:
        try:
            while True:
                self._timer = trio.CancelScope(deadline=self._due())
                self._be_rung_at(self._timer.deadline)
                with self._timer:
                    await self._bell.wait()
                if self._value is None:
                    self._value = self._holds()
                if self._value is not None or trio.current_time() >= self._deadline:
                    return self._value
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
