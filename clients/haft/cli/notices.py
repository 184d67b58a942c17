"""`haft notices`: take a session's unread notices, as Markdown."""

from __future__ import annotations

import argparse

import msgspec

from haft_protocol.methods import NoticesResult

from . import show
from .options import connect

EPILOG = """\
What is shown is told by that: it does not ride on the session's next call any more. So a host can put
it into a prompt. A program's output in it is text, whatever it is.

examples:
  haft notices --session work
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no options."""


def run(options: argparse.Namespace) -> int:
    """Take the notices."""
    with connect(options) as haft:
        encoded = haft.raw("notifications/drain", {"format": "markdown"})
    if options.json:
        show.document(encoded)
        return 0
    text = msgspec.json.decode(encoded, type=NoticesResult).text
    if text:
        show.write(str(text))
    else:
        show.line("haft notices: nothing is new")
    return 0
