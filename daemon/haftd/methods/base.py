"""Form of a method, and deferred replies.

A method decides synchronously: it returns a result, raises `RpcError`, or returns a `DeferredReply`
for a reply that depends on I/O or time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from haftd.caller import Caller


@dataclass(frozen=True, slots=True)
class DeferredReply:
    """Reply that `run` awaits, in a task cancelled by a disconnect or by the client; the handle
    goes on.

    Batches await `run_in_batch`, if given, as they reply as a whole.
    """

    run: Callable[[], Awaitable[object]]
    run_in_batch: Callable[[], Awaitable[object]] | None = None


async def result_of(reply: object, *, in_batch: bool = False) -> object:
    """Return a method's result, awaiting deferred replies."""
    while isinstance(reply, DeferredReply):
        reply = await (reply.run_in_batch if in_batch and reply.run_in_batch else reply.run)()
    return reply


MethodHandler = Callable[[Caller, Any], object]
"""From the caller and decoded params to a result or `DeferredReply`; raises `RpcError`."""
