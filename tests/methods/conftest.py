"""A connection in a session of the test's own, at the module's daemon."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

_numbers = itertools.count()


class Room:
    """A session and a connection; `call` and `start` name the session."""

    def __init__(self, daemon: RunningDaemon, wire: Wire, session: str) -> None:
        self.daemon = daemon
        self.wire = wire
        self.session = session

    def call(self, method: str, **params: Any) -> Any:
        return self.wire.call(method, session=self.session, **params)

    def start(self, method: str, **params: Any) -> int:
        return self.wire.start(method, session=self.session, **params)

    def spawn(self, id: str, sh: str, **more: Any) -> dict[str, Any]:
        """Run a shell script; by default the reply comes once the script runs."""
        params = {"wait": "none", "view": "tail", "max_bytes": 0} | more
        args = {"argv": ["sh", "-c", sh]}
        state: dict[str, Any] = self.call("spawn", tool="run", id=id, args=args, **params)
        return state

    def pause(self) -> None:
        """Let the daemon send all available replies, by several pings."""
        for _ in range(5):
            self.wire.call("ping")
            self.wire.call("handles/list", session=self.session)

    def answered(self, number: int) -> bool:
        """Return true if the reply to a started request has arrived."""
        return any(message.get("id") == number for message in self.wire._kept)

    def cancel(self, number: int) -> None:
        self.wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})


@pytest.fixture
def room(shared_daemon: RunningDaemon) -> Iterator[Room]:
    """A session at the module's daemon, closed after the test."""
    with shared_daemon.connect() as wire:
        one = Room(shared_daemon, wire, f"v{next(_numbers)}")
        yield one
        with shared_daemon.connect() as other:
            other.call("session/close", session=one.session)


@pytest.fixture
def beside(room: Room) -> Iterator[Callable[[], Room]]:
    """Open more connections that use the test's session."""
    wires: list[Wire] = []

    def make() -> Room:
        wires.append(room.daemon.connect())
        return Room(room.daemon, wires[-1], room.session)

    yield make
    for wire in wires:
        wire.close()
