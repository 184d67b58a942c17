"""The daemon's requests to a client on trio: questions and approvals (docs/protocol.md).

Each request has a task, which the daemon may cancel. `Declined` leaves the question to other
clients; any other exception propagates to the program, and the daemon learns that no answer comes.
The daemon validates an answer and asks again with the errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
import trio
from msgspec import Raw

from haft_protocol.approvals import ASK_APPROVAL, Approval, Decided, Decision
from haft_protocol.inquiries import ASK, Inquiry, RememberedAnswer

from .errors import Declined, HaftError
from .exchange import Id
from .wire import Conversation

Answerer = Callable[[Inquiry], Awaitable[object]]
"""Returns a bool, a string or an option, or one of these in a `RememberedAnswer`."""

Approver = Callable[[Approval], Awaitable[Decision | Decided]]

RequestHandler = Callable[[Raw], Awaitable[object]]
"""Takes JSON params, returns the result; raises `Declined` or `_Unreadable`."""

T = TypeVar("T")

_NOT_SERVED = -32601
_BAD_PARAMS = -32602
_BROKEN = -32603


class _Unreadable(Exception):
    """Undecodable request. A separate class, as an answerer may raise any other error."""


def request_handlers(
    answer: Answerer | None, approve: Approver | None
) -> dict[str, RequestHandler]:
    handlers: dict[str, RequestHandler] = {}
    if answer is not None:
        find = answer

        async def inquiry(params: Raw) -> object:
            reply = await find(_read(params, Inquiry))
            if isinstance(reply, RememberedAnswer):
                return {"answer": reply.answer, "remember": reply.remember}
            return {"answer": reply}

        handlers[ASK] = inquiry
    if approve is not None:
        decide = approve

        async def approval(params: Raw) -> object:
            decision = await decide(_read(params, Approval))
            return {"decision": decision} if isinstance(decision, str) else decision

        handlers[ASK_APPROVAL] = approval
    return handlers


def _read(params: Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(params, type=kind)
    except msgspec.ValidationError as fault:
        raise _Unreadable(f"This client cannot read the request: {fault}.") from fault


class ClientRequests:
    """Requests on one connection; `sent` is called when output is queued."""

    def __init__(
        self, wire: Conversation, handlers: Mapping[str, RequestHandler], sent: Callable[[], None]
    ) -> None:
        self._wire = wire
        self._handlers = handlers
        self._sent = sent
        self._scopes: dict[Id, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        self._all = trio.CancelScope()
        self._broken: Exception | None = None
        self._loss: HaftError | None = None
        self.block = trio.CancelScope()
        """Scope of the program's block, cancelled when serving ends."""

    @property
    def fault(self) -> Exception | None:
        """Return the handler's exception, or the loss that interrupted the block."""
        return self._broken or (self._loss if self.block.cancelled_caught else None)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, a handler fails, or the connection is lost; refuse earlier
        requests."""
        with self._all:
            try:
                async with trio.open_nursery() as self._nursery:
                    task_status.started()
                    await trio.sleep_forever()
            finally:
                self._nursery = None
        self.block.cancel()

    def lost(self, fault: HaftError) -> None:
        """End all requests after the connection's loss.

        A client that serves nothing is not interrupted: its next call raises.
        """
        if self._handlers:
            self._loss = fault
            self._all.cancel()

    def take(self, number: Id, method: str, params: Raw) -> bool:
        """Take a request; return False if no handler serves it, or serving has ended."""
        handler = self._handlers.get(method)
        if handler is None or self._nursery is None or self._all.cancel_called:
            return False
        scope = self._scopes[number] = trio.CancelScope()
        self._nursery.start_soon(self._serve, number, handler, params, scope)
        return True

    def cancel(self, params: Raw) -> None:
        fields: Any = msgspec.json.decode(params)
        number = fields.get("id") if isinstance(fields, dict) else None
        if isinstance(number, str | int) and number in self._scopes:
            self._scopes[number].cancel()

    async def _serve(
        self, number: Id, handler: RequestHandler, params: Raw, scope: trio.CancelScope
    ) -> None:
        try:
            with scope:
                self._wire.answer(number, await handler(params))
        except Declined as declined:
            self._wire.refuse(number, _NOT_SERVED, str(declined))
        except _Unreadable as fault:
            self._wire.refuse(number, _BAD_PARAMS, str(fault))
        except Exception as fault:
            self._wire.refuse(
                number, _BROKEN, "This client failed while it was looking for an answer."
            )
            self._broken = self._broken or fault
            self._all.cancel()
        finally:
            del self._scopes[number]
            self._sent()
