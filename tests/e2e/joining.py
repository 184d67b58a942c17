"""A daemon with a module's tools, and clients that join one of its sessions."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.running import RunningDaemon
from tests.wire import Wire

C = TypeVar("C", bound=Wire)

_sessions = itertools.count()


@contextmanager
def serving(tools: str) -> Iterator[RunningDaemon]:
    """A daemon with these definitions, with which nothing is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    one = RunningDaemon(folder)
    one.tools(tools)
    one.start()
    with one.connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
    yield one
    one.close()
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def joined(daemon: RunningDaemon, kind: Callable[..., C]) -> Iterator[Callable[..., C]]:
    """Connect clients of a kind to one session of their own, or with `other` to a neighbouring
    one; all are closed in the end."""
    session = f"s{next(_sessions)}"
    clients: list[C] = []
    used = {session}

    def make(name: str = "host", *, able: bool = True, other: str = "", **more: Any) -> C:
        used.add(session + other)
        clients.append(kind(daemon, name, session + other, able=able, **more))
        return clients[-1]

    yield make
    for one in clients:
        one.close()
    with daemon.connect() as last:
        for name in used:
            last.call("session/close", session=name)
