"""turn/begin and turn/end: what runs in a session when the assistant is done with it.

Rules: what is to be ended is decided at once, whoever goes away meanwhile; only the answer waits, and
not without a bound. A wait that comes to its bound ends nothing. What is asked about first is asked
without its caller, too, and what nobody decides in time is ended. Section 7.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio
from msgspec import UnsetType

from haft_protocol.methods import (
    Empty,
    Inquired,
    TurnDecision,
    TurnEndParams,
    TurnEndResult,
    TurnResult,
)
from haft_protocol.states import EndedBy
from haftd.caller import Caller
from haftd.core.handles import Handle
from haftd.daemon import Daemon
from haftd.inquiry.base import Origin
from haftd.inquiry.turnend import TurnEnd
from haftd.uses.use import Use

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
    live = [one for one in live if caller.may_reach(one.may)]
    aborted: list[Use] = []
    awaited: list[Handle] = []
    asked: list[Handle] = []
    for handle in live:
        policy = handle.on_turn_end if isinstance(params.policy, UnsetType) else params.policy
        use = daemon.supervisor.use_of(handle)
        if policy == "abort" and use is not None:
            daemon.supervisor.end(use, EndedBy("turn_end", caller.label))
            aborted.append(use)
        elif policy == "await":
            awaited.append(handle)
        elif policy == "inquire":
            asked.append(handle)
    daemon.record("turn/end", caller, session=session, handles=[use.handle.id for use in aborted])
    timeout_s = params.timeout_ms / 1000
    deadline = trio.current_time() + timeout_s
    ends = _ask(daemon, caller, session, params, asked)

    async def ended() -> TurnEndResult:
        for end in ends:
            await end.settled.wait()
        decided = {handle: one for end in ends for handle, one in end.decided.items()}
        uses = (daemon.supervisor.use_of(one) for one, what in decided.items() if what == "abort")
        for use in (*aborted, *(use for use in uses if use is not None)):
            await use.done.wait()
        await until(awaited, lambda: all(one.stopped for one in awaited) or None, deadline=deadline)
        waited = [one for one in asked if decided.get(one) == "wait"]
        bound = trio.current_time() + timeout_s
        await until(waited, lambda: all(one.stopped for one in waited) or None, deadline=bound)
        daemon.stir()
        return TurnEndResult(
            turn,
            tuple(plain_state(one, peek=True) for one in live),
            tuple(_inquired(one, ends) for one in asked),
        )

    return Later(ended)


def _ask(
    daemon: Daemon, caller: Caller, session: str, params: TurnEndParams, handles: list[Handle]
) -> list[TurnEnd]:
    """The questions about these: those that are asked already, and one for all others."""
    asked = [one for one in daemon.turn_ends.open(session) if set(one.handles) & set(handles)]
    known = {handle for one in asked for handle in one.handles}
    new = [handle for handle in handles if handle not in known]
    if not new:
        return asked

    def decide(decided: Mapping[Handle, TurnDecision]) -> None:
        ended = [handle for handle, what in decided.items() if what == "abort"]
        for handle in ended:
            use = daemon.supervisor.use_of(handle)
            if use is not None:
                daemon.supervisor.end(use, EndedBy("turn_end", caller.label))
        if ended:
            ids = [handle.id for handle in ended]
            daemon.record("turn/end", caller, session=session, handles=ids)

    may = frozenset[str]().union(*(handle.may for handle in new))
    origin = Origin(caller=caller, context=params.context, may=may)
    timeout_s = params.timeout_ms / 1000
    end = daemon.turn_ends.ask(session, new, origin, params.target, timeout_s, decide)
    return [*asked, end]


def _inquired(handle: Handle, ends: list[TurnEnd]) -> Inquired:
    end = next(one for one in ends if handle in one.handles)
    decided = end.decided.get(handle)
    return (
        Inquired(handle.id, "stopped") if decided is None else Inquired(handle.id, decided, end.why)
    )
