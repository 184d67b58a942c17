"""A daemon with a module's tools, and clients that join one of its sessions and can be asked."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

C = TypeVar("C", bound=Wire)

_sessions = itertools.count()


class AskedClient(Wire):
    """A connection in a session, that can be asked by requests of a `capability`, or cannot."""

    capability: ClassVar[str]

    def __init__(
        self, daemon: RunningDaemon, name: str = "host", session: str = "s", *, able: bool = True
    ) -> None:
        super().__init__(daemon.socket)
        self.session = session
        self.call(
            "initialize",
            client={"name": name},
            protocol=1,
            session=session,
            capabilities={self.capability: able},
        )

    def __enter__(self) -> Self:
        return self

    def asked(self) -> Any:
        """Return the next request of the daemon."""
        return self.told(f"{self.capability}/ask")

    def result(self, request: Mapping[str, Any], result: object) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: Mapping[str, Any], code: int, message: str = "no") -> None:
        error = {"code": code, "message": message}
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def is_asked_nothing(self) -> bool:
        """Return True if the client has had no request so far."""
        for _ in range(5):
            self.call("handles/list")
        return not any("method" in message for message in self._kept)


@contextmanager
def serving(tools: str) -> Iterator[RunningDaemon]:
    """A daemon with these definitions, with which nothing is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    daemon.tools(tools)
    daemon.start()
    with daemon.connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
    yield daemon
    daemon.close()
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
    for client in clients:
        client.close()
    with daemon.connect() as last:
        for name in used:
            last.call("session/close", session=name)
