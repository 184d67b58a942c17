"""One connection to haftd, for one thread."""

from __future__ import annotations

import os
import select
import time

from .connection import loss_of
from .errors import ConnectionLost, ReplyTimeout
from .exchange import result_of
from .request_params import hello, params_timeout, with_defaults

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from .daemon_socket import Socket
    from .exchange import Exchange

PATIENCE_S = 30.0
"""Seconds for a reply, added to the time that the request's params allow."""
_CHUNK = 1 << 18
_MAX_POLL_S = 2_000_000.0
"""Limit of poll, in milliseconds as a C int: 23 days."""


class BlockingConnection:
    """A connected socket with the requests and replies of `exchange`."""

    def __init__(
        self,
        connected: Socket,
        exchange: Exchange,
        *,
        session: str | None = None,
        root: str | None = None,
        name: str,
        patience: float | None = PATIENCE_S,
        read_only: bool = False,
    ) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._poll = select.poll()
        self._exchange = exchange
        self._session = session
        self._root = root
        self._due: dict[int, tuple[str, float | None]] = {}
        self._lost: ConnectionLost | None = None
        self.patience = patience
        self.silence: tuple[float, Callable[[], float | None]] | None = None
        """Seconds without a reply after which the function is called; it returns those after which it is
        called again, if it is. An exception of it cancels the request."""
        # Sent with the first call, without a round trip.
        self._hello = exchange.greet(hello(name, session, read_only=read_only))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; handles keep running."""
        self._socket.close()
        self._lost = self._lost or ConnectionLost("this connection was closed by the client itself")

    def fileno(self) -> int:
        """Return the socket's descriptor for polling; -1 when closed."""
        return self._socket.fileno()

    def raw(
        self,
        method: str,
        params: Mapping[str, object] | None = None,
        *,
        timeout: float | None = None,
    ) -> bytes:
        """Call a method and return its result as JSON."""
        return bytes(self._answer(self._start(method, params or {}), timeout))

    def _start(self, method: str, params: Mapping[str, object]) -> int:
        full = with_defaults(method, params, self._session, self._root)
        number = self._exchange.request(method, full)
        self._due[number] = (method, params_timeout(method, full))
        self._send()
        return number

    def _answer(self, number: int, timeout: float | None) -> bytes:
        method, bound = self._due.pop(number)
        if timeout is None and bound is not None and self.patience is not None:
            timeout = bound + self.patience
        started = time.monotonic()
        deadline = None if timeout is None else started + timeout
        silent_until = None if self.silence is None else started + self.silence[0]
        try:
            while (answer := self._exchange.take(number)) is None:
                if self._exchange.fault is not None:
                    raise self._exchange.fault
                if silent_until is not None and self.silence is not None:
                    if time.monotonic() < silent_until:
                        self._poll_once(silent_until, deadline, method)
                        continue
                    again = self.silence[1]()
                    silent_until = None if again is None else started + again
                self._poll_once(deadline, deadline, method)
        except BaseException:
            # Also for Ctrl-C: the late reply must be discarded.
            self._exchange.forget(number)
            raise
        return result_of(answer)

    def _poll_once(self, until: float | None, deadline: float | None, method: str) -> None:
        """Send and receive until the time; raise `ReplyTimeout` at the deadline."""
        if self._lost is not None:
            raise self._lost
        self._send()
        events = select.POLLIN | (select.POLLOUT if self._exchange.to_send else 0)
        self._poll.register(self._socket, events)
        if until is None or (deadline is not None and deadline < until):
            until = deadline
        left_s = None if until is None else min(max(0.0, until - time.monotonic()), _MAX_POLL_S)
        if not self._poll.poll(None if left_s is None else left_s * 1000) and left_s is not None:
            if until != deadline or left_s == _MAX_POLL_S:
                return
            raise ReplyTimeout(
                f"haftd did not answer `{method}` in time; the request was cancelled"
            )
        self._receive()

    def _send(self) -> None:
        if not self._exchange.to_send:
            return
        try:
            del self._exchange.to_send[: self._socket.send(self._exchange.to_send)]
        except BlockingIOError:
            pass
        except OSError:
            # Messages from before the hangup come first.
            self._exchange.to_send.clear()

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as fault:
            raise self._ended(fault) from fault
        if not data:
            raise self._exchange.fault or self._ended(None)
        self._exchange.feed(data)

    def _ended(self, fault: OSError | None) -> ConnectionLost:
        why = "" if fault is None else f" ({os.strerror(fault.errno or 0)})"
        words = f"haftd closed the connection{why} before it answered"
        self._lost = loss_of(self._socket, words)
        return self._lost
