"""spawn: start a tool under an id. The id is taken at once; the answer is a fact, not a hope."""

from __future__ import annotations

from haft_protocol.errors import shutting_down
from haft_protocol.methods import SpawnParams
from haftd.daemon import Daemon

from .base import Caller, Later, settled
from .reading import answer, look, plan, usual

__all__ = ["spawn"]


def spawn(daemon: Daemon, caller: Caller, params: SpawnParams) -> object:
    """Admit the id and schedule the tool; answers once it runs and `wait` holds.

    Raises what admission, arguments and the definition may raise; a tool that cannot be started
    gives `spawn_failed` and leaves no handle. A repeated `call_id` gets the first one's handle.
    """
    if daemon.stopping:
        raise shutting_down()
    session = daemon.session_of(caller, params)
    handle, use = daemon.starter.start(session, params)
    if use is None:
        use = daemon.supervisor.use_of(handle)
    if use is None:
        return look(daemon, params, handle)
    held = use

    async def started() -> object:
        await held.begun.wait()
        if held.failure is not None:
            raise held.failure
        reading = plan(params, handle, since=0, default=usual(handle))
        return await settled(answer(daemon, params, handle, reading))

    return Later(started)
