"""What takes Python long, done in a thread while the loop has its turns.

Rules: the work changes nothing that the loop reads. What it makes is kept for long, so no search for
garbage is to go through it: such a search holds everybody up, a millisecond for a thousand objects.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

import trio

__all__ = ["aside"]

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """Do the work in a thread; a cancellation leaves it to itself. Raises what it raises."""
    made = await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    gc.freeze()
    return made
