"""Order of tasks that wait for the same event: they continue in the order of their arrival.

trio wakes the tasks of an event in any order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Place:
    """Place of a task in an `ArrivalOrder`."""

    def __init__(self, places: deque[Place]) -> None:
        self._places = places
        self._is_first = trio.Event()
        self.has_left = False

    async def wait_first(self) -> None:
        """Wait until all that came before have left; without a checkpoint if they have."""
        if self._places[0] is not self:
            await self._is_first.wait()

    def leave(self) -> None:
        """Let the next task continue; a second call has no effect."""
        if self.has_left:
            return
        self.has_left = True
        was_first = self._places[0] is self
        self._places.remove(self)
        if was_first and self._places:
            self._places[0]._is_first.set()


class ArrivalOrder:
    """Tasks that wait, in the order of their arrival."""

    def __init__(self) -> None:
        self._places: deque[Place] = deque()

    def __bool__(self) -> bool:
        return bool(self._places)

    @contextmanager
    def place(self) -> Iterator[Place]:
        """Take the last place, and leave it at the end or before."""
        place = Place(self._places)
        self._places.append(place)
        try:
            yield place
        finally:
            place.leave()
