"""session/list and session/close."""

from __future__ import annotations

from haft_protocol.methods import (
    Empty,
    SessionCloseParams,
    SessionCloseResult,
    SessionInfo,
    SessionListResult,
)
from haft_protocol.states import EndedBy
from haftd.caller import Caller
from haftd.core.sessions import Turns
from haftd.notices.queues import NoticeQueues

from .access import Access
from .base import DeferredReply, HandleServices, StartServices
from .read import read_plain, save_long


def session_list(access: Access, caller: Caller, params: Empty) -> SessionListResult:
    if not caller.may_use("*"):
        raise caller.refusal("list all sessions")
    names = set(access.sessions.names()) | {handle.session for handle in access.handles()}
    rows = []
    for name in sorted(names):
        handles = access.registry.list(name)
        stopped = sum(handle.stopped for handle in handles)
        rows.append(
            SessionInfo(
                session=name,
                live=len(handles) - stopped,
                stopped=stopped,
                connections=access.sessions.connections(name),
            )
        )
    return SessionListResult(tuple(rows))


def session_close(
    services: HandleServices,
    queues: NoticeQueues,
    turns: Turns,
    caller: Caller,
    params: SessionCloseParams,
) -> DeferredReply:
    """Abort all processes; reply with each handle's last state, and remove the handles."""
    access = services.access
    session = access.session_of(caller, params)
    handles = access.reachable(caller, session)
    if len(handles) < len(access.registry.list(session)):
        raise caller.refusal("close its session, which has handles that may do more")
    executions = services.supervisor.executions(session)

    services.inquiries.close(session)
    for execution in executions:
        services.supervisor.end(execution, EndedBy("abort", caller.label))
    services.audit.record_action(
        "session/close",
        caller,
        session=session,
        handles=[execution.handle.id for execution in executions],
    )

    async def closed() -> SessionCloseResult:
        for execution in executions:
            await execution.done.wait()
        await save_long(handles)
        states = tuple(read_plain(handle) for handle in handles if handle.stopped)
        for handle in handles:
            access.registry.forget(handle)
        access.sessions.close(session)
        queues.forget(session)
        turns.forget(session)
        services.supervisor.wake_expiry()
        return SessionCloseResult(states)

    return DeferredReply(closed)


def leave(services: StartServices, caller: Caller) -> None:
    """End the session's transient state after its last connection."""
    services.subscriptions.remove_connection(caller)
    for execution in services.supervisor.executions():
        execution.leave_size(caller)
    for session in services.access.sessions.leave(caller):
        for execution in services.supervisor.executions(session):
            if execution.handle.settings.on_disconnect == "abort":
                services.supervisor.end(execution, EndedBy("disconnect", caller.label))
