"""What the daemon asks and tells its clients: a link for each connection that is being served.

Rules: a link lives as long as its connection reads; what is asked over it then fails. Requests have
ids of our own, given once; a reply is matched by its id, the first one counts, and one that nobody
waits for is counted and never answered. Who no longer wants an answer says so to the peer
(`$/cancelRequest`). What waits for one peer is bounded: `MOST_ASKS` requests, and room in its
outbox. Nothing here knows what is asked.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol

import msgspec
import trio

from haft_protocol.encoding import encode_request
from haft_protocol.rpc import Incoming, read_reply
from haftd.caller import Caller

__all__ = ["MOST_ASKS", "Link", "Links", "Unreachable", "WayOut"]

MOST_ASKS = 64
"""Requests that one peer may leave unanswered; who wants more of it asks somebody else."""


class Unreachable(Exception):
    """The peer is gone, or leaves too much unanswered; the argument says which."""


class WayOut(Protocol):
    """The end of a connection that leads to its peer; see `outbox`."""

    @property
    def has_room(self) -> bool:
        """Whether little enough is queued to send what may be left out."""

    async def room(self) -> None:
        """Wait until that is so."""

    async def idle(self) -> None:
        """Wait until nothing is on its way any more."""


class _Asked:
    __slots__ = ("reply", "scope")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.reply: Incoming | None = None


class Link:
    """The way to the peer of one connection, for requests and notifications of ours."""

    __slots__ = ("_asked", "_max_nesting", "_numbers", "_open", "_out", "_send", "caller")

    def __init__(
        self, caller: Caller, out: WayOut, send: Callable[[bytes], None], max_nesting: int
    ) -> None:
        """`send` frames a message and queues it."""
        self.caller = caller
        self._out = out
        self._send = send
        self._max_nesting = max_nesting
        self._numbers = itertools.count(1)
        self._asked: dict[str, _Asked] = {}
        self._open = True

    async def ask(self, method: str, params: object) -> Any:
        """Ask the peer and return its result, as plain values. Raises the `RpcError` that it
        answers, `BadReply` for a reply that is none, `Unreachable`."""
        if not self._open:
            raise Unreachable("it is gone")
        if len(self._asked) >= MOST_ASKS:
            raise Unreachable(f"it leaves {MOST_ASKS} requests unanswered")
        number = f"haft.{next(self._numbers)}"
        asked = self._asked[number] = _Asked()
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
        """Tell the peer something, unless it is behind with reading; whether it was told."""
        if not self._open or not self._out.has_room:
            return False
        self._send(encode_request(None, method, params))
        return True

    async def idle(self) -> bool:
        """Wait until nothing is on its way to the peer; false when it is read no more."""
        if self._open:
            await self._out.idle()
        return self._open

    def hear(self, reply: Incoming) -> bool:
        """Take a reply; whether somebody waited for it."""
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
        """Nothing comes from this peer any more."""
        self._open = False
        asked, self._asked = self._asked, {}
        for one in asked.values():
            one.scope.cancel()


class Links:
    """The links there are. `refused` counts replies that no request waits for."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self._links: dict[Caller, Link] = {}
        self._arrived = trio.lowlevel.ParkingLot()

    def open(self, link: Link) -> None:
        """A connection is being served."""
        self._links[link.caller] = link

    def close(self, caller: Caller) -> None:
        """Nothing comes from it any more."""
        link = self._links.pop(caller, None)
        if link is not None:
            link.close()

    def hear(self, caller: Caller, reply: Incoming) -> None:
        """Take a reply of a client."""
        link = self._links.get(caller)
        if link is None or not link.hear(reply):
            self.refused["reply"] += 1

    def of(self, caller: Caller) -> Link | None:
        """The link of a caller, for as long as it is read."""
        return self._links.get(caller)

    def able(self, callers: Iterable[Caller], what: Literal["inquiry", "approval"]) -> list[Link]:
        """The links of those callers that can be asked what a tool wants to know, or to approve what
        it is to do, in that order."""
        return [self._links[one] for one in callers if getattr(one, what) and one in self._links]

    def arrive(self) -> None:
        """Say that somebody can be asked now who could not be before."""
        self._arrived.unpark_all()

    async def arrival(self) -> None:
        """Wait until that is so."""
        await self._arrived.park()
