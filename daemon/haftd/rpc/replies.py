"""Replies before they are sent: final, pending, or part of a batch (docs/protocol.md, "Calling
tools").

Encoded last: a batch shares the size limit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator

import msgspec
import trio

from haft_protocol.encoding import encode_error
from haft_protocol.errors import RpcError, invalid_request, request_cancelled
from haft_protocol.rpc import Invalid, Request, Response, read_params
from haftd.core.truncation import BatchBudget
from haftd.methods.base import PendingReply

CANCEL = "$/cancelRequest"
CANCELLED = "notifications/cancelled"
CANCELS = (CANCEL, CANCELLED)
"""Names of LSP and MCP."""


class Reply(msgspec.Struct, frozen=True):
    id: bytes
    method: str
    result: object = None
    error: RpcError | None = None


class PendingRequest(msgspec.Struct, eq=False):
    """Request without a reply."""

    id: bytes | None
    """Id as received; None for a notification."""
    key: object
    """Value of the id."""
    method: str
    later: PendingReply
    batch_budget: BatchBudget | None = None
    """Shared by the members of a batch; None outside."""

    @property
    def in_batch(self) -> bool:
        return self.batch_budget is not None

    def cancelled(self) -> Reply | None:
        return None if self.id is None else Reply(self.id, self.method, error=request_cancelled())


Slot = bytes | Reply | PendingRequest | None
"""Member of a batch; None without a reply."""


class PendingBatch(msgspec.Struct):
    """Batch with pending members, in request order, or with its `reply`."""

    slots: list[Slot]
    cancels: list[Cancel]
    budget: BatchBudget
    reply: bytes | None = None
    _left: int = 0

    def __post_init__(self) -> None:
        self._left = sum(isinstance(slot, PendingRequest) for slot in self.slots)

    @property
    def is_whole(self) -> bool:
        return not self._left

    def put(self, waiting: PendingRequest, reply: Slot) -> None:
        self.slots[self.slots.index(waiting)] = reply
        self._left -= 1


class Cancel(msgspec.Struct, frozen=True):
    key: object


Ready = Callable[[], Awaitable[None]]
Item = Request | Response | Invalid


class SuspendedBatch(msgspec.Struct, eq=False):
    """Batch to resume after all of `waits`; the connection keeps reading."""

    items: list[Item]
    waits: list[Ready]
    cancels: list[Cancel] = msgspec.field(default_factory=list)
    """Cancellations received after the resumption, for decided members."""
    is_resumed: bool = False

    def withdraw(self, cancel: Cancel) -> None:
        for at, request in enumerate(self.items):
            if (
                isinstance(request, Request)
                and request.id is not None
                and key_of(request) == cancel.key
            ):
                self.items[at] = Invalid(request_cancelled(), request.id)
        if self.is_resumed:
            self.cancels.append(cancel)

    async def ready(self) -> None:
        async with trio.open_nursery() as nursery:
            for wait in self.waits:
                nursery.start_soon(wait)


Steps = Generator[None, None, bytes | PendingBatch | None]
"""Steps of a batch's decision. Run all of them: started calls must be awaited."""

Answer = bytes | PendingRequest | PendingBatch | SuspendedBatch | Cancel | Steps | None


def key_of(request: Request) -> object:
    return None if request.id is None else msgspec.json.decode(request.id)


class _CancelParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int | str | None


class _CancelledParams(msgspec.Struct, frozen=True, rename="camel"):
    request_id: int | str


def read_cancel(request: Request) -> bytes | Cancel | None:
    """Parse a cancellation: an error for a request, None for an invalid notification."""
    name = request.method
    try:
        if request.id is not None:
            raise invalid_request(f"`{name}` is a notification; omit its own `id`")
        if name == CANCEL:
            return Cancel(read_params(request.params, _CancelParams, name).id)
        return Cancel(read_params(request.params, _CancelledParams, name).request_id)
    except RpcError as error:
        return None if request.id is None else encode_error(request.id, error)
