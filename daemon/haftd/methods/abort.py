"""abort: end a handle and all its processes, also of the id's earlier executions, which no other
call can name; replies once none is left."""

from __future__ import annotations

import trio
from msgspec import UnsetType

from haft_protocol.errors import handle_stopped
from haft_protocol.methods import AbortParams
from haft_protocol.states import EndedBy, HandleState
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.core.lifecycle import State

from .approval_gate import approved
from .base import DeferredReply, HandleServices
from .read import plain_state, read_plain, save_long


def abort(services: HandleServices, caller: Caller, params: AbortParams) -> object:
    """Send TERM, wait the grace, send KILL. Raises `handle_stopped` if no process is left."""
    handle = services.access.find(caller, params, params.id)

    def serve(params: AbortParams) -> DeferredReply:
        return _end(services, caller, handle, params)

    execution = services.supervisor.execution_of(handle)
    if handle.stopped or (
        handle.state is State.PENDING and (execution is None or handle.is_awaiting_approval)
    ):
        # No approval for a start means none for its end.
        return serve(params)
    return approved(services, caller, "abort", handle, params, serve, lambda params: None)


def _end(
    services: HandleServices, caller: Caller, handle: Handle, params: AbortParams
) -> DeferredReply:
    executions = services.supervisor.executions(handle.session, handle.id)
    survivors = services.supervisor.survivors(handle.session, handle.id)
    if not survivors and not any(
        not execution.handle.stopped or execution.handle.left_behind() for execution in executions
    ):
        raise handle_stopped(handle.id, plain_state(handle))
    grace_s = None if isinstance(params.grace_ms, UnsetType) else params.grace_ms / 1000
    for execution in executions:
        services.supervisor.end(execution, EndedBy("abort", caller.label), grace_s)
    services.audit.record_action("abort", caller, handle)

    async def ended() -> HandleState:
        for execution in executions:
            await execution.done.wait()
        async with trio.open_nursery() as nursery:
            for remnant in survivors:
                nursery.start_soon(services.supervisor.kill_survivors, remnant)
        await save_long((handle,))
        state = read_plain(handle)
        services.supervisor.wake_expiry()
        return state

    return DeferredReply(ended)
