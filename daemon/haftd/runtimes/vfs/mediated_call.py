"""One mediated call, from the check of the rules, with real paths, to the last process's end."""

from __future__ import annotations

import os

import trio
from msgspec.structs import replace

from haftd.host_calls.calls import HostCalls
from haftd.host_calls.decisions import HostAccess
from haftd.tools.definitions.access import covers

from ..base import Call, RuntimeContext, StartFailed
from ..process.child import Child
from ..process.events import Live
from ..process.resource_limits import ResourceLimits
from .programs import Programs
from .requests import HostRequests


async def run_mediated(call: Call, context: RuntimeContext) -> str | None:
    """Run the call by the rules of `runtimes.base`."""
    if call.mediation is None or call.launch.sandbox is None:
        raise AssertionError("a mediated call without rules or without a sandbox")
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
    except OSError as error:
        raise StartFailed(
            "Its access rules could not be read, as a file or link on the way was exchanged meanwhile: "
            f"{(error.strerror or '').lower()}; start the tool again.",
            "sandbox",
        ) from None


class RuleThroughLink(Exception):
    """A rule's path has a link below the root; the message is a clause."""


def with_real_paths(access: HostAccess) -> HostAccess:
    """Return the access with root and rules' paths without links; reads the file system, and raises
    OSError if a link is exchanged meanwhile.

    A tool could have placed a link below the root to widen later rules. Rules outside the root are
    left out.
    """
    root = os.path.realpath(access.root)
    if access.policy.fs is None:
        return replace(access, root=root)
    rules = []
    for rule in access.policy.fs:
        if not covers(access.root, rule.path):
            continue
        rest = rule.path[len(access.root.rstrip("/")) :].strip("/")
        real = f"{root.rstrip('/')}/{rest}" if rest else root
        if os.path.realpath(real) != real:
            raise RuleThroughLink(
                f"the rule for {rule.path} goes through a link; name the target by its own path"
            )
        rules.append(replace(rule, path=real))
    return replace(access, root=root, policy=replace(access.policy, fs=tuple(rules)))
