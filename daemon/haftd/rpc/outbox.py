"""The only way out of a connection: in order, bounded, and at once when nothing is queued.

Rules: a reply is never dropped. Who produces replies waits for `room` first, so the queue stays near
its low-water mark; a peer that takes nothing ends its connection (the wire's deadline), and so does a
queue that passes its bound all the same. A writer task exists only while something is queued.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from .wire import Gone, Wire

LOW = 256 * 1024


class Outbox:
    """What is on its way to one peer. `on_gone` is called once, when it cannot be reached."""

    def __init__(
        self, wire: Wire, nursery: trio.Nursery, bound: int, on_gone: Callable[[str], None]
    ) -> None:
        self.queued = 0
        self._wire = wire
        self._nursery = nursery
        self._bound = bound
        self._low = min(LOW, bound // 2)
        self._on_gone = on_gone
        self._queue: deque[bytes | memoryview] = deque()
        self._writing = False
        self._drained = trio.lowlevel.ParkingLot()

    def send(self, frames: bytes) -> None:
        """Write the frames, or queue what is left of them; never waits and never raises."""
        left: bytes | memoryview = frames
        if not self._writing:
            try:
                done = self._wire.write(frames)
            except Gone as why:
                self._on_gone(str(why))
                return
            if done == len(frames):
                return
            left = memoryview(frames)[done:]
        elif self.queued > self._bound:
            self._on_gone(f"more than {self._bound} bytes (`max_queued`) wait for it to read")
            return
        self._queue.append(left)
        self.queued += len(left)
        if not self._writing:
            self._writing = True
            self._nursery.start_soon(self._write)

    @property
    def has_room(self) -> bool:
        """Whether a producer of replies may go on."""
        return self.queued <= self._low

    async def room(self) -> None:
        """Wait until little enough is queued to produce more; no checkpoint when it is."""
        while self.queued > self._low:
            await self._drained.park()

    async def empty(self) -> None:
        """Wait until everything is written."""
        while self._writing:
            await self._drained.park()

    async def idle(self) -> None:
        """Wait until everything is written and most of it read: then what may wait as well as not
        neither holds up a reply nor counts as not taken."""
        while True:
            await self.empty()
            await self._wire.writable()
            if not self._writing:
                return

    async def _write(self) -> None:
        queue = self._queue
        try:
            while queue:
                data = queue[0]
                done = await self._wire.send(data)
                self.queued -= done
                if done == len(data):
                    queue.popleft()
                else:
                    queue[0] = memoryview(data)[done:]
                if self.queued <= self._low:
                    self._drained.unpark_all()
        except Gone as why:
            self._on_gone(str(why))
            return
        self._writing = False
        self._drained.unpark_all()
