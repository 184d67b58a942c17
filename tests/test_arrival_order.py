"""Tasks that wait for one event go on in the order of their arrival."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from haftd.arrival_order import ArrivalOrder


async def test_tasks_go_on_in_the_order_of_their_arrival_and_cancelled_tasks_hold_none_up() -> None:
    for turn in range(12):  # a pass of the loop runs its tasks in either order, at random
        order, event, gone_on = ArrivalOrder(), trio.Event(), list[int]()
        scopes = [trio.CancelScope() for _ in range(6)]

        async def wait(
            n: int,
            order: ArrivalOrder = order,
            event: trio.Event = event,
            gone_on: list[int] = gone_on,
            scopes: list[trio.CancelScope] = scopes,
        ) -> None:
            with scopes[n], order.place() as place:
                await event.wait()
                await place.wait_first()
                gone_on.append(n)

        async with trio.open_nursery() as nursery:
            for n in range(6):
                nursery.start_soon(wait, n)
                await wait_all_tasks_blocked()
            scopes[0].cancel()
            scopes[3].cancel()
            if turn % 2:
                await wait_all_tasks_blocked()
            event.set()
        assert gone_on == [1, 2, 4, 5] and not order


async def test_a_task_alone_goes_on_at_once() -> None:
    order = ArrivalOrder()
    with order.place() as place, trio.CancelScope() as scope:
        scope.cancel()  # a checkpoint would raise
        await place.wait_first()
    assert not scope.cancelled_caught and not order
