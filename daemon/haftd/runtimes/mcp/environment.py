"""The daemon's services for MCP servers; imports nothing of a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import trio

from haftd.config.mcp_settings import McpServer
from haftd.tools.definitions.server_tools import ServedTool

from ..base import Call


class Environment(msgspec.Struct, frozen=True):
    """Services for one server. `environ` has the variables that headers name; `make_call` and
    `clear_up` are for the program. `listed` receives the tools or the reason for none, `lost` a
    sentence and the tags of open calls."""

    nursery: trio.Nursery
    grace_s: float
    environ: Mapping[str, str]
    make_call: Callable[[str, McpServer], Call]
    clear_up: Callable[[Call, bool], None]
    listed: Callable[[str, tuple[ServedTool, ...] | str], None]
    lost: Callable[[str, str, list[str]], None]
