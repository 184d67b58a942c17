"""Sessions and handles that a caller may use."""

from __future__ import annotations

import sys

import msgspec
import trio
from msgspec import UNSET

from haft_protocol.errors import shown
from haft_protocol.methods import (
    ApprovalsListParams,
    HandlesListParams,
    InquiriesListParams,
    Params,
)
from haftd.caller import Caller, Confinement
from haftd.client_requests import Clients
from haftd.core.handles import Handle
from haftd.core.registry import Registry
from haftd.core.sessions import Sessions
from haftd.executions.supervisor import Supervisor
from haftd.host.process.peer_process import PeerProcess


class Access(msgspec.Struct, frozen=True):
    """Registry and sessions within a caller's rights."""

    registry: Registry
    sessions: Sessions
    clients: Clients

    def session_of(
        self,
        caller: Caller,
        params: Params | HandlesListParams | InquiriesListParams | ApprovalsListParams,
    ) -> str:
        """Return a call's session, which the caller joins; raises `not_authorized`."""
        name = caller.session if params.session is UNSET else params.session
        if caller.confinement is not None:
            _check(caller, name)
        if name != "*" and not caller.read_only:
            is_new = self.sessions.join(name, caller)
            if is_new and (caller.inquiry or caller.approval):
                self.clients.arrive()
        # One text for all handles of a session; a caller's own is interned.
        return name if name is caller.session else sys.intern(name)

    def check_session(
        self,
        caller: Caller,
        params: Params | HandlesListParams | InquiriesListParams | ApprovalsListParams,
    ) -> str:
        """Return a call's session and change nothing; raises `not_authorized`."""
        name = caller.session if params.session is UNSET else params.session
        _check(caller, name)
        return name

    def handles(self, session: str | None = None) -> list[Handle]:
        for handle in self.registry.sweep(trio.current_time()):
            handle.spool.close()
        return self.registry.list(session)

    def reachable(self, caller: Caller, session: str) -> list[Handle]:
        return [
            handle
            for handle in self.registry.list(None if session == "*" else session)
            if caller.may_reach(handle.settings.may)
        ]

    def find(self, caller: Caller, params: Params, handle_id: str) -> Handle:
        """Return a call's handle; raises `handle_not_found`, and `not_authorized` if its processes
        have more rights than the caller."""
        session = self.session_of(caller, params)
        handle = self.registry.find(session, handle_id, trio.current_time)
        if caller.confinement is not None and not caller.may_reach(handle.settings.may):
            raise caller.refusal(f"use handle {shown(handle_id)}, which may do more")
        return handle


def _check(caller: Caller, session: str) -> None:
    if not caller.may_use(session):
        raise caller.refusal(
            "use all sessions" if session == "*" else f"use session {shown(session)}"
        )


def confine(supervisor: Supervisor, peer: PeerProcess) -> Confinement | None:
    """Return the rights of a process started by this daemon, else None."""
    if peer.lineage is None:
        return Confinement("gone")
    if not peer.lineage:
        return None
    holder = supervisor.ancestor_of(peer.lineage)
    if holder is None:
        return Confinement("started")
    execution, is_led = holder
    handle = execution.handle
    if handle.settings.is_sandboxed:
        return Confinement("sandboxed", handle.id, handle.session)
    may = handle.settings.may if is_led else frozenset[str]()
    return Confinement("handle", handle.id, handle.session, may)
