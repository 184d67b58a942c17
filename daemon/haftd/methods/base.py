"""The form of a method, and deferred replies.

A method decides synchronously: it returns its result, raises `RpcError`, or returns a
`DeferredReply` when the reply depends on I/O or time. Only a deferred reply gets a task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from haftd.caller import Caller


@dataclass(frozen=True, slots=True)
class DeferredReply:
    """A deferred reply. `run` is awaited in a task of the connection, which is cancelled when the
    client disconnects or cancels; the handle goes on. In a batch `run_in_batch` is awaited instead,
    if given, as the batch replies as a whole."""

    run: Callable[[], Awaitable[object]]
    run_in_batch: Callable[[], Awaitable[object]] | None = None


async def result_of(reply: object, *, in_batch: bool = False) -> object:
    """Return the result of a method's reply, awaiting a deferred one."""
    while isinstance(reply, DeferredReply):
        reply = await (reply.run_in_batch if in_batch and reply.run_in_batch else reply.run)()
    return reply


MethodHandler = Callable[[Caller, Any], object]
"""Takes the caller and the decoded params; returns a result or a `DeferredReply`; raises `RpcError`."""
