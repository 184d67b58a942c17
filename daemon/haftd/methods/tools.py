"""tools/list, tools/describe and tools/reload."""

from __future__ import annotations

from collections.abc import Callable
from itertools import starmap

import trio
from msgspec import UnsetType
from msgspec.structs import replace

from haft_protocol.methods import (
    Empty,
    Problem,
    ReloadResult,
    ToolDescription,
    ToolInfo,
    ToolsDescribeParams,
    ToolsDescribeResult,
    ToolsListParams,
    ToolsListResult,
)
from haftd.caller import Caller
from haftd.client_locks import ClientLocks
from haftd.daemon import Daemon, known_problems
from haftd.executions.starter import Starter
from haftd.threads import run_in_thread
from haftd.tools.catalogue import Catalogue

from .base import DeferredReply, in_turn
from .descriptions import describe_files

_turns = ClientLocks()


def tools_list(
    catalogue: Catalogue, caller: Caller, params: ToolsListParams
) -> ToolsListResult | DeferredReply:
    """List the tools by name, with schemas in the provider's dialect; a long list is translated in
    a thread, once. A connection's long lists are made one after another."""
    style = None if isinstance(params.style, UnsetType) else params.style
    root = None if isinstance(params.root, UnsetType) else params.root

    def prepare() -> Callable[[], tuple[tuple[ToolInfo, ...], tuple[Problem, ...]]] | None:
        return catalogue.prepare_list(params.provider, style, root, params.surface)

    def result(tools: tuple[ToolInfo, ...], problems: tuple[Problem, ...]) -> ToolsListResult:
        return ToolsListResult(tools, (*problems, *catalogue.undescribed(root)))

    def listed() -> ToolsListResult:
        return result(*catalogue.list_tools(params.provider, style, root, params.surface))

    if prepare() is None:
        return listed()

    async def listed_in_thread() -> ToolsListResult:
        # The connection's call before may have had the same list made.
        make_list = prepare()
        return listed() if make_list is None else result(*await run_in_thread(make_list))

    return in_turn(_turns.of(caller), listed_in_thread)


def tools_describe(
    starter: Starter, caller: Caller, params: ToolsDescribeParams
) -> ToolsDescribeResult | DeferredReply:
    """Describe the tools in full; an unknown one fails the call. A thread looks which rules would be
    refused."""
    root = None if isinstance(params.root, UnsetType) else params.root

    def described() -> list[tuple[ToolDescription, Callable[[], str] | None]]:
        return [starter.describe(name, root) for name in params.tools]

    at_once = described()
    if all(look is None for _, look in at_once):
        return ToolsDescribeResult(tuple(description for description, _ in at_once))
    del at_once

    async def looked() -> ToolsDescribeResult:
        looks = described()  # anew: the calls of a connection that wait for their turn hold none

        def with_refusals() -> ToolsDescribeResult:
            return ToolsDescribeResult(tuple(starmap(_with_refusal, looks)))

        return await trio.to_thread.run_sync(with_refusals, abandon_on_cancel=True)

    return in_turn(_turns.of(caller), looked)


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
        raise caller.refusal("reload definitions, which decide what needs approval")

    async def reloaded() -> ReloadResult:
        await daemon.reload()
        await describe_files(daemon.starter, daemon.describer)
        catalogue, root = daemon.catalogue, daemon.starter.launch_settings.default_root
        unlisted = sum(
            tool.must_describe and catalogue.descriptions.lacks(tool, root)
            for tool in catalogue.find_self_describing()
        )
        if (make_list := catalogue.prepare_list("generic", None, None)) is not None:
            await run_in_thread(make_list)
        count = len(catalogue.list_tools("generic")[0]) + unlisted
        return ReloadResult(tools=count, problems=known_problems(daemon))

    return DeferredReply(reloaded)
