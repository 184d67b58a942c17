"""`haft access`: show in words what a tool may do."""

from __future__ import annotations

import argparse

import msgspec
from msgspec import UNSET

from haft_protocol.methods import ToolsDescribeResult

from .. import show
from ..options import connect

EPILOG = """\
A tool with `access` or `sandbox` in its definition may do only what is listed; a refused access fails in the tool
with EACCES, "Permission denied".

examples:
  haft access git_stage
  haft access build --json | jq -r '.access[]'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool")


def run(options: argparse.Namespace) -> int:
    with connect(options, start=True) as haft:
        encoded = haft.raw("tools/describe", {"tools": [options.tool]})
    (tool,) = msgspec.json.decode(encoded, type=ToolsDescribeResult).tools
    # A tool that no rules confine has no `access`.
    sentences = () if tool.access is UNSET else tool.access
    if options.json:
        show.document(msgspec.json.encode({"tool": tool.name, "access": sentences}))
        return 0
    if not sentences:
        sentences = ("The tool has no rules: it may do everything that you may.",)
    show.write("".join(show.folded(show.plain(sentence), 2) for sentence in sentences))
    return 0
