"""The daemon's services for MCP servers; imports nothing of a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import trio

from haftd.config.mcp_settings import McpServer
from haftd.tools.definitions.server_tools import ServedTool

from ..base import Call


class Environment(msgspec.Struct, frozen=True):
    """Services for one server."""

    nursery: trio.Nursery
    grace_s: float
    environ: Mapping[str, str]
    """Variables that headers may name."""
    make_call: Callable[[str, McpServer], Call]
    """Make the call of the server's program."""
    clear_up: Callable[[Call, bool], None]
    """Called after the program's last process."""
    listed: Callable[[str, tuple[ServedTool, ...] | str], None]
    """Called with the tools, or the reason for none."""
    lost: Callable[[str, str, list[str]], None]
    """Called with a sentence and the tags of open calls."""
