"""Messages due to one subscribed connection, sent one at a time, sources in turns."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio

from haftd.caller import Caller
from haftd.client_requests import ClientRequests


class PushSource(Protocol):
    is_due: bool
    """True while queued; set by the queue."""

    def send_next(self) -> bool:
        """Send the next message, if any; return True if another may be due."""


class PushQueue:
    def __init__(self, client: ClientRequests) -> None:
        self._client = client
        self.scope = trio.CancelScope()
        self._due: deque[PushSource] = deque()
        self._later: dict[PushSource, float] = {}
        self._idle = trio.lowlevel.ParkingLot()

    @property
    def caller(self) -> Caller:
        return self._client.caller

    def add(self, source: PushSource) -> None:
        """Queue a source; runs for every chunk of output."""
        if not source.is_due:
            source.is_due = True
            self._due.append(source)
            if self._idle:
                self._idle.unpark()

    def add_later(self, source: PushSource, at: float) -> None:
        """Queue a source at time `at`, or at an earlier time of its own."""
        self._later[source] = min(at, self._later.get(source, at))

    def discard(self, source: PushSource) -> None:
        self._later.pop(source, None)
        if source.is_due and source in self._due:
            self._due.remove(source)

    def send(self, method: str, params: object) -> bool:
        return self._client.notify(method, params)

    async def run(self) -> None:
        """Send due messages until cancelled or the peer stops reading."""
        with self.scope:
            while True:
                while self._due:
                    if not await self._client.idle():
                        return
                    if self._due:  # the due source may have been discarded
                        self._send_next()
                    await trio.lowlevel.checkpoint()
                with trio.move_on_at(min(self._later.values(), default=float("inf"))):
                    await self._idle.park()
                now = trio.current_time()
                for source in [source for source, at in self._later.items() if at <= now]:
                    del self._later[source]
                    self.add(source)

    def _send_next(self) -> None:
        source = self._due.popleft()
        source.is_due = False
        if source.send_next():
            self.add(source)
