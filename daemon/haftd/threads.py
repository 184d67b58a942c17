"""Run CPU-bound Python in a worker thread.

Rules: the work changes nothing that the loop reads. Its result lives long, so the garbage collector must not
traverse it: a collection blocks the loop for a millisecond per thousand objects.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread and return its result; a cancelled caller abandons the thread. Raises what
    `work` raises."""
    result = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    gc.freeze()
    return result
