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
import select
import socket as sockets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Raw

from haft_protocol.methods import (
    InitializeResult,
)

from .addresses import chosen_address
from .calls import Calls
from .connection import loss_of, open_connection
from .errors import ConnectionLost, RemoteError, ReplyTimeout
from .requests import (
    batch_bound,
    decode,
    hello,
    own_bound,
    with_defaults,
)
from .wire import Answer, Conversation, result_of

__all__ = ["Haft"]

_PATIENCE_S = 30.0
_CHUNK = 1 << 18


class Haft(Calls):
    r"""A connection, opened by `connect` and closed by `close` or the end of the `with` block.

    >>> with Haft.connect(socket) as haft:
    ...     state = haft.spawn("run", "hello", {"argv": ["echo", "hello"]}, wait="stopped")
    >>> state.exit.code, state.result
    (0, 'hello\n')
    """

    def __init__(
        self,
        connected: sockets.socket,
        *,
        session: str | None = None,
        root: str | None = None,
        name: str = "haft-python",
        patience: float | None = _PATIENCE_S,
        read_only: bool = False,
        hear: Callable[[str, Raw], None] | None = None,
    ) -> None:
        """Take over a connected socket; `hear` is called with the daemon's notifications."""
        connected.setblocking(False)
        self._socket = connected
        self._poll = select.poll()
        self._wire = Conversation(hear)
        self._session = session
        self._root = root
        self._due: dict[int, tuple[str, float | None]] = {}
        self._lost: ConnectionLost | None = None
        self.patience = patience
        # Sent with the first call, without a round trip of its own.
        self._hello = self._wire.greet(hello(name, session, read_only=read_only))
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
        patience: float | None = _PATIENCE_S,
        read_only: bool = False,
        hear: Callable[[str, Raw], None] | None = None,
    ) -> Haft:
        """Connect to the daemon of `host` or `HAFT_HOST`, else at `socket`, else at that of `haft_protocol.paths`.

        `host` is an address such as `ssh://user@box` (docs/hosts.md). `autostart` starts a daemon when none answers.
        `session` and `root` are defaults of calls. Raises `Misplaced` for no address, `NotRunning`,
        `StartFailed` or `Unreachable` after at most `timeout` seconds: by default 5, for another machine 30.
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

    def __enter__(self) -> Haft:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; handles live on."""
        self._socket.close()
        self._lost = self._lost or ConnectionLost("this connection was closed by the client itself")

    def fileno(self) -> int:
        """Return the socket's descriptor for polling; -1 when closed."""
        return self._socket.fileno()

    def call(self, method: str, /, *, timeout: float | None = None, **params: object) -> Any:
        """Call a method by its wire name and return its typed result; raises `RemoteError`."""
        return self.finish(self.start(method, **params), timeout=timeout)

    def raw(
        self, method: str, params: Mapping[str, object] = {}, *, timeout: float | None = None
    ) -> bytes:
        """Call a method and return its result as JSON."""
        return bytes(self._answer(self._start(method, params), timeout))

    def start(self, method: str, /, **params: object) -> int:
        """Send a request and return the number for `finish`."""
        return self._start(method, params)

    def finish(self, number: int, *, timeout: float | None = None) -> Any:
        """Wait for the reply to a started request; keep others that arrive meanwhile."""
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
        bound = batch_bound(full)
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
        # Any reply follows this one, which was requested first.
        while self._initialized is None:
            self._initialized = self._wire.take(self._hello)
            if self._initialized is None:
                self.ping()
        server: InitializeResult = decode("initialize", result_of(self._initialized))
        return server

    def _start(self, method: str, params: Mapping[str, object]) -> int:
        full = with_defaults(method, params, self._session, self._root)
        number = self._wire.request(method, full)
        self._due[number] = (method, own_bound(method, full))
        self._send()
        return number

    def _answer(self, number: int, timeout: float | None) -> Raw:
        method, bound = self._due.pop(number)
        if timeout is None and bound is not None and self.patience is not None:
            timeout = bound + self.patience
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while (answer := self._wire.take(number)) is None:
                if self._wire.fault is not None:
                    raise self._wire.fault
                self._turn(deadline, method)
        except BaseException:
            # Also for Ctrl-C: the late reply must be discarded.
            self._wire.forget(number)
            raise
        return result_of(answer)

    def _turn(self, deadline: float | None, method: str) -> None:
        if self._lost is not None:
            raise self._lost
        self._send()
        events = select.POLLIN | (select.POLLOUT if self._wire.to_send else 0)
        self._poll.register(self._socket, events)
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not self._poll.poll(None if left is None else left * 1000) and left is not None:
            raise ReplyTimeout(
                f"haftd did not answer `{method}` in time; the request was cancelled"
            )
        self._receive()

    def _send(self) -> None:
        if not self._wire.to_send:
            return
        try:
            del self._wire.to_send[: self._socket.send(self._wire.to_send)]
        except BlockingIOError:
            pass
        except OSError:
            # Messages from before the hangup come first, then the end.
            self._wire.to_send.clear()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as fault:
            raise self._ended(fault) from fault
        if not data:
            raise self._wire.fault or self._ended(None)
        self._wire.feed(data)

    def _ended(self, fault: OSError | None) -> ConnectionLost:
        why = "" if fault is None else f" ({os.strerror(fault.errno or 0)})"
        words = f"haftd closed the connection{why} before it answered"
        self._lost = loss_of(self._socket, words)
        return self._lost
