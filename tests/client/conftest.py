"""Fixtures of the clients' tests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.fake import FakeDaemon, Peer, hello
from tests.client.person import Place
from tests.running_daemon import RunningDaemon

_numbers = itertools.count(1)

Serve = Callable[..., FakeDaemon]


@pytest.fixture
def serve(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start fake daemons that `HAFT_SOCKET` leads to; `initialize` and `ping` answer themselves."""
    daemons: list[FakeDaemon] = []
    monkeypatch.delenv("HAFT_SESSION", raising=False)
    monkeypatch.setenv("HAFT_SOCKET", str(short_tmp / "s"))
    monkeypatch.setenv("XDG_STATE_HOME", str(short_tmp / "state"))

    def start(answer: Callable[[dict[str, Any], Peer], Any], started_at: float = 1.0) -> FakeDaemon:
        daemon = FakeDaemon(
            short_tmp / "s",
            lambda request, peer: hello(request, started_at) or answer(request, peer),
        )
        daemons.append(daemon)
        return daemon

    yield start
    for daemon in daemons:
        daemon.close()


@pytest.fixture
def place(shared_daemon: RunningDaemon) -> Iterator[Place]:
    """A handle in its own session, to be attached."""
    one = Place(shared_daemon, f"attached{next(_numbers)}")
    yield one
    one.call("session/close")
    one.wire.close()
