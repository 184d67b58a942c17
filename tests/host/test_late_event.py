"""`LateEvent` is as `trio.Event`."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from haftd.host.readiness import LateEvent
from tests.patience import PATIENCE_S


async def test_all_waiting_tasks_go_on_once_the_event_is_set() -> None:
    event, woken = LateEvent(), list[int]()

    async def wait(number: int) -> None:
        await event.wait()
        woken.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, 1)
        nursery.start_soon(wait, 2)
        await wait_all_tasks_blocked()
        assert not woken and not event.is_set()
        event.set()
    assert sorted(woken) == [1, 2]


async def test_an_event_that_is_set_holds_no_task_up() -> None:
    event = LateEvent()
    event.set()
    with trio.fail_after(PATIENCE_S):
        await event.wait()
    assert event.is_set()
