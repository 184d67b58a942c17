"""What the daemon asks of a client on trio: a tool's question, a person's word.

Rules: each request is answered by a task of its own, so that a person who thinks holds up nothing;
one that the daemon wants no more is cancelled. Whoever raises `Declined` leaves the question to
others. Any other exception is a fault of the program: the daemon is told that there is no answer,
without what went wrong, and the exception is the program's. Sections 5 and 6 of the protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
import trio
from msgspec import Raw

from haft_protocol.approvals import ASK_APPROVAL, Approval, Decided, Decision
from haft_protocol.inquiries import ASK, Inquiry, Lasting

from .errors import Declined, ProtocolFault
from .wire import Conversation, Id

__all__ = ["Answerer", "Approver", "Server", "Serving", "servers"]

Answerer = Callable[[Inquiry], Awaitable[object]]
"""Finds the answer to a question: a bool, a text or one of the options; or one of them as `Lasting`."""

Approver = Callable[[Approval], Awaitable[Decision | Decided]]
"""Gives a person's word on an action."""

Server = Callable[[Raw], Awaitable[object]]
"""Serves a request: its params as JSON to its result. Raises `Declined`."""

T = TypeVar("T")

_NOT_SERVED = -32601
_BAD_PARAMS = -32602
_BROKEN = -32603


def servers(answer: Answerer | None, approve: Approver | None) -> dict[str, Server]:
    """What serves the daemon's requests, by method."""
    served: dict[str, Server] = {}
    if answer is not None:
        find = answer

        async def inquiry(params: Raw) -> object:
            said = await find(_read(params, Inquiry))
            return said if isinstance(said, Lasting) else {"answer": said}

        served[ASK] = inquiry
    if approve is not None:
        decide = approve

        async def approval(params: Raw) -> object:
            word = await decide(_read(params, Approval))
            return {"decision": word} if isinstance(word, str) else word

        served[ASK_APPROVAL] = approval
    return served


def _read(params: Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(params, type=kind)
    except msgspec.ValidationError as fault:
        raise ProtocolFault(f"This client cannot read the request: {fault}.") from fault


class Serving:
    """Serves the requests of one connection; `sent` is called when there is something to send."""

    def __init__(
        self, wire: Conversation, served: Mapping[str, Server], sent: Callable[[], None]
    ) -> None:
        self._wire = wire
        self._served = served
        self._sent = sent
        self._scopes: dict[Id, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        self.broken: Exception | None = None
        """What a server raised; the connection is over then."""

    async def run(self) -> None:
        """Serve until cancelled, or until a server breaks."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await trio.sleep_forever()

    def take(self, number: Id, method: str, params: Raw) -> bool:
        """Take a request; false when nobody serves it."""
        server = self._served.get(method)
        if server is None or self._nursery is None:
            return False
        scope = self._scopes[number] = trio.CancelScope()
        self._nursery.start_soon(self._serve, number, server, params, scope)
        return True

    def cancel(self, params: Raw) -> None:
        """The daemon wants no answer to a request any more."""
        said: Any = msgspec.json.decode(params)
        number = said.get("id") if isinstance(said, dict) else None
        if isinstance(number, str | int) and number in self._scopes:
            self._scopes[number].cancel()

    async def _serve(
        self, number: Id, server: Server, params: Raw, scope: trio.CancelScope
    ) -> None:
        try:
            with scope:
                self._wire.answer(number, await server(params))
        except Declined as declined:
            self._wire.refuse(number, _NOT_SERVED, str(declined))
        except ProtocolFault as fault:
            self._wire.refuse(number, _BAD_PARAMS, str(fault))
        except Exception as fault:
            self._wire.refuse(number, _BROKEN, "This client has failed to find an answer.")
            self.broken = fault
            if self._nursery is not None:
                self._nursery.cancel_scope.cancel()
        finally:
            del self._scopes[number]
            self._sent()
