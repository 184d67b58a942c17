"""tools/list and tools/reload: what can be called."""

from __future__ import annotations

from msgspec import UnsetType

from haft_protocol.methods import Empty, ReloadResult, ToolsListParams, ToolsListResult
from haftd.caller import Caller
from haftd.daemon import Daemon

__all__ = ["tools_list", "tools_reload"]


def tools_list(daemon: Daemon, caller: Caller, params: ToolsListParams) -> ToolsListResult:
    """List the tools by name, each with its JSON Schema."""
    root = None if isinstance(params.root, UnsetType) else params.root
    return ToolsListResult(tuple(daemon.catalogue.list(root)))


def tools_reload(daemon: Daemon, caller: Caller, params: Empty) -> ReloadResult:
    """Read the definitions again; handles that run are not touched."""
    problems = daemon.reload()
    return ReloadResult(tools=len(daemon.catalogue.list(None)), problems=problems)
