"""Requests and notifications of the daemon to clients.

Requests end with their connection; the first reply counts. The cancellation of a sent request sends
`$/cancelRequest`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol

import msgspec
import trio

from haft_protocol.encoding import encode_request
from haft_protocol.rpc import Response, read_reply
from haftd.caller import Caller

MAX_REQUESTS = 64
"""Open requests per peer, beyond which other clients are asked."""


class Unreachable(Exception):
    """Disconnected or unresponsive peer; the argument is the reason."""


class OutboundQueue(Protocol):
    """Output of a connection, see `rpc.outbox`."""

    @property
    def has_room(self) -> bool:
        """True if optional messages may be queued."""

    async def room(self) -> None:
        """Wait until requests may be queued."""

    async def idle(self) -> None:
        """Wait until everything is sent."""


class _PendingRequest:
    __slots__ = ("reply", "scope")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reply: Response | None = None


class ClientRequests:
    """Requests to one client, and its replies."""

    __slots__ = ("_asked", "_max_nesting", "_numbers", "_open", "_out", "_send", "caller")

    def __init__(
        self, caller: Caller, out: OutboundQueue, send: Callable[[bytes], None], max_nesting: int
    ) -> None:
        """`send` frames and queues a message."""
        self.caller = caller
        self._out = out
        self._send = send
        self._max_nesting = max_nesting
        self._numbers = itertools.count(1)
        self._asked: dict[str, _PendingRequest] = {}
        self._open = True

    async def ask(self, method: str, params: object) -> Any:
        """Send a request; return the result.

        Raises the client's `RpcError`, `BadReply` for a malformed reply, and `Unreachable` if the
        connection closes or has `MAX_REQUESTS` open requests.
        """
        if not self._open:
            raise Unreachable("it is gone")
        if len(self._asked) >= MAX_REQUESTS:
            raise Unreachable(f"it leaves {MAX_REQUESTS} requests unanswered")
        number = f"haft.{next(self._numbers)}"
        asked = self._asked[number] = _PendingRequest()
        sent = False
        try:
            with asked.scope:
                await self._out.room()
                self._send(encode_request(number, method, params))
                sent = True
                await trio.sleep_forever()
        finally:
            if self._asked.pop(number, None) is not None and sent:
                self._send(encode_request(None, "$/cancelRequest", {"id": number}))
        if asked.reply is None:
            raise Unreachable("it is gone")
        return read_reply(asked.reply, max_nesting=self._max_nesting)

    def notify(self, method: str, params: object) -> bool:
        """Send a notification; return False, unsent, if the peer lags."""
        if not self._open or not self._out.has_room:
            return False
        self._send(encode_request(None, method, params))
        return True

    async def idle(self) -> bool:
        """Wait until everything is sent; return False if the connection is closed."""
        if self._open:
            await self._out.idle()
        return self._open

    def on_reply(self, reply: Response) -> bool:
        """Deliver a reply; return False if no request waits for it."""
        try:
            number = msgspec.json.decode(reply.id)
        except msgspec.DecodeError:
            return False
        asked = self._asked.pop(number, None) if isinstance(number, str) else None
        if asked is None:
            return False
        asked.reply = reply
        asked.scope.cancel()
        return True

    def close(self) -> None:
        self._open = False
        asked, self._asked = self._asked, {}
        for request in asked.values():
            request.scope.cancel()


class Clients:
    """Served clients; `refused` counts replies without a request."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._clients: dict[Caller, ClientRequests] = {}
        self._arrived = trio.lowlevel.ParkingLot()

    def open(self, client: ClientRequests) -> None:
        self._clients[client.caller] = client

    def close(self, caller: Caller) -> None:
        client = self._clients.pop(caller, None)
        if client is not None:
            client.close()

    def on_reply(self, caller: Caller, reply: Response) -> None:
        """Deliver a reply; count one without a request."""
        client = self._clients.get(caller)
        if client is None or not client.on_reply(reply):
            self.refused["reply"] += 1

    def of(self, caller: Caller) -> ClientRequests | None:
        return self._clients.get(caller)

    def able(
        self, callers: Iterable[Caller], capability: Literal["inquiry", "approval"]
    ) -> list[ClientRequests]:
        """Return the connected clients among the callers that have the capability, in their order."""
        return [
            self._clients[caller]
            for caller in callers
            if getattr(caller, capability) and caller in self._clients
        ]

    def arrive(self) -> None:
        """Wake those who wait for another client."""
        self._arrived.unpark_all()

    async def arrival(self) -> None:
        """Wait until another client may be available."""
        await self._arrived.park()
