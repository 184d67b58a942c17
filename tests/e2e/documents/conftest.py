"""What the documents' examples share: an assistant's host, and calls as it makes them.

Rules: one file an example, the calls as the document writes them; a daemon serves a file's tests, each in
a session of its own.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.inquiring import Client
from tests.running import RunningDaemon

Host = Callable[..., Client]
_sessions = itertools.count(1)


@pytest.fixture(scope="module")
def daemon_with() -> Iterator[Callable[[str], RunningDaemon]]:
    """Start a daemon with these definitions, or give the one that runs."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    made: dict[str, RunningDaemon] = {}

    def make(tools: str) -> RunningDaemon:
        if tools not in made:
            made[tools] = RunningDaemon(folder / str(len(made)))
            made[tools].tools(tools)
            made[tools].start()
        return made[tools]

    yield make
    for one in made.values():
        one.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def host_of(daemon_with: Callable[[str], RunningDaemon]) -> Iterator[Host]:
    """Connect a host that can be asked, or cannot, to a daemon with these definitions."""
    hosts: list[Client] = []

    def make(tools: str, *, able: bool = True) -> Client:
        session = f"s{next(_sessions)}"
        hosts.append(Client(daemon_with(tools), "assistant", session, able=able))
        assert hosts[-1].call("daemon/status")["problems"] == []
        return hosts[-1]

    yield make
    for one in hosts:
        one.call("session/close")
        one.close()
