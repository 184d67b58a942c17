"""Form of a method: a synchronous decision, a result, an `RpcError`, or a `DeferredReply`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from haftd.caller import Caller


class DeferredReply(msgspec.Struct, frozen=True):
    """Reply that `run` awaits, in a task that a disconnect or the client cancels.

    A batch, which replies as a whole, awaits `run_in_batch` if given.
    """

    run: Callable[[], Awaitable[object]]
    run_in_batch: Callable[[], Awaitable[object]] | None = None


async def result_of(reply: object, *, in_batch: bool = False) -> object:
    while isinstance(reply, DeferredReply):
        reply = await (reply.run_in_batch if in_batch and reply.run_in_batch else reply.run)()
    return reply


MethodHandler = Callable[[Caller, Any], object]
"""From caller and decoded params to a result or `DeferredReply`; raises `RpcError`."""
