"""handles/list: the handles of a session with processes and metrics."""

from __future__ import annotations

from typing import Any

import msgspec
import trio
from msgspec import UNSET

from haft_protocol.methods import HandlesListParams, HandlesListResult
from haftd.caller import Caller
from haftd.client_locks import ClientLocks
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.core.views import handle_state
from haftd.executions.execution import Execution
from haftd.executions.supervisor import Supervisor
from haftd.metrics import load_psutil, sum_usage

from .access import Access
from .base import DeferredReply, in_turn

_turns = ClientLocks()


def handles_list(
    access: Access, supervisor: Supervisor, caller: Caller, params: HandlesListParams
) -> DeferredReply:
    """List live and kept handles, newest last, without reading output; a checkpoint follows each. A
    connection's lists are made one after another."""
    session = access.session_of(caller, params)

    async def listed() -> HandlesListResult:
        await load_psutil()
        handles = access.handles(None if session == "*" else session)
        handles = [handle for handle in handles if caller.may_reach(handle.settings.may)]
        rows = []
        for handle in handles:
            rows.append(_row(caller, handle, supervisor.execution_of(handle)))
            await trio.lowlevel.checkpoint()
        return HandlesListResult(tuple(rows))

    return in_turn(_turns.of(caller), listed)


def _row(caller: Caller, handle: Handle, execution: Execution | None) -> dict[str, Any]:
    now = trio.current_time()
    suspended = False
    if execution is not None and handle.state is State.RUNNING:
        suspended = execution.check_suspended(now)
    reads = None if execution is None else execution.reads()
    size = UNSET if execution is None else execution.size_for(caller)
    state = handle_state(
        handle, now, view="tail", max_bytes=0, reads=reads, size=size, suspended=suspended
    )
    row: dict[str, Any] = msgspec.to_builtins(state)
    for unread in ("content", "result", "omitted", "truncated"):
        row.pop(unread, None)
    row["command"] = handle.command
    row["root"] = handle.root
    row["started_at"] = handle.started_at
    row["age_s"] = round(trio.current_time() - handle.created_at, 3)
    row["bytes"] = handle.spool.end
    if handle.last_output_at is not None:
        row["last_output_at"] = handle.last_output_at
    if handle.pid is not None:
        row["pid"] = handle.pid
    if execution is not None and execution.control is not None:
        row["cpu_s"], row["memory"] = sum_usage(execution.control.members())
    return row
