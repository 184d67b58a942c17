"""An assistant's host, and calls as the documents write them. A daemon serves a file's tests,
each in its own session."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.question_tools import Client
from tests.running_daemon import RunningDaemon

Host = Callable[..., Client]
_sessions = itertools.count(1)


@pytest.fixture(scope="module")
def daemon_with() -> Iterator[Callable[[str], RunningDaemon]]:
    """Start a daemon with these definitions, or return the running one."""
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
    """Connect a host with or without inquiry support to a daemon with these definitions."""
    hosts: list[Client] = []

    def make(tools: str, *, able: bool = True) -> Client:
        session = f"s{next(_sessions)}"
        hosts.append(Client(daemon_with(tools), "assistant", session, able=able))
        assert hosts[-1].call("daemon/status")["problems"] == []
        return hosts[-1]

    yield make
    for host in hosts:
        host.call("session/close")
        host.close()
