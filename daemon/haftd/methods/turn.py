"""turn/begin and turn/end: handles at the end of an assistant's turn (docs/protocol.md, "Turns").

Decisions survive a disconnect; undecided handles are aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio
from msgspec import UnsetType

from haft_protocol.inquiries import Inquiry, turn_end_id
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
from haftd.core.sessions import Turns
from haftd.executions.execution import Execution
from haftd.inquiries.kind import InquiryContext, Unanswered
from haftd.inquiries.pending_inquiry import PendingInquiry
from haftd.inquiries.router import InquiryRouter
from haftd.inquiries.turn_end import TurnEnd

from .access import Access
from .base import DeferredReply, HandleServices, HandleWait
from .read import plain_state


def turn_begin(
    access: Access, router: InquiryRouter, turns: Turns, caller: Caller, params: Empty
) -> TurnResult:
    session = access.session_of(caller, params)
    router.cache.end_turn(session)
    return TurnResult(turns.begin(session))


def turn_end(
    services: HandleServices,
    turns: Turns,
    nursery: trio.Nursery,
    caller: Caller,
    params: TurnEndParams,
) -> DeferredReply:
    """End the turn; reply once aborted handles are gone, awaited handles stopped or timed out."""
    session = services.access.session_of(caller, params)
    turn = turns.end(session)
    services.inquiries.cache.end_turn(session)
    live = services.access.registry.live(session)
    live = [handle for handle in live if caller.may_reach(handle.settings.may)]
    aborted: list[Execution] = []
    awaited: list[Handle] = []
    asked: list[Handle] = []
    for handle in live:
        policy = (
            handle.settings.on_turn_end if isinstance(params.policy, UnsetType) else params.policy
        )
        execution = services.supervisor.execution_of(handle)
        if policy == "abort" and execution is not None:
            services.supervisor.end(execution, EndedBy("turn_end", caller.label))
            aborted.append(execution)
        elif policy == "await":
            awaited.append(handle)
        elif policy == "inquire":
            asked.append(handle)
    services.audit.record_action(
        "turn/end", caller, session=session, handles=[execution.handle.id for execution in aborted]
    )
    timeout_s = params.timeout_ms / 1000
    deadline = trio.current_time() + timeout_s
    inquiries = _ask(services, nursery, caller, session, params, asked)

    async def ended() -> object:
        for pending in inquiries:
            await pending.settled.wait()
        decided = _decided(inquiries)
        executions = [services.supervisor.execution_of(handle) for handle in _aborted(decided)]
        for execution in (
            *aborted,
            *(execution for execution in executions if execution is not None),
        ):
            await execution.done.wait()
        waited = [handle for handle in asked if decided.get(handle) == "wait"]
        return _when_stopped(
            awaited,
            deadline,
            lambda: _when_stopped(waited, trio.current_time() + timeout_s, result),
        )

    def result() -> TurnEndResult:
        services.supervisor.wake_expiry()
        return TurnEndResult(
            turn,
            tuple(plain_state(handle) for handle in live),
            tuple(_inquired(handle, inquiries) for handle in asked),
        )

    return DeferredReply(ended)


def _when_stopped(
    handles: list[Handle], deadline: float, go_on: Callable[[], object]
) -> HandleWait:
    return HandleWait(
        tuple(handles),
        lambda: all(handle.stopped for handle in handles) or None,
        lambda _: go_on(),
        deadline,
    )


def _ask(
    services: HandleServices,
    nursery: trio.Nursery,
    caller: Caller,
    session: str,
    params: TurnEndParams,
    handles: list[Handle],
) -> list[PendingInquiry]:
    """Return the questions about these handles: open ones, and one for the rest."""
    asked = [
        pending
        for pending, _ in services.inquiries.list_open(Inquiry, session)
        if isinstance(pending.kind, TurnEnd) and set(pending.kind.depends_on) & set(handles)
    ]
    covered = {handle for pending in asked for handle in pending.kind.depends_on}
    new = tuple(handle for handle in handles if handle not in covered)
    if not new:
        return asked

    def decide(decided: Mapping[Handle, TurnDecision]) -> None:
        ended = _aborted(decided)
        for handle in ended:
            execution = services.supervisor.execution_of(handle)
            if execution is not None:
                services.supervisor.end(execution, EndedBy("turn_end", caller.label))
        if ended:
            ids = [handle.id for handle in ended]
            services.audit.record_action("turn/end", caller, session=session, handles=ids)

    kind = TurnEnd(
        context=InquiryContext(caller=caller, context=params.context),
        session=session,
        id=turn_end_id(session, services.inquiries.new_number()),
        may=frozenset[str]().union(*(handle.settings.may for handle in new)),
        depends_on=new,
        target=params.target,
        timeout_s=params.timeout_ms / 1000,
        decide=decide,
    )
    pending = services.inquiries.put(kind)
    nursery.start_soon(services.inquiries.resolve, pending)
    return [*asked, pending]


def _aborted(decisions: Mapping[Handle, TurnDecision]) -> list[Handle]:
    return [handle for handle, decision in decisions.items() if decision == "abort"]


def _decided(inquiries: list[PendingInquiry]) -> dict[Handle, TurnDecision]:
    outcomes = (pending.outcome for pending in inquiries)
    return {
        handle: decision
        for outcome in outcomes
        if isinstance(outcome, dict)
        for handle, decision in outcome.items()
    }


def _inquired(handle: Handle, inquiries: list[PendingInquiry]) -> Inquired:
    pending = next(pending for pending in inquiries if handle in pending.kind.depends_on)
    decided = _decided([pending]).get(handle)
    if decided is None:
        return Inquired(handle.id, "stopped")
    end = pending.end
    return Inquired(handle.id, decided, end.reason if isinstance(end, Unanswered) else "")
