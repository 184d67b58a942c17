"""One mediated call, from the check of the rules to the last process's end."""

from __future__ import annotations

import trio
from msgspec.structs import replace

from haftd.host_calls.calls import HostCalls
from haftd.host_calls.decisions import HostAccess
from haftd.host_calls.real_rules import RuleThroughLink, with_real_paths

from ..base import Call, RuntimeContext, StartFailed
from ..process.child import Child
from ..process.events import Live
from ..process.resource_limits import ResourceLimits
from .programs import Programs
from .requests import HostRequests


async def run_mediated(call: Call, context: RuntimeContext) -> str | None:
    """Run the call by the rules of `runtimes.base`."""
    if call.mediation is None or call.launch.sandbox is None:
        raise AssertionError("a mediated call has rules and a sandbox")
    access = await _prepared(call.mediation.access)
    programs = Programs(call, call.mediation)
    calls = HostCalls(access, programs.run)
    try:
        calls.open()
    except OSError as error:
        why = (error.strerror or "").lower()
        raise StartFailed(f"The root {access.root} cannot be opened: {why}.", "folder") from None
    try:
        launch = call.launch._replace(output="events")
        limits = ResourceLimits(launch.limits)
        async with await Child.start(replace(call, launch=launch), context, limits) as child:
            return await Live(call, context, child, HostRequests(calls, programs.members)).run()
    finally:
        calls.close()


async def _prepared(access: HostAccess) -> HostAccess:
    try:
        return await trio.to_thread.run_sync(with_real_paths, access, abandon_on_cancel=True)
    except RuleThroughLink as out:
        raise StartFailed(f"Its access rules cannot be enforced: {out}.", "sandbox") from None
