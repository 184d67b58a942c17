"""One connection that is told of something: what is due to it, in turns.

Rules: a message at a time, and the next only when the last has left, so that a reply is never behind
more than one of them. Each gets its turn: one that floods does not keep the others silent.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio

from haftd.client_requests import ClientRequests

__all__ = ["Reader", "Sender"]


class Sender(Protocol):
    """What has something to say to a reader, now and then."""

    is_due: bool
    """Whether it stands in the line; the reader's to change."""

    def send(self) -> bool:
        """Send the next message, if there is one; whether another may be due."""


class Reader:
    """One connection that is told of something: what is due to it, in turns."""

    def __init__(self, client: ClientRequests) -> None:
        self._client = client
        self.scope = trio.CancelScope()
        self._due: deque[Sender] = deque()
        self._later: dict[Sender, float] = {}
        self._bell = trio.lowlevel.ParkingLot()

    def add(self, one: Sender) -> None:
        """There is something to send. Called for every chunk of a tool's output."""
        if not one.is_due:
            one.is_due = True
            self._due.append(one)
            if self._bell:
                self._bell.unpark()

    def add_later(self, one: Sender, at: float) -> None:
        """There is something to send from this time on."""
        self._later[one] = at

    def forget(self, one: Sender) -> None:
        """It sends nothing more."""
        self._later.pop(one, None)
        if one.is_due and one in self._due:
            self._due.remove(one)

    def say(self, method: str, params: object) -> bool:
        """Send a message now; whether it was."""
        return self._client.notify(method, params)

    async def run(self) -> None:
        """Send what is due, until cancelled or the peer is read no more."""
        with self.scope:
            while True:
                while self._due:
                    if not await self._client.idle():
                        return
                    if self._due:  # what was due may have been forgotten meanwhile
                        self._send_one()
                    await trio.lowlevel.checkpoint()
                with trio.move_on_at(min(self._later.values(), default=float("inf"))):
                    await self._bell.park()
                now = trio.current_time()
                for one in [one for one, at in self._later.items() if at <= now]:
                    del self._later[one]
                    self.add(one)

    def _send_one(self) -> None:
        one = self._due.popleft()
        one.is_due = False
        if one.send():
            self.add(one)
