"""Worker threads for CPU-bound Python, which must not touch data of the event loop."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Return the result of `work` from a thread; cancellation abandons the thread.

    The result is hidden from the garbage collector, which blocks the loop 1 ms per 1,000 objects.
    """
    result = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    gc.freeze()
    return result
