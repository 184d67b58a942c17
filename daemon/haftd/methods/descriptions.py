"""Descriptions awaited by a call: of self-describing programs and MCP servers.

A call that lacks none is decided immediately; tools without a description are refused or omitted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sized
from math import inf
from typing import TYPE_CHECKING, Any

import trio
from msgspec import UnsetType

from haft_protocol.errors import RpcError
from haftd.caller import Caller
from haftd.executions.descriptions import Describer
from haftd.executions.starter import Starter
from haftd.runtimes.mcp.servers import LIST_S, Servers
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.definition import Tool

from .base import DeferredReply, MethodHandler

if TYPE_CHECKING:
    from haftd.runtimes.mcp.server import Server


Need = Callable[[Catalogue, Any], list[Tool]]


def _named_root(params: Any) -> str | None:
    return None if isinstance(params.root, UnsetType) else params.root


def _listed(catalogue: Catalogue, params: Any) -> list[Tool]:
    return catalogue.find_self_describing(root=_named_root(params))


def _started(catalogue: Catalogue, params: Any) -> list[Tool]:
    return _called_by_name(catalogue, params, params.args)


def _called(catalogue: Catalogue, params: Any) -> list[Tool]:
    """Return a start's tool; a call on a handle needs no description."""
    arguments = {name for name, item in params.arguments.items() if item is not None}
    starts = params.arguments.get("action") in (None, "spawn")
    tools = _called_by_name(catalogue, params, arguments - {"action", "id"})
    return [tool for tool in tools if not tool.stateful or starts]


def _called_by_name(catalogue: Catalogue, params: Any, args: Sized) -> list[Tool]:
    """Return the tool, unless its description is optional and no arguments need checks."""
    tools = catalogue.find_self_describing(params.tool, _named_root(params))
    return [tool for tool in tools if tool.must_describe or args]


def _named(catalogue: Catalogue, params: Any) -> list[Tool]:
    root = _named_root(params)
    return [tool for name in params.tools for tool in catalogue.find_self_describing(name, root)]


NEEDS: dict[str, Need] = {
    "tools/list": _listed,
    "tools/describe": _named,
    "tools/call": _called,
    "spawn": _started,
}
"""Methods that depend on descriptions, with the tools of their params."""

_STARTS = ("spawn", "tools/call")


def _servers(catalogue: Catalogue, servers: Servers, method: str, params: Any) -> list[Server]:
    if not catalogue.servers:
        return []
    root = _named_root(params)
    if method == "tools/list":
        return servers.due(catalogue.unlisted_servers(None, root))
    named = params.tools if method == "tools/describe" else (params.tool,)
    names = {server for name in named for server in catalogue.unlisted_servers(name, root)}
    return servers.due(sorted(names))


def missing_descriptions(
    starter: Starter, describer: Describer, method: str, params: Any
) -> Callable[[], Awaitable[None]] | None:
    """Return a function that awaits the missing descriptions; None if complete.

    Programs are asked while servers start, and then the programs of definitions that were read meanwhile.
    """
    if method not in NEEDS or starter.stopping:
        return None
    servers = _servers(starter.catalogue, describer.servers, method, params)
    root = _named_root(params) or starter.launch_settings.default_root

    def lacking() -> list[Tool]:
        try:
            tools = NEEDS[method](starter.catalogue, params)
        except RpcError:
            return []  # unknown tool: the method reports that
        return describer.lacking(tools, root)

    if not servers and not lacking():
        return None

    async def ready() -> None:
        within_s = LIST_S if method == "tools/list" else inf
        async with trio.open_nursery() as nursery:
            nursery.start_soon(describer.servers.list_tools, servers, within_s)
            await describer.ask(lacking(), root)
        # Not the servers again: a failed one may be due already.
        await describer.ask(lacking(), root)

    return ready


async def describe_files(starter: Starter, describer: Describer) -> None:
    """Wait for the descriptions of the user's Python tool files, whose faults show only then.

    Other programs are asked on first need, in the root of that need.
    """
    if starter.stopping:
        return
    tools = [tool for tool in starter.catalogue.find_self_describing() if tool.file.endswith(".py")]
    root = starter.launch_settings.default_root
    await describer.ask(describer.lacking(tools, root), root)


def described(
    starter: Starter, describer: Describer, method: str, serve: MethodHandler
) -> MethodHandler:
    """Wrap a method so that it decides when its descriptions are complete; calls that wait for one
    tool's description decide in the order of their arrival."""

    def decide(caller: Caller, params: Any) -> object:
        ready = missing_descriptions(starter, describer, method, params)
        if ready is None:
            return serve(caller, params)

        async def later() -> object:
            if method not in _STARTS:
                await ready()
                return serve(caller, params)
            with describer.place(params.tool) as place:
                await ready()
                await place.wait_first()
                return serve(caller, params)

        return DeferredReply(later)

    return decide
