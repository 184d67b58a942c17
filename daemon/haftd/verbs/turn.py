"""turn/begin and turn/end: what runs in a session when the assistant is done with it.

Rules: what is to be ended is decided at once, whoever goes away meanwhile; only the answer waits, and
not without a bound. A wait that comes to its bound ends nothing. Section 7.
"""

from __future__ import annotations

import trio
from msgspec import UnsetType

from haft_protocol.methods import Empty, TurnEndParams, TurnEndResult, TurnResult
from haft_protocol.states import EndedBy
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.daemon import Daemon
from haftd.use import Use

from .base import Later
from .reading import plain_state
from .waiting import until

__all__ = ["turn_begin", "turn_end"]


def turn_begin(daemon: Daemon, caller: Caller, params: Empty) -> TurnResult:
    """Begin a turn; what runs is not touched."""
    session = daemon.session_of(caller, params)
    daemon.remembered.end_turn(session)
    return TurnResult(daemon.turns.begin(session))


def turn_end(daemon: Daemon, caller: Caller, params: TurnEndParams) -> Later:
    """End the turn; answers when nothing is left of what it aborts, and what it awaits has stopped
    or had its time."""
    session = daemon.session_of(caller, params)
    turn = daemon.turns.end(session)
    daemon.remembered.end_turn(session)
    live = [one for one in daemon.registry.list(session) if not one.stopped]
    aborted: list[Use] = []
    awaited: list[Handle] = []
    for handle in live:
        policy = handle.on_turn_end if isinstance(params.policy, UnsetType) else params.policy
        use = daemon.supervisor.use_of(handle)
        if policy == "abort" and use is not None:
            daemon.supervisor.end(use, EndedBy("turn_end", caller.label))
            aborted.append(use)
        elif policy == "await":
            awaited.append(handle)
    daemon.record("turn/end", caller, session=session, handles=[use.handle.id for use in aborted])
    deadline = trio.current_time() + params.timeout_ms / 1000

    async def ended() -> TurnEndResult:
        for use in aborted:
            await use.done.wait()
        await until(awaited, lambda: all(one.stopped for one in awaited) or None, deadline=deadline)
        daemon.stir()
        return TurnEndResult(turn, tuple(plain_state(one, peek=True) for one in live))

    return Later(ended)
