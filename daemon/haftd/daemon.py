"""What the verbs work on: registry, sessions, tools and the supervisor, and their common questions.

Rules: everything here decides synchronously. Files, sockets and signals are the app's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field

import trio
from msgspec import UNSET, UnsetType

from haft_protocol.errors import RpcError, shown
from haft_protocol.methods import (
    ApprovalsListParams,
    HandlesListParams,
    InquiriesListParams,
    Params,
    Problem,
    SpawnParams,
    WebSocketInfo,
)
from haft_protocol.states import EndedBy
from haftd.audit import Audit
from haftd.caller import Caller, Confinement
from haftd.client_requests import Clients
from haftd.config.settings import Settings
from haftd.core.batch import SpawnKey, admit_batch
from haftd.core.handles import Handle
from haftd.core.notices import NoticeQueues
from haftd.core.registry import Registry
from haftd.core.sessions import Sessions
from haftd.core.spool import Budget
from haftd.core.turns import Turns
from haftd.executions.describing import Describing
from haftd.executions.helpers import HelperRunner
from haftd.executions.starting import Starter
from haftd.executions.supervisor import Supervisor
from haftd.executions.watching import Watching
from haftd.host.process.peer_process import PeerProcess
from haftd.inquiries.router import InquiryRouter
from haftd.subscriptions import Subscriptions
from haftd.tools.catalogue import Catalogue

__all__ = ["Daemon", "Facts", "cut_output"]

_AT_ONCE = 8
"""Spawns of a batch that are checked before others have their turn: some milliseconds."""


@dataclass(slots=True)
class Facts:
    """What daemon/status reports and nobody else needs."""

    version: str
    socket: str
    started_at: float
    began: float
    containment: str = "processes"
    path: str = ""
    managed: bool = False
    websocket: WebSocketInfo | UnsetType = UNSET
    prove: Callable[[str], str] | None = None
    """The proof for the challenge of a WebSocket's client; None where there is no WebSocket."""
    recovered: dict[str, int] | UnsetType = UNSET
    unconfirmed: tuple[int, ...] = ()
    problems: list[Problem] = field(default_factory=list)
    connections: Callable[[], int] = lambda: 0
    refused: Callable[[], dict[str, int]] = dict
    budget: Budget = field(default_factory=lambda: Budget(0))
    """The disk for output, and how often it failed."""


@dataclass(slots=True)
class Daemon:
    """The daemon's state as one value that the app wires and the verbs use."""

    settings: Settings
    registry: Registry
    sessions: Sessions
    clients: Clients
    inquiries: InquiryRouter
    supervisor: Supervisor
    catalogue: Catalogue
    starter: Starter
    helpers: HelperRunner
    describing: Describing
    facts: Facts
    audit: Audit
    notices: NoticeQueues
    subscriptions: Subscriptions
    watching: Watching
    turns: Turns
    nursery: trio.Nursery
    """For what goes on without its caller; the handles'."""
    reload: Callable[[], Awaitable[tuple[Problem, ...]]]
    """Read configuration and definitions again; returns all problems there are now."""
    stir: Callable[[], None]
    """Say that a handle may be due to be let go."""
    stop: Callable[[str | None], None]
    """Ask the app to stop; the argument says which client asked."""
    stopping: bool = False

    def session_of(
        self,
        caller: Caller,
        params: Params | HandlesListParams | InquiriesListParams | ApprovalsListParams,
    ) -> str:
        """The session of a call; the caller belongs to it from now on. Raises `not_authorized` for one
        that a process which haftd has started may not use."""
        name = caller.session if isinstance(params.session, UnsetType) else params.session
        if not caller.may_use(name):
            raise caller.refusal(
                "use all sessions" if name == "*" else f"use session {shown(name)}"
            )
        if name != "*":
            is_new = self.sessions.join(name, caller)
            if is_new and (caller.inquiry or caller.approval):
                self.clients.arrive()
        return name

    def confine(self, peer: PeerProcess) -> Confinement | None:
        """Return what a process may do that this daemon has started; None for any other."""
        if peer.lineage is None:
            return Confinement("gone")
        if not peer.lineage:
            return None
        found = self.supervisor.holding(peer.lineage)
        if found is None:
            return Confinement("started")
        use, is_led = found
        handle = use.handle
        may = handle.settings.may if is_led else frozenset[str]()
        return Confinement("handle", handle.id, handle.session, may)

    def handles(self, session: str | None = None) -> list[Handle]:
        """The handles of a session, or all; those whose time is over are let go first."""
        for handle in self.registry.sweep(trio.current_time()):
            handle.spool.close()
        return self.registry.list(session)

    def leave(self, caller: Caller) -> None:
        """A connection is gone; what is not to outlast the last one of its session is ended."""
        self.subscriptions.remove_connection(caller)
        for session in self.sessions.leave(caller):
            for use in self.supervisor.uses(session):
                if use.handle.settings.on_disconnect == "abort":
                    self.supervisor.end(use, EndedBy("disconnect", caller.label))

    def find(self, caller: Caller, params: Params, handle_id: str) -> Handle:
        """The handle that a call names; raises `handle_not_found`, and `not_authorized` where its
        processes may do more than the caller."""
        session = self.session_of(caller, params)
        handle = self.registry.find(session, handle_id, trio.current_time())
        if not caller.may_reach(handle.settings.may):
            raise caller.refusal(f"use handle {shown(handle_id)}, which may do more")
        return handle

    def reachable(self, caller: Caller, session: str) -> list[Handle]:
        """The handles of a session that the caller may use."""
        return [one for one in self.registry.list(session) if caller.may_reach(one.settings.may)]

    def record(
        self, event: str, caller: Caller, handle: Handle | None = None, **more: object
    ) -> None:
        """Put into the audit log what a client has just done; what was refused never gets here."""
        fields: dict[str, object] = {"client": caller.identity}
        if handle is not None:
            fields["session"] = handle.session
            fields["handle"] = handle.id
            fields["generation"] = handle.generation
        self.audit.record(event, **fields, **more)

    def reserve(
        self, caller: Caller, spawns: Sequence[SpawnParams]
    ) -> Generator[None, None, list[RpcError | None] | list[Callable[[], None]]]:
        """Return for each spawn of a batch the clash that it is part of, in steps. Where there is none
        the ids are kept for them: what is returned for each gives its id up."""
        keys = []
        for count, one in enumerate(spawns):
            if count and count % _AT_ONCE == 0:
                yield
            session = self.session_of(caller, one)
            try:
                keys.append(self.starter.prepare(session, one).key)
            except RpcError:
                # It fails by itself when it is its turn; its id is taken into account all the same.
                keys.append(SpawnKey(session, one.id))
        errors = admit_batch(keys, self.registry)
        if any(errors):
            return errors
        return [self.registry.reserve(key.session, key.id) for key in keys]


def cut_output(registry: Registry, budget: Budget) -> Iterator[Problem]:
    """Say why output was cut since the daemon was started: for lack of descriptors, or by the disk."""
    if budget.faults:
        times = "once" if budget.faults == 1 else f"{budget.faults} times"
        message = (
            f"output that should be kept on disk could not be written or read {times}, and some that was "
            "not read yet may be gone; look whether the disk is full, and whether the folder is there: "
            "`spool` in the state folder"
        )
        yield Problem(file="(spool)", key="", message=message)
    if not registry.truncated_handles:
        return
    message = (
        f"of {registry.truncated_handles} stopped handles, {registry.truncated_unread} of them unread, only the "
        "beginning and the end of the output was kept: there are too few file descriptors for more; "
        "raise `ulimit -n`, with systemd `LimitNOFILE=`"
    )
    yield Problem(file="(descriptors)", key="", message=message)
