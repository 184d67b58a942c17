"""`haft tools`: list the tools, or show one with its arguments."""

from __future__ import annotations

import argparse

import msgspec

from haft_protocol.methods import ToolInfo, ToolsListResult

from . import show
from .options import UsageError, connect

__all__ = ["EPILOG", "configure", "run"]

EPILOG = """\
examples:
  haft tools
  haft tools git_stage
  haft tools --json | jq -r '.tools[].name'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("tool", nargs="?", metavar="TOOL", help="show this one in full")


def run(options: argparse.Namespace) -> int:
    """List them, or show one."""
    with connect(options) as haft:
        encoded = haft.raw("tools/list")
    tools = msgspec.json.decode(encoded, type=ToolsListResult).tools
    wanted = getattr(options, "tool", None)
    if wanted is None:
        if options.json:
            show.document(encoded)
        else:
            show.table([("TOOL", "RUNS IN", "WHAT IT DOES"), *map(_row, tools)])
        return 0
    found = next((tool for tool in tools if tool.name == wanted), None)
    if found is None:
        names = ", ".join(tool.name for tool in tools) or "none"
        raise UsageError(f"there is no tool {wanted!r}; the tools are: {names}")
    if options.json:
        show.document(msgspec.json.encode(found))
    else:
        _describe(found)
    return 0


def _row(tool: ToolInfo) -> tuple[str, str, str]:
    first = tool.description.strip().partition("\n")[0]
    return tool.name, tool.runtime, show.plain(first)


def _describe(tool: ToolInfo) -> None:
    show.write(f"{tool.name} ({tool.source}, {tool.runtime}): {', '.join(tool.actions)}\n\n")
    show.write(tool.description.strip() + "\n\n")
    show.write(msgspec.json.format(msgspec.json.encode(tool.parameters), indent=2).decode() + "\n")
