"""abort: end a handle and all its processes; replies once none is left.

The end and its requester are recorded at once. Processes of earlier executions of the id are ended
too, since no other call can name them.
"""

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
from .base import DeferredReply
from .read import plain_state, read_plain
from .services import HandleServices


def abort(services: HandleServices, caller: Caller, params: AbortParams) -> object:
    """Send TERM, wait the grace, send KILL. Raises `handle_stopped` if no process is left."""
    handle = services.access.find(caller, params, params.id)

    def serve(params: AbortParams) -> DeferredReply:
        return _end(services, caller, handle, params)

    use = services.supervisor.use_of(handle)
    if handle.stopped or (
        handle.state is State.PENDING and (use is None or handle.is_awaiting_approval)
    ):
        # A start without approval needs none to end.
        return serve(params)
    return approved(services, caller, "abort", handle, params, serve, lambda params: None)


def _end(
    services: HandleServices, caller: Caller, handle: Handle, params: AbortParams
) -> DeferredReply:
    uses = services.supervisor.uses(handle.session, handle.id)
    remains = services.supervisor.remains(handle.session, handle.id)
    if not remains and not any(not use.handle.stopped or use.handle.left_behind() for use in uses):
        raise handle_stopped(handle.id, plain_state(handle))
    grace_s = None if isinstance(params.grace_ms, UnsetType) else params.grace_ms / 1000
    for use in uses:
        services.supervisor.end(use, EndedBy("abort", caller.label), grace_s)
    services.audit.record_action("abort", caller, handle)

    async def ended() -> HandleState:
        for use in uses:
            await use.done.wait()
        async with trio.open_nursery() as nursery:
            for remnant in remains:
                nursery.start_soon(services.supervisor.kill_remains, remnant)
        services.supervisor.wake_expiry()
        return read_plain(handle)

    return DeferredReply(ended)
