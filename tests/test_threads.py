"""CPU-bound work in a thread blocks the loop neither while running nor by its result."""

from __future__ import annotations

import gc
import threading

import pytest
import trio

from haftd.threads import run_in_thread


async def test_work_is_done_in_another_thread_and_returned() -> None:
    assert await run_in_thread(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0)


async def test_a_result_is_not_tracked_by_the_garbage_collector() -> None:
    made = await run_in_thread(lambda: {n: [n] for n in range(1000)})
    assert not any(item is made for item in gc.get_objects())


async def test_a_cancelled_caller_does_not_wait_for_the_thread() -> None:
    begun, done, over = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        done.wait(10)
        over.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_in_thread, work)
            await trio.to_thread.run_sync(begun.wait)
            nursery.cancel_scope.cancel()
        assert not over.is_set()
    finally:
        done.set()
