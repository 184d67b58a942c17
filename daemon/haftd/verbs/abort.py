"""abort: end a handle and everything it started; answered when nothing of it is left."""

from __future__ import annotations

import trio
from msgspec import UnsetType

from haft_protocol.errors import handle_stopped
from haft_protocol.methods import AbortParams
from haft_protocol.states import EndedBy, HandleState
from haftd.core.handles import Handle
from haftd.daemon import Daemon

from .base import Caller, Later

__all__ = ["abort", "last_state"]


def last_state(handle: Handle) -> HandleState:
    """The handle as a plain fetch shows it."""
    return handle.view(trio.current_time(), view="delta", cursor=None, max_bytes=65_536)


def abort(daemon: Daemon, caller: Caller, params: AbortParams) -> Later:
    """End it: TERM, the grace, KILL. A stopped handle is served only while something of it lives;
    else raises `handle_stopped` with the state."""
    handle = daemon.find(caller, params, params.id)
    use = daemon.supervisor.use_of(handle)
    if use is None or (handle.stopped and not handle.left_behind()):
        raise handle_stopped(handle.id, last_state(handle))
    grace_s = None if isinstance(params.grace_ms, UnsetType) else params.grace_ms / 1000
    held = use

    async def ended() -> HandleState:
        await daemon.supervisor.abort(held, EndedBy("abort", caller.label), grace_s)
        if held.failure is not None:
            raise held.failure
        return last_state(handle)

    return Later(ended)
