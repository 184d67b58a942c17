"""The daemon's own requests and notifications to its clients, over the connection of each.

Rules: they end with the connection; a request that is open then fails. Request ids are given once; a reply is
matched by its id, the first one counts, and one that no request waits for is counted and never answered. A request
that is cancelled here is cancelled at the peer (`$/cancelRequest`). A peer has a bounded number of open requests,
`MAX_REQUESTS`, and bounded room in its outbox. Methods and params are not known here.
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
"""Requests that one peer may leave unanswered; another client is asked then."""


class Unreachable(Exception):
    """The peer is gone, or leaves too much unanswered; the argument says which."""


class OutboundQueue(Protocol):
    """The bytes on their way to the peer of a connection; see `outbox`."""

    @property
    def has_room(self) -> bool:
        """Whether little enough is queued to send what may be left out."""

    async def room(self) -> None:
        """Wait until that is so."""

    async def idle(self) -> None:
        """Wait until nothing is on its way any more."""


class _PendingRequest:
    __slots__ = ("reply", "scope")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reply: Response | None = None


class ClientRequests:
    """Requests and notifications to the peer of one connection."""

    __slots__ = ("_asked", "_max_nesting", "_numbers", "_open", "_out", "_send", "caller")

    def __init__(
        self, caller: Caller, out: OutboundQueue, send: Callable[[bytes], None], max_nesting: int
    ) -> None:
        """`send` frames a message and queues it."""
        self.caller = caller
        self._out = out
        self._send = send
        self._max_nesting = max_nesting
        self._numbers = itertools.count(1)
        self._asked: dict[str, _PendingRequest] = {}
        self._open = True

    async def ask(self, method: str, params: object) -> Any:
        """Send a request and return its result, as plain values. Raises the `RpcError` that it
        answers, `BadReply` for a reply that is none, `Unreachable`."""
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
        """Send a notification, unless the peer is behind with reading; return whether it was sent."""
        if not self._open or not self._out.has_room:
            return False
        self._send(encode_request(None, method, params))
        return True

    async def idle(self) -> bool:
        """Wait until nothing is on its way to the peer; false when it is read no more."""
        if self._open:
            await self._out.idle()
        return self._open

    def on_reply(self, reply: Response) -> bool:
        """Take a reply; return whether a request waited for it."""
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
        """Fail all open requests: the peer is not read any more."""
        self._open = False
        asked, self._asked = self._asked, {}
        for one in asked.values():
            one.scope.cancel()


class Clients:
    """The clients that are being served. `refused` counts replies that no request waits for."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._clients: dict[Caller, ClientRequests] = {}
        self._arrived = trio.lowlevel.ParkingLot()

    def open(self, client: ClientRequests) -> None:
        """Add a client whose connection is being served."""
        self._clients[client.caller] = client

    def close(self, caller: Caller) -> None:
        """Remove a client that is not read any more."""
        client = self._clients.pop(caller, None)
        if client is not None:
            client.close()

    def on_reply(self, caller: Caller, reply: Response) -> None:
        """Take a reply of a client."""
        client = self._clients.get(caller)
        if client is None or not client.on_reply(reply):
            self.refused["reply"] += 1

    def of(self, caller: Caller) -> ClientRequests | None:
        """Return the client of a caller, for as long as it is read."""
        return self._clients.get(caller)

    def able(
        self, callers: Iterable[Caller], capability: Literal["inquiry", "approval"]
    ) -> list[ClientRequests]:
        """Return the clients of those callers that have this capability, in the order of the callers."""
        return [
            self._clients[one]
            for one in callers
            if getattr(one, capability) and one in self._clients
        ]

    def arrive(self) -> None:
        """Wake `arrival`: a client can be asked that could not be before."""
        self._arrived.unpark_all()

    async def arrival(self) -> None:
        """Wait until there may be another client to ask."""
        await self._arrived.park()
