"""Read a handle."""

from __future__ import annotations

import argparse

from ..options import connect_plainly
from ..read_options import add_reading, approved, finish, reading_of

EPILOG = """\
examples:
  haft fetch build                                  output since the last read
  haft fetch build --wait stopped --timeout-ms 600000
  haft fetch server --wait pattern --pattern 'listening on .*'
  haft fetch server --pattern 'listening on .*' --cursor 0    also in what was read before
  haft fetch editor --view screen
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the handle's name, as `haft ps` shows it")
    add_reading(parser, cursor=True, wait="none")


def run(options: argparse.Namespace) -> int:
    with connect_plainly(options) as haft:
        fields = {"id": options.id, **reading_of(options)}
        return finish(haft, options, approved(haft, options, "fetch", fields))
