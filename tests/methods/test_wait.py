"""Waiting calls on a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import trio
import trio.testing

from haftd.methods.wait import until


class Bell:
    """A handle that changes when `ring` is called."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[], object]] = []
        self.listen_for_reply = self.listeners.append
        self.unlisten_for_reply = self.listeners.remove

    def ring(self) -> None:
        for listener in tuple(self.listeners):
            listener()


def test_a_condition_is_awaited_until_it_holds() -> None:
    async def main() -> tuple[int, int]:
        bell = Bell()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until, (cast(Any, bell),), lambda: None)
            await trio.testing.wait_all_tasks_blocked()
            during = len(bell.listeners)
            nursery.cancel_scope.cancel()
        return during, len(bell.listeners)

    assert trio.run(main) == (1, 0)


def test_a_change_brings_the_next_look_forward() -> None:
    """A program had long been inspected in vain; soon after its output comes another look."""

    async def main() -> tuple[float, list[Any]]:
        bell, due = Bell(), [100.0]
        began = trio.current_time()

        def holds() -> float | None:
            after = trio.current_time() - began
            return after if after >= due[0] else None

        async with trio.open_nursery() as nursery:

            async def change() -> None:
                await trio.sleep(10)
                due[0] = 11.0
                bell.ring()

            nursery.start_soon(change)
            found = await until(
                (cast(Any, bell),), holds, deadline=began + 200, look_again=lambda: began + due[0]
            )
        assert found is not None
        return found, bell.listeners

    after, listeners = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert 11.0 <= after < 11.1
    assert not listeners
