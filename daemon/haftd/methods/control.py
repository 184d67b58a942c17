"""daemon/status, daemon/shutdown and rpc.discover."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import trio
from msgspec import UNSET

from haft_protocol.discover import document
from haft_protocol.errors import limit_exceeded
from haft_protocol.inquiries import Inquiry
from haft_protocol.methods import Empty, OpenQuestion, ShutdownParams, StatusResult
from haftd.audit import Audit
from haftd.caller import Caller
from haftd.core.lifecycle import State
from haftd.core.registry import Registry
from haftd.daemon import Daemon, Facts, known_problems
from haftd.metrics import is_psutil_loaded, load_psutil, read_own_metrics

from .access import Access
from .base import DeferredReply


def status(
    daemon: Daemon, access: Access, caller: Caller, params: Empty
) -> StatusResult | DeferredReply:
    """Reply with metrics, problems, and open questions visible to the caller."""
    if is_psutil_loaded():
        return _status(daemon, access, caller)

    async def opened() -> StatusResult:
        await load_psutil()
        return _status(daemon, access, caller)

    return DeferredReply(opened)


def _status(daemon: Daemon, access: Access, caller: Caller) -> StatusResult:
    counts = dict.fromkeys((state.value for state in State), 0)
    spooled = 0
    handles = access.handles()
    for handle in handles:
        counts[handle.state.value] += 1
        spooled += handle.spool.on_disk
    figures = read_own_metrics()
    facts = daemon.facts
    return StatusResult(
        version=facts.version,
        pid=os.getpid(),
        started_at=facts.started_at,
        uptime_s=round(trio.current_time() - facts.began, 3),
        socket=facts.socket,
        state="stopping" if daemon.starter.stopping else "running",
        containment="cgroup" if facts.containment == "cgroup" else "processes",
        connections=facts.connections(),
        sessions=len(set(daemon.sessions.names()) | {handle.session for handle in handles}),
        handles=counts,
        memory=figures.memory,
        cpu_s=figures.cpu_s,
        descriptors=figures.descriptors,
        threads=figures.threads,
        spooled=spooled,
        problems=known_problems(daemon),
        questions=tuple(_questions(daemon, caller)),
        path=facts.path,
        managed=facts.managed,
        cache=facts.cache,
        websocket=facts.websocket,
        unconfirmed=facts.unconfirmed
        + tuple(
            process.pid
            for handle in daemon.supervisor.survivors()
            for process in handle.left_behind()
        ),
        recovered=facts.recovered,
        refused=facts.refused(),
    )


def _questions(daemon: Daemon, caller: Caller) -> Iterator[OpenQuestion]:
    epoch = time.time() - trio.current_time()
    for pending, inquiry in daemon.inquiries.list_open(Inquiry, caller=caller):
        of_tool = inquiry.handle is not UNSET
        yield OpenQuestion(
            inquiry_id=pending.kind.id,
            session=pending.kind.session,
            question=inquiry.question.id,
            since=round(epoch + pending.since, 3),
            asked=not pending.is_unclaimed,
            tool=pending.kind.tool if of_tool else UNSET,
            handle=inquiry.handle,
        )


def shutdown(
    registry: Registry,
    audit: Audit,
    stop: Callable[[str | None], None],
    caller: Caller,
    params: ShutdownParams,
) -> dict[str, Any]:
    """Reply, then refuse work, end all handles within their grace, and exit. `refuse` raises
    `limit_exceeded` while a handle lives."""
    if not caller.may_use("*"):
        raise caller.refusal("stop haftd")
    live = len(registry.live())
    if params.policy == "refuse" and live:
        raise limit_exceeded(
            "live_handles",
            0,
            f"The policy `refuse` stops the daemon only without live handles, and there are {live}",
        )
    audit.record_action("daemon/shutdown", caller)
    stop(caller.label)
    return {}


def discover(facts: Facts, caller: Caller, params: Empty) -> dict[str, Any]:
    return document(facts.version)
