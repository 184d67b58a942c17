"""`haft fetch`: read a handle's state and new output."""

from __future__ import annotations

import argparse

from ..options import connect_plainly
from ..read_options import add_read_options, call_awaiting_approval, print_state, read_params

EPILOG = """\
examples:
  haft fetch build                                  output since the last read
  haft fetch build --wait stopped --timeout-ms 600000
  haft fetch server --wait pattern --pattern 'listening on .*'
  haft fetch server --pattern 'listening on .*' --cursor 0    also in output read before
  haft fetch editor --view screen
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the handle's name, as `haft ps` shows it")
    add_read_options(parser, cursor=True, wait="none")


def run(options: argparse.Namespace) -> int:
    with connect_plainly(options) as haft:
        fields = {"id": options.id, **read_params(options)}
        return print_state(haft, options, call_awaiting_approval(haft, options, "fetch", fields))
