"""A connection to a provider's server after cancellation."""

from __future__ import annotations

import gc
import inspect

import httpx
import pytest
import trio
import trio.testing

from haftd.inquiries.llm.sender import Transport


@pytest.mark.parametrize("size", [10, 1 << 25])
async def test_a_cancelled_request_leaves_no_generator_for_the_collector(size: int) -> None:
    """A request still being sent (no server takes so much unread), and an unanswered one."""
    before = {id(item) for item in gc.get_objects() if inspect.isasyncgen(item)}
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
    async with listener, httpx.AsyncClient(transport=Transport(False)) as client:
        gc.disable()  # the hook would hide its finds
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: client.post(url, content=bytes(size), timeout=None))
                async with await listener.accept():
                    await trio.testing.wait_all_tasks_blocked(0.05)
                    nursery.cancel_scope.cancel()
            left = [
                item
                for item in gc.get_objects()
                if inspect.isasyncgen(item) and id(item) not in before
            ]
        finally:
            gc.enable()
    assert left == []
