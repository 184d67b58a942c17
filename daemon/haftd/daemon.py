"""Parts of a running daemon, and the facts of `daemon/status`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import msgspec
import trio
from msgspec import UNSET, UnsetType

from haft_protocol.methods import Problem, WebSocketInfo
from haftd.audit import Audit
from haftd.client_requests import Clients
from haftd.config.settings import Settings
from haftd.core.registry import Registry
from haftd.core.sessions import Sessions, Turns
from haftd.core.spool import Budget
from haftd.executions.descriptions import Describer
from haftd.executions.helpers import HelperRunner
from haftd.executions.starter import Starter
from haftd.executions.supervisor import Supervisor
from haftd.inquiries.router import InquiryRouter
from haftd.notices.output_watcher import OutputWatcher
from haftd.notices.queues import NoticeQueues
from haftd.runtimes.mcp.servers import Servers
from haftd.subscriptions import Subscriptions
from haftd.tools.catalogue import Catalogue

Reload = Callable[[], Awaitable[None]]
"""Reload configuration and definitions."""


class Facts(msgspec.Struct):
    version: str
    socket: str
    started_at: float
    """Start by the wall clock."""
    began: float
    """Start by trio's clock."""
    containment: str = "processes"
    path: str = ""
    """The daemon's `PATH`."""
    managed: bool = False
    """The service manager (systemd) started the daemon."""
    cache: str | UnsetType = UNSET
    """Package cache from which the daemon runs."""
    websocket: WebSocketInfo | UnsetType = UNSET
    prove: Callable[[str], str] | None = None
    """Proof for a WebSocket client's challenge."""
    recovered: dict[str, int] | UnsetType = UNSET
    """Counts of the start's recovery from an earlier daemon."""
    unconfirmed: tuple[int, ...] = ()
    """Processes whose end that recovery could not confirm."""
    problems: list[Problem] = msgspec.field(default_factory=list)
    connections: Callable[[], int] = lambda: 0
    refused: Callable[[], dict[str, int]] = dict
    """Counts of what was refused since the start, by kind."""
    budget: Budget = msgspec.field(default_factory=lambda: Budget(0))
    """Disk budget of output."""


class Daemon(msgspec.Struct):
    """Wired parts; a method takes those it needs (`methods.table`)."""

    settings: Settings
    registry: Registry
    sessions: Sessions
    clients: Clients
    inquiries: InquiryRouter
    supervisor: Supervisor
    catalogue: Catalogue
    starter: Starter
    helpers: HelperRunner
    describer: Describer
    servers: Servers
    facts: Facts
    audit: Audit
    notices: NoticeQueues
    subscriptions: Subscriptions
    watching: OutputWatcher
    turns: Turns
    nursery: trio.Nursery
    """Nursery of the handles' tasks."""
    reload: Reload
    stop: Callable[[str | None], None]
    """Request the stop, for the named client."""


def known_problems(daemon: Daemon) -> tuple[Problem, ...]:
    """Return the problems of `daemon/status`, as of now."""
    return (
        *daemon.facts.problems,
        *daemon.catalogue.failed_descriptions(),
        *daemon.catalogue.server_problems,
        *daemon.audit.problems,
        *daemon.catalogue.store_problems,
        *_cut_output(daemon.registry, daemon.facts.budget),
    )


def _cut_output(registry: Registry, budget: Budget) -> Iterator[Problem]:
    """Yield the reasons for output cut since the start."""
    if budget.faults:
        times = "once" if budget.faults == 1 else f"{budget.faults} times"
        message = (
            f"output that should be kept on disk could not be written or read {times}, and some unread output may be lost; check that the disk is not full and that the folder exists: "
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
