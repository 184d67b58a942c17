"""CPU-bound work in a thread blocks the loop neither while it runs nor by its result."""

from __future__ import annotations

import gc
import threading

import pytest
import trio

from haftd.threads import run_in_thread


async def test_the_work_is_done_in_another_thread_and_comes_back() -> None:
    assert await run_in_thread(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await run_in_thread(lambda: 1 // 0)


async def test_what_was_made_is_no_matter_of_the_search_for_garbage() -> None:
    try:
        made = await run_in_thread(lambda: {n: [n] for n in range(1000)})
        assert not any(one is made for one in gc.get_objects())
    finally:
        gc.unfreeze()


async def test_who_is_cancelled_does_not_wait_for_it() -> None:
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
