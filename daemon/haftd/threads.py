"""Worker threads for CPU-bound Python.

The work must not change data of the event loop. A long-lived result should be invisible to the
garbage collector: a collection blocks the loop for a millisecond per thousand objects.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Return the result of `work` from a thread; cancellation abandons the thread."""
    result = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    gc.freeze()
    return result
