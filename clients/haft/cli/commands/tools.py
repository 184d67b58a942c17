"""`haft tools`: list the tools, or show one."""

from __future__ import annotations

import argparse
from textwrap import fill
from typing import get_args

import msgspec

from haft_protocol.methods import Provider, Style, ToolInfo, ToolsListResult

from .. import show
from ..options import UsageError, connect
from ..tool_arguments import arguments_of
from .status import problem_line

_INDENT = " " * 6
_MIN_COLUMNS = 40

EPILOG = """\
With TOOL its arguments are shown as `haft spawn` takes them; --json, --provider and --style show the JSON Schema.

examples:
  haft tools
  haft tools git_stage
  haft tools --json | jq -r '.tools[].name'
  haft tools --json --provider openai | jq '.tools[].parameters'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", nargs="?", metavar="TOOL", help="show this one in full")
    parser.add_argument(
        "--provider",
        choices=get_args(Provider),
        help="with the keywords that this provider accepts",
    )
    parser.add_argument(
        "--style",
        choices=get_args(Style),
        help="the actions of a tool as variants, or in one object",
    )


def run(options: argparse.Namespace) -> int:
    tool_name = getattr(options, "tool", None)
    with connect(options, start=True) as haft:
        params = {name: getattr(options, name, None) for name in ("provider", "style")}
        encoded = haft.raw("tools/list", {name: value for name, value in params.items() if value})
        result = msgspec.json.decode(encoded, type=ToolsListResult)
        match = next((tool for tool in result.tools if tool_name in (tool.name, tool.tool)), None)
        for problem in result.problems if match is None else ():
            if problem.key in (f"tools.{tool_name}", f"tools.{tool_name}.parameters"):
                raise UsageError(f"{tool_name!r} is not loaded: {problem_line(problem)}")
        if tool_name is not None and match is None:
            # The daemon knows the reason: the tool may be in an untrusted file.
            haft.raw("tools/describe", {"tools": [tool_name]})
            raise UsageError(f"{tool_name!r} is served, but not listed")
    if match is None:
        if options.json:
            show.document(encoded)
        else:
            show.table([("TOOL", "RUNS IN", "WHAT IT DOES"), *map(_row, result.tools)])
            for problem in result.problems:
                show.write(f"\n{problem_line(problem)}\n")
        return 0
    if options.json:
        show.document(msgspec.json.encode(match))
        return 0
    _describe(match)
    if any(params.values()):
        schema = msgspec.json.format(msgspec.json.encode(match.parameters), indent=2)
        show.write(show.printable(schema.decode()) + "\n")
    else:
        _show_arguments(match)
    return 0


def _row(tool: ToolInfo) -> tuple[str, str, str]:
    first = tool.description.strip().partition("\n")[0]
    return show.plain(tool.name), tool.runtime, show.plain(first)


def _describe(tool: ToolInfo) -> None:
    does = ", ".join(tool.actions) or "runs to its end"
    kind = ", ".join(dict.fromkeys((tool.source, tool.runtime)))
    show.write(f"{show.plain(tool.name)} ({show.plain(kind)}): {show.plain(does)}\n\n")
    if description := tool.description.strip():
        show.write(show.printable(description) + "\n\n")


def _show_arguments(tool: ToolInfo) -> None:
    """Show each argument, required arguments first, and an example."""
    arguments = sorted(
        arguments_of(tool.parameters).values(), key=lambda each: not each.is_required
    )
    width = max(show.columns(), _MIN_COLUMNS)
    show.write("arguments:\n" if arguments else "It takes no arguments.\n")
    for argument in arguments:
        needed = ", required" if argument.is_required else ""
        show.write(f"  {show.plain(argument.name)}: {show.plain(argument.type)}{needed}\n")
        if argument.meaning:
            text = show.plain(argument.meaning, 2000)
            show.write(fill(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT) + "\n")
    words = [argument.example for argument in arguments if argument.is_required]
    if any(argument.name == "argv" for argument in arguments):
        words.append("-- COMMAND…")
    show.write(f"\nexample:\n  {show.printable(' '.join(['haft spawn', tool.name, *words]))}\n")
