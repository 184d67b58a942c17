"""A runtime's processes and leaks are this process's, as in the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from haftd.host.launch.gate import best_gate
from haftd.runtimes.terminal import screen
from haftd.runtimes.terminal.library import load
from tests.subreaper import subreaper


@pytest.fixture(autouse=True)
def adopting() -> Iterator[None]:
    best_gate()  # opened once a process, and kept: no test's leak
    with subreaper():
        yield


class Clock:
    """A clock that advances by a millisecond at each reading."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every drawn piece takes a millisecond."""
    load()
    monkeypatch.setattr(screen, "time", SimpleNamespace(thread_time=Clock()))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Collect the sizes of all pieces given to the terminal library."""
    sizes: list[int] = []
    core = load()
    feed = core.Terminal.feed

    def watched(terminal: object, data: bytes) -> None:
        sizes.append(len(data))
        feed(terminal, data)

    monkeypatch.setattr(core.Terminal, "feed", watched)
    yield sizes
