"""Blocking client: one connection to haftd, for one thread.

A call is bounded by its own limit (`timeout_ms`, `timeout_secs`) plus `patience`, or by `timeout`;
then the request is cancelled, `ReplyTimeout` raised, and the connection stays usable. Replies may
come in any order: `start` several calls, then `finish` each.

    with Haft.connect(autostart=True) as haft:
        haft.spawn("run", "build", {"argv": ["make", "-j4"]})
        print(haft.fetch("build", wait="stopped", timeout_ms=600_000))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Raw

from haft_protocol.methods import InitializeResult

from .address_choice import chosen_address
from .blocking_connection import PATIENCE_S, BlockingConnection
from .calls import Calls
from .connection import open_connection
from .daemon_socket import Socket
from .errors import RemoteError
from .exchange import Answer, result_of
from .request_params import batch_timeout, with_defaults
from .requests import decode
from .wire import Conversation

__all__ = ["Haft"]


class Haft(BlockingConnection, Calls):
    r"""A connection, opened by `connect` and closed by `close` or the end of the `with` block.

    >>> with Haft.connect(socket) as haft:
    ...     state = haft.spawn("run", "hello", {"argv": ["echo", "hello"]}, wait="stopped")
    >>> state.exit.code, state.result
    (0, 'hello\n')
    """

    def __init__(
        self,
        connected: Socket,
        *,
        session: str | None = None,
        root: str | None = None,
        name: str = "haft-python",
        patience: float | None = PATIENCE_S,
        read_only: bool = False,
        hear: Callable[[str, Raw], None] | None = None,
    ) -> None:
        """Take over a connected socket; `hear` is called with the daemon's notifications."""
        self._wire = Conversation(hear)
        super().__init__(
            connected,
            self._wire,
            session=session,
            root=root,
            name=name,
            patience=patience,
            read_only=read_only,
        )
        self._initialized: Answer | None = None

    @classmethod
    def connect(
        cls,
        socket: str | None = None,
        autostart: bool = False,
        *,
        host: str | None = None,
        session: str | None = None,
        root: str | None = None,
        name: str = "haft-python",
        timeout: float | None = None,
        patience: float | None = PATIENCE_S,
        read_only: bool = False,
        hear: Callable[[str, Raw], None] | None = None,
    ) -> Haft:
        """Connect to the daemon of `host` or `HAFT_HOST`, else at `socket`, else at the socket of
        `haft_protocol.paths`.

        `host` is an address such as `ssh://user@box` (docs/hosts.md). `autostart` starts a daemon
        when none answers. `session` and `root` are defaults of calls. Raises `InvalidAddress`, `NotRunning`, `StartFailed` or `Unreachable` after at most `timeout` seconds: by
        default 5, for another machine 30.
        """
        address = chosen_address(host, socket, os.environ)
        return cls(
            open_connection(address, autostart=autostart, timeout=timeout),
            session=session,
            root=root,
            name=name,
            patience=patience,
            read_only=read_only,
            hear=hear,
        )

    def call(self, method: str, /, *, timeout: float | None = None, **params: object) -> Any:
        """Call a method by its wire name and return its typed result; raises `RemoteError`."""
        return self.finish(self.start(method, **params), timeout=timeout)

    def start(self, method: str, /, **params: object) -> int:
        """Send a request and return the number for `finish`."""
        return self._start(method, params)

    def finish(self, number: int, *, timeout: float | None = None) -> Any:
        """Wait for the reply to a started request; keep other replies that arrive meanwhile."""
        method = self._due[number][0]
        return decode(method, self._answer(number, timeout))

    def batch(
        self, calls: Sequence[tuple[str, Mapping[str, object]]], *, timeout: float | None = None
    ) -> list[Any]:
        """Send calls as one batch; return a result or a `RemoteError` for each, in order."""
        full = [
            (method, with_defaults(method, params, self._session, self._root))
            for method, params in calls
        ]
        numbers = self._wire.batch(full)
        bound = batch_timeout(full)
        for number, (method, _) in zip(numbers, full, strict=True):
            self._due[number] = (method, bound)
        results: list[Any] = []
        try:
            for number, (method, _) in zip(numbers, full, strict=True):
                try:
                    results.append(decode(method, self._answer(number, timeout)))
                except RemoteError as refused:
                    if refused is self._wire.fault:
                        raise
                    results.append(refused)
        finally:
            for number in numbers[len(results) :]:
                self._due.pop(number, None)
                self._wire.forget(number)
        return results

    @property
    def server(self) -> InitializeResult:
        """The daemon's introduction, with its limits."""
        while self._initialized is None:
            self._initialized = self._wire.take(self._hello)
            if self._initialized is None:
                self.ping()
        server: InitializeResult = decode("initialize", result_of(self._initialized))
        return server
