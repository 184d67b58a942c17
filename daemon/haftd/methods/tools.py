"""tools/list, tools/describe and tools/reload."""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap

import trio
from msgspec import UnsetType
from msgspec.structs import replace

from haft_protocol.methods import (
    Empty,
    ReloadResult,
    ToolDescription,
    ToolsDescribeParams,
    ToolsDescribeResult,
    ToolsListParams,
    ToolsListResult,
)
from haftd.caller import Caller
from haftd.daemon import Daemon, known_problems
from haftd.executions.starter import Starter
from haftd.threads import run_in_thread
from haftd.tools.catalogue import Catalogue

from .base import DeferredReply
from .descriptions import describe_files


def tools_list(
    catalogue: Catalogue, caller: Caller, params: ToolsListParams
) -> ToolsListResult | DeferredReply:
    """List the tools by name, with schemas in the provider's dialect; a long list is translated in
    a thread, once."""
    style = None if isinstance(params.style, UnsetType) else params.style
    root = None if isinstance(params.root, UnsetType) else params.root
    undescribed = catalogue.undescribed(root)
    make_list = catalogue.prepare_list(params.provider, style, root, params.surface)
    if make_list is None:
        tools, problems = catalogue.list_tools(params.provider, style, root, params.surface)
        return ToolsListResult(tools, (*problems, *undescribed))

    async def listed() -> ToolsListResult:
        tools, problems = await run_in_thread(make_list)
        return ToolsListResult(tools, (*problems, *undescribed))

    return DeferredReply(listed)


def tools_describe(
    starter: Starter, caller: Caller, params: ToolsDescribeParams
) -> ToolsDescribeResult | DeferredReply:
    """Describe the tools in full; an unknown one fails the call. A thread looks which rules would be
    refused."""
    root = None if isinstance(params.root, UnsetType) else params.root
    described = [starter.describe(name, root) for name in params.tools]
    if all(look is None for _, look in described):
        return ToolsDescribeResult(tuple(description for description, _ in described))

    def with_refusals() -> ToolsDescribeResult:
        return ToolsDescribeResult(tuple(starmap(_with_refusal, described)))

    async def looked() -> ToolsDescribeResult:
        return await trio.to_thread.run_sync(with_refusals, abandon_on_cancel=True)

    return DeferredReply(looked)


def _with_refusal(
    description: ToolDescription, refusal_of: Callable[[], str] | None
) -> ToolDescription:
    refusal = "" if refusal_of is None else refusal_of()
    if not refusal or isinstance(description.access, UnsetType):
        return description
    return replace(description, access=(f"Refused here: {refusal}", *description.access))


def tools_reload(daemon: Daemon, caller: Caller, params: Empty) -> DeferredReply:
    """Reload the definitions, and wait for the descriptions of Python tool files; running handles
    keep their definitions.

    Raises `not_authorized`, since definitions decide about approvals.
    """
    if not caller.may("approvals"):
        raise caller.refusal("have definitions read again, which say what is asked first")

    async def reloaded() -> ReloadResult:
        await daemon.reload()
        await describe_files(daemon.starter, daemon.describer)
        catalogue, root = daemon.catalogue, daemon.starter.launch_settings.root
        unlisted = sum(
            tool.must_describe and catalogue.descriptions.lacks(tool, root)
            for tool in catalogue.find_self_describing()
        )
        if (make_list := catalogue.prepare_list("generic", None, None)) is not None:
            await run_in_thread(make_list)
        count = len(catalogue.list_tools("generic")[0]) + unlisted
        return ReloadResult(tools=count, problems=known_problems(daemon))

    return DeferredReply(reloaded)
