"""Short words for the steps of the public bug reports, mapped onto the protocol."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

FIXTURES = Path(__file__).with_name("fixtures")

_numbers = itertools.count()


class Desk:
    """A connection with its own session; the caller may name handles."""

    def __init__(self, daemon: RunningDaemon, wire: Wire, session: str) -> None:
        self.daemon = daemon
        self.wire = wire
        self.session = session

    def spawn(
        self,
        *argv: str,
        sh: str | None = None,
        pty: bool = False,
        as_: str | None = None,
        wait: str | None = None,
        **more: Any,
    ) -> str:
        """Start a command; returns the handle's id, the reply is in `last`."""
        name = as_ or f"h{next(_numbers)}"
        args: dict[str, Any] = {"argv": list(argv)} if sh is None else {"command": sh}
        if pty:
            args["terminal"] = True
        for key in ("timeout_s", "rows", "cols", "cwd"):
            if key in more:
                args[key] = more.pop(key)
        if "timeout_ms" not in more and wait == "stopped":
            more["timeout_ms"] = 20_000
        self.last: dict[str, Any] = self.wire.call(
            "spawn",
            session=self.session,
            tool="run",
            id=name,
            args=args,
            wait=wait or "none",
            **{"view": "tail", "max_bytes": 0} | more,
        )
        return name

    def fetch(self, handle: str, **more: Any) -> dict[str, Any]:
        return self._call("fetch", id=handle, **more)

    def done(self, handle: str, seconds: float = 10, **more: Any) -> dict[str, Any]:
        """Fetch until the handle has stopped."""
        state = self.fetch(handle, wait="stopped", timeout_ms=int(seconds * 1000), **more)
        assert state["state"] == "stopped", state
        return state

    def complete(self, handle: str) -> dict[str, Any]:
        """Wait until the output of a stopped handle is complete; return the state of then."""
        followed = self._call("subscribe", events=["state"], handles=[handle])
        state: dict[str, Any] = {}
        while not state.get("output_complete"):
            state = self.wire.told("handle/state")["params"]
        self._call("unsubscribe", subscription=followed["subscription"])
        return state

    def left_behind(self, handle: str, expected: list[str]) -> None:
        """Check the commands left behind, once those that a shell forked have executed theirs."""
        end = time.monotonic() + 20
        while True:
            found = [one["command"] for one in self.fetch(handle)["left_behind"]]
            if found == expected or time.monotonic() > end:
                assert found == expected
                return
            time.sleep(0.01)

    def apply(self, handle: str, value: Any, **more: Any) -> dict[str, Any]:
        return self._call("apply", id=handle, input=value, **more)

    def abort(self, handle: str, **more: Any) -> dict[str, Any]:
        return self._call("abort", id=handle, **more)

    def list(self) -> list[dict[str, Any]]:
        handles: list[dict[str, Any]] = self._call("handles/list")["handles"]
        return handles

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.wire.call(method, session=self.session, **params)
        return result


def text(state: dict[str, Any]) -> str:
    """Return the output text of a state, from any field."""
    shown: str = state["result"] if "result" in state else state["content"]
    return shown


@pytest.fixture
def desk(shared_daemon: RunningDaemon) -> Iterator[Desk]:
    """A desk at the module's daemon."""
    with shared_daemon.connect() as wire:
        one = Desk(shared_daemon, wire, f"case{next(_numbers)}")
        yield one
        one._call("session/close")


@pytest.fixture
def open_desk() -> Iterator[Callable[[RunningDaemon], Desk]]:
    """Open desks at daemons of the test's own."""
    wires: list[Wire] = []

    def make(daemon: RunningDaemon, session: str = "default") -> Desk:
        wires.append(daemon.connect())
        return Desk(daemon, wires[-1], session)

    yield make
    for wire in wires:
        wire.close()
