"""Outbox: a connection's only writer, an ordered and bounded queue.

Replies are never dropped; a peer that stops reading ends the connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from .connection_tasks import ConnectionTasks
from .wire import Disconnected, Wire

LOW = 256 * 1024
_NO_FRAMES: deque[bytes | memoryview] = deque()
"""The queue while the peer takes every message immediately: an empty deque takes 0.7 KiB."""


class Outbox:
    """Output queue of one peer; `on_gone` is called once, when the peer is unreachable."""

    def __init__(
        self,
        wire: Wire,
        tasks: ConnectionTasks | trio.Nursery,
        bound: int,
        on_gone: Callable[[str], None],
    ) -> None:
        self.queued = 0
        self._wire = wire
        self._tasks = tasks
        self._bound = bound
        self._low = min(LOW, bound // 2)
        self._on_gone = on_gone
        self._queue = _NO_FRAMES
        self._writing = False
        self._drained: trio.lowlevel.ParkingLot | None = None

    def send(self, frames: bytes) -> None:
        """Write the frames, or queue the rest; never waits, never raises."""
        left: bytes | memoryview = frames
        if not self._writing:
            try:
                done = self._wire.write(frames)
            except Disconnected as why:
                self._on_gone(str(why))
                return
            if done == len(frames):
                return
            left = memoryview(frames)[done:]
        elif self.queued > self._bound:
            self._on_gone(f"more than {self._bound} bytes (`max_queued`) wait for it to read")
            return
        if self._queue is _NO_FRAMES:
            self._queue = deque()
        self._queue.append(left)
        self.queued += len(left)
        if not self._writing:
            self._writing = True
            self._tasks.start_soon(self._write)

    @property
    def has_room(self) -> bool:
        return self.queued <= self._low

    async def room(self) -> None:
        """Wait for the low-water mark; no checkpoint below."""
        while self.queued > self._low:
            await self._wait()

    async def empty(self) -> None:
        while self._writing:
            await self._wait()

    async def _wait(self) -> None:
        if self._drained is None:
            self._drained = trio.lowlevel.ParkingLot()
        await self._drained.park()

    def _wake(self) -> None:
        if self._drained is not None:
            self._drained.unpark_all()

    async def idle(self) -> None:
        """Wait until all output is written and mostly read, so that optional output delays no reply."""
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
                    self._wake()
        except Disconnected as why:
            self._on_gone(str(why))
            return
        self._writing = False
        self._wake()
