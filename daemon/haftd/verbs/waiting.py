"""Waiting for handles: the one place where a call parks.

Rules: the condition is looked at synchronously whenever a handle changes, and the call is woken
only when it holds. A timer stands only for a bound that the caller gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import trio

from haftd.core.handles import Handle
from haftd.host import alarm

__all__ = ["until"]

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
    bell = trio.Event()
    timer = trio.CancelScope()
    over = False

    def due() -> float:
        return deadline if look_again is None else min(deadline, look_again())

    def ring() -> None:
        nonlocal found
        if found is not None or over:
            return
        found = holds()
        if found is not None:
            bell.set()
        elif look_again is not None:
            when = due()
            # Later it may come to lie with every change; a timer that is early finds that out.
            timer.deadline = min(timer.deadline, when)
            be_rung_at(when)

    def be_rung_at(when: float) -> None:
        left = when - trio.current_time()
        if left < alarm.COARSE_S:
            alarm.ring_in(left, ring)

    watched = tuple(handles)
    for handle in watched:
        handle.listen(ring)
        handle.awaited += 1
    try:
        while True:
            timer = trio.CancelScope(deadline=due())
            be_rung_at(timer.deadline)
            with timer:
                await bell.wait()
            if found is None:
                found = holds()
            if found is not None or trio.current_time() >= deadline:
                return found
    finally:
        over = True
        for handle in watched:
            handle.unlisten(ring)
            handle.awaited -= 1
