"""What every verb stands on: its form, and an answer that has to wait.

Rules: a verb decides synchronously. It returns its result, or raises `RpcError`, or returns `Later`
when the answer waits for the world; only then does the call get a task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from haftd.caller import Caller

__all__ = ["Later", "Verb", "result_of"]


@dataclass(frozen=True, slots=True)
class Later:
    """An answer that has to wait. `run` is awaited in a task of the connection's, which is
    cancelled when the client goes away or cancels; a handle is never harmed by that. As a member of a
    batch, which is answered as a whole, it is `run_in_batch` where that is given."""

    run: Callable[[], Awaitable[object]]
    run_in_batch: Callable[[], Awaitable[object]] | None = None


async def result_of(reply: object, *, in_batch: bool = False) -> object:
    """The result of a verb's answer, waited for where it has to be."""
    while isinstance(reply, Later):
        reply = await (reply.run_in_batch if in_batch and reply.run_in_batch else reply.run)()
    return reply


Verb = Callable[[Caller, Any], object]
"""Takes the caller and the decoded params; returns a result or `Later`; raises `RpcError`."""
