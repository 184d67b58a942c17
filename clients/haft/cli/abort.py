"""`haft abort`: end a handle and everything it started."""

from __future__ import annotations

import argparse

from ..requests import given
from .options import connect
from .reading import finish

__all__ = ["EPILOG", "configure", "run"]

EPILOG = """\
examples:
  haft abort server
  haft abort server --grace-ms 0                    at once, without asking it to end
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("id", metavar="ID")
    parser.add_argument(
        "--grace-ms", type=int, metavar="N", help="time between TERM and KILL (2,000)"
    )


def run(options: argparse.Namespace) -> int:
    """End it; that it did not succeed is then no failure."""
    with connect(options) as haft:
        fields = given(id=options.id, grace_ms=getattr(options, "grace_ms", None))
        finish(haft, options, haft.raw("abort", fields))
    return 0
