"""session/list and session/close: who owns handles."""

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
from haftd.daemon import Daemon

from .base import DeferredReply
from .reading import read_plain

__all__ = ["session_close", "session_list"]


def session_list(daemon: Daemon, caller: Caller, params: Empty) -> SessionListResult:
    """List the sessions that have handles or connections."""
    if not caller.may_use("*"):
        raise caller.refusal("list all sessions")
    names = set(daemon.sessions.names()) | {one.session for one in daemon.handles()}
    rows = []
    for name in sorted(names):
        handles = daemon.registry.list(name)
        stopped = sum(one.stopped for one in handles)
        rows.append(
            SessionInfo(
                session=name,
                live=len(handles) - stopped,
                stopped=stopped,
                connections=daemon.sessions.connections(name),
            )
        )
    return SessionListResult(tuple(rows))


def session_close(daemon: Daemon, caller: Caller, params: SessionCloseParams) -> DeferredReply:
    """Abort the session's live handles and end what its stopped ones left behind; answers with
    the last state of each, after which the session's handles are no longer kept."""
    session = daemon.session_of(caller, params)
    handles = daemon.reachable(caller, session)
    if len(handles) < len(daemon.registry.list(session)):
        raise caller.refusal("close its session, where handles are that may do more")
    uses = daemon.supervisor.uses(session)

    daemon.inquiries.close(session)
    for use in uses:
        daemon.supervisor.end(use, EndedBy("abort", caller.label))
    daemon.record("session/close", caller, session=session, handles=[use.handle.id for use in uses])

    async def closed() -> SessionCloseResult:
        for use in uses:
            await use.done.wait()
        states = tuple(read_plain(one) for one in handles if one.stopped)
        for one in handles:
            daemon.registry.forget(one)
        daemon.sessions.close(session)
        daemon.notices.forget(session)
        daemon.turns.forget(session)
        daemon.stir()
        return SessionCloseResult(states)

    return DeferredReply(closed)
