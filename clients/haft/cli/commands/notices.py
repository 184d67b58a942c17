"""`haft notices`: take a session's unread notices, as text."""

from __future__ import annotations

import argparse

import msgspec

from haft_protocol.methods import NoticesResult

from .. import show
from ..options import connect

EPILOG = """\
Notices are shown once: the session's next call does not repeat them, so a host can put them into a
prompt. A program's output in them is plain text.

examples:
  haft notices --session work
"""


def run(options: argparse.Namespace) -> int:
    with connect(options) as haft:
        encoded = haft.raw("notifications/drain", {"format": "markdown"})
    if options.json:
        show.document(encoded)
        return 0
    text = msgspec.json.decode(encoded, type=NoticesResult).text
    if text:
        show.write(str(text))
    else:
        show.line("haft notices: there are no new notices")
    return 0
