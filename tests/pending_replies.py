"""Await a pending reply in the test's own task."""

from __future__ import annotations

from collections.abc import Callable

import outcome
import trio

from haftd.methods.base import DeferredReply, HandleWait
from haftd.methods.wait import register


async def result_of(reply: object) -> object:
    """Return the final result, as a connection does; raise the call's error."""
    while True:
        if isinstance(reply, DeferredReply):
            reply = await reply.run()
        elif isinstance(reply, HandleWait):
            reply = await _settled(reply)
        else:
            return reply


async def _settled(reply: HandleWait) -> object:
    outcomes: list[outcome.Outcome[object]] = []
    settled = trio.Event()

    def settle(go_on: Callable[[], object]) -> None:
        outcomes.append(outcome.capture(go_on))
        settled.set()

    wait = register(reply, settle)
    try:
        await settled.wait()
    except trio.Cancelled:
        if wait.withdraw():
            reply.on_cancel(False)
        raise
    return outcomes[0].unwrap()
