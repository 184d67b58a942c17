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
"""Open requests of a client, beyond which `ask` fails and the backend of clients asks another."""


class Unreachable(Exception):
    """Disconnected or unresponsive client."""


class OutboundQueue(Protocol):
    """Output of a connection, see `rpc.outbox`."""

    @property
    def has_room(self) -> bool:
        """True if the queue is below its low-water mark."""

    async def room(self) -> None:
        """Wait until the queue is below its low-water mark."""

    async def idle(self) -> None:
        """Wait until everything is written and mostly read."""


class _PendingRequest:
    """`scope` is cancelled by the reply and by the end of the connection: either also ends the wait for
    room in the queue, which an event could not."""

    __slots__ = ("reply", "scope")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reply: Response | None = None


class ClientRequests:
    """Requests to one client, and its replies."""

    __slots__ = ("_ids", "_max_nesting", "_open", "_out", "_pending", "_send", "caller")

    def __init__(
        self, caller: Caller, out: OutboundQueue, send: Callable[[bytes], None], max_nesting: int
    ) -> None:
        """`send` frames and queues a message; `max_nesting` bounds the JSON of replies."""
        self.caller = caller
        self._out = out
        self._send = send
        self._max_nesting = max_nesting
        self._ids = itertools.count(1)
        self._pending: dict[str, _PendingRequest] = {}
        self._open = True

    async def ask(self, method: str, params: object) -> Any:
        """Send a request; return the result.

        Raises the client's `RpcError`, `BadReply` for a malformed reply, and `Unreachable` if the
        connection closes or has `MAX_REQUESTS` open requests.
        """
        if not self._open:
            raise Unreachable("the client has disconnected")
        if len(self._pending) >= MAX_REQUESTS:
            raise Unreachable(f"the client leaves {MAX_REQUESTS} requests unanswered")
        request_id = f"haft.{next(self._ids)}"
        pending = self._pending[request_id] = _PendingRequest()
        sent = False
        try:
            with pending.scope:
                await self._out.room()
                self._send(encode_request(request_id, method, params))
                sent = True
                await trio.sleep_forever()
        finally:
            if self._pending.pop(request_id, None) is not None and sent:
                self._send(encode_request(None, "$/cancelRequest", {"id": request_id}))
        if pending.reply is None:
            raise Unreachable("the client has disconnected")
        return read_reply(pending.reply, max_nesting=self._max_nesting)

    def notify(self, method: str, params: object) -> bool:
        """Send a notification; return False, unsent, if the client reads too slowly or has disconnected."""
        if not self._open or not self._out.has_room:
            return False
        self._send(encode_request(None, method, params))
        return True

    async def idle(self) -> bool:
        """Wait until everything is written and mostly read; return False if the connection is closed."""
        if self._open:
            await self._out.idle()
        return self._open

    def on_reply(self, reply: Response) -> bool:
        """Deliver a reply; return False if no request waits for it."""
        try:
            request_id = msgspec.json.decode(reply.id)
        except msgspec.DecodeError:
            return False
        pending = self._pending.pop(request_id, None) if isinstance(request_id, str) else None
        if pending is None:
            return False
        pending.reply = reply
        pending.scope.cancel()
        return True

    def close(self) -> None:
        self._open = False
        pending, self._pending = self._pending, {}
        for request in pending.values():
            request.scope.cancel()


class Clients:
    """Connected clients, by the connection as methods see it; `refused["reply"]` counts replies without a
    request, for `daemon/status`."""

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
        """End the waits in `arrival`: a client has connected or joined a session, and can be asked."""
        self._arrived.unpark_all()

    async def arrival(self) -> None:
        """Wait until another client may be available."""
        await self._arrived.park()
