"""The daemon as a server of MCP needs it: a value, so that nothing of a server is loaded to make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import trio

from haftd.config.mcp_settings import McpServer
from haftd.tools.definitions.server_tools import ServedTool

from ..base import Call


@dataclass(frozen=True, slots=True)
class Environment:
    """Services of the daemon for a server.

    `nursery` holds the server's task, `environ` has the variables that headers name. `make_call` makes the call of its program, `clear_up` unmakes it. `listed` is
    told the tools, or why there are none; `lost` is told a sentence and the marks of the calls that were open.
    """

    nursery: trio.Nursery
    grace_s: float
    environ: Mapping[str, str]
    make_call: Callable[[str, McpServer], Call]
    clear_up: Callable[[Call, bool], None]
    listed: Callable[[str, tuple[ServedTool, ...] | str], None]
    lost: Callable[[str, str, list[str]], None]
