"""Messages due to one subscribed connection, sent one at a time, sources in turns."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio

from haftd.caller import Caller
from haftd.client_requests import ClientRequests


class PushSource(Protocol):
    is_due: bool
    """Set by the queue: True from `add` until the source's turn, and after `discard` as it was."""

    def send_next(self) -> bool:
        """Send the next message, if any; return True if another may be due."""


class PushQueue:
    def __init__(self, client: ClientRequests) -> None:
        self._client = client
        self.scope = trio.CancelScope()
        self._due: deque[PushSource] = deque()
        self._later: dict[PushSource, float] = {}
        """When sources become due, by trio's clock."""
        self._sleeping = trio.lowlevel.ParkingLot()
        """`run`, while no source is due."""

    @property
    def caller(self) -> Caller:
        return self._client.caller

    def add(self, source: PushSource) -> None:
        """Queue a source; runs for every chunk of output."""
        if not source.is_due:
            source.is_due = True
            self._due.append(source)
            if self._sleeping:
                self._sleeping.unpark()

    def add_later(self, source: PushSource, at: float) -> None:
        """Queue a source at `at` by trio's clock, or at the earlier time that it has already.

        Called from `send_next` only: a sleeping `run` is not woken for a new time.
        """
        self._later[source] = min(at, self._later.get(source, at))

    def discard(self, source: PushSource) -> None:
        """Remove a closed source, for good."""
        self._later.pop(source, None)
        if source.is_due and source in self._due:
            self._due.remove(source)

    def send(self, method: str, params: object) -> bool:
        """Send a notification; return False, unsent, if the peer lags or is gone."""
        return self._client.notify(method, params)

    async def run(self) -> None:
        """Send due messages until cancelled or the connection is closed."""
        with self.scope:
            while True:
                while self._due:
                    if not await self._client.idle():
                        return  # the peer is gone
                    if self._due:  # the due source may have been discarded
                        self._send_next()
                    await trio.lowlevel.checkpoint()
                with trio.move_on_at(min(self._later.values(), default=float("inf"))):
                    await self._sleeping.park()
                now = trio.current_time()
                for source in [source for source, at in self._later.items() if at <= now]:
                    del self._later[source]
                    self.add(source)

    def _send_next(self) -> None:
        source = self._due.popleft()
        source.is_due = False
        if source.send_next():
            self.add(source)
