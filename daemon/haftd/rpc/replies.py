"""From a decided message to what is sent: replies that are there, that wait, and that stand in a batch.

Rules: values only; who decides is `dispatch`, who waits is the connection. A reply is encoded when it
is sent, since what the members of a batch may say depends on the others. A cancellation has two
names, and is a notification. Section 5.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field

import msgspec
import trio

from haft_protocol.encoding import encode_error
from haft_protocol.errors import RpcError, invalid_request, request_cancelled
from haft_protocol.rpc import Invalid, Request, Response, read_params
from haftd.methods.base import DeferredReply

CANCEL = "$/cancelRequest"
CANCELLED = "notifications/cancelled"
CANCELS = (CANCEL, CANCELLED)
"""LSP's name of it, and MCP's."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request, not yet encoded."""

    id: bytes
    method: str
    result: object = None
    error: RpcError | None = None


@dataclass(slots=True, eq=False)
class Waiting:
    """A request whose answer waits: `id` as it came (`None`: a notification), `key` its value. One
    `in_batch` is answered with the others of its batch."""

    id: bytes | None
    key: object
    method: str
    later: DeferredReply
    in_batch: bool = False

    def cancelled(self) -> Reply | None:
        """The reply when the caller cancelled it."""
        return None if self.id is None else Reply(self.id, self.method, error=request_cancelled())


Slot = bytes | Reply | Waiting | None
"""A member of a batch: its reply, encoded where it was no request, or `None` where there is none."""


@dataclass(slots=True)
class Batched:
    """A batch with members that wait, in request order; or one of which none does, with its `reply`,
    and that cancels something."""

    slots: list[Slot]
    cancels: list[Cancel]
    reply: bytes | None = None
    _left: int = 0

    def __post_init__(self) -> None:
        self._left = sum(isinstance(slot, Waiting) for slot in self.slots)

    @property
    def is_whole(self) -> bool:
        """Whether none of its members waits."""
        return not self._left

    def put(self, waiting: Waiting, reply: Reply | None) -> None:
        """Put one reply in its place."""
        self.slots[self.slots.index(waiting)] = reply
        self._left -= 1


@dataclass(frozen=True, slots=True)
class Cancel:
    """The caller no longer wants the answer to the requests with this id."""

    key: object


Ready = Callable[[], Awaitable[None]]
Item = Request | Response | Invalid


@dataclass(slots=True, eq=False)
class Deferred:
    """A batch that cannot be decided before all of `waits` were awaited; then it is to be resumed.
    Its peer is read meanwhile, also between the steps of that."""

    items: list[Item]
    waits: list[Ready]
    cancels: list[Cancel] = field(default_factory=list)
    """Those that came since it was resumed: for what of it was decided before them."""
    is_resumed: bool = False

    def withdraw(self, cancel: Cancel) -> None:
        """The caller no longer wants the answer to the requests of it with this id."""
        for at, one in enumerate(self.items):
            if isinstance(one, Request) and one.id is not None and key_of(one) == cancel.key:
                self.items[at] = Invalid(request_cancelled(), one.id)
        if self.is_resumed:
            self.cancels.append(cancel)

    async def ready(self) -> None:
        """Return when it can be decided."""
        async with trio.open_nursery() as nursery:
            for wait in self.waits:
                nursery.start_soon(wait)


Steps = Generator[None, None, bytes | Batched | None]
"""A batch being decided. Others may have their turns between two steps, but all are done: what has
been started has to be waited for."""

Answer = bytes | Waiting | Batched | Deferred | Cancel | Steps | None


def key_of(request: Request) -> object:
    """The id as a value; None where there is none."""
    return None if request.id is None else msgspec.json.decode(request.id)


class _CancelParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: int | str | None


class _CancelledParams(msgspec.Struct, frozen=True, rename="camel"):
    """As MCP has them; what else it adds to them is of no use here."""

    request_id: int | str


def read_cancel(request: Request) -> bytes | Cancel | None:
    """What a cancellation cancels; as a request it is an error, as a wrong notification nothing."""
    name = request.method
    try:
        if request.id is not None:
            raise invalid_request(f"`{name}` is a notification, leave its own `id` out")
        if name == CANCEL:
            return Cancel(read_params(request.params, _CancelParams, name).id)
        return Cancel(read_params(request.params, _CancelledParams, name).request_id)
    except RpcError as error:
        return None if request.id is None else encode_error(request.id, error)
