"""`haft reload`: reload configuration and tools."""

from __future__ import annotations

import argparse

import msgspec
from msgspec import UnsetType

from haft_protocol.methods import ReloadResult

from .. import show
from ..options import connect
from ..statuses import Status
from .status import problem_line

EPILOG = """\
Exit status 1 when a file has errors; the valid parts take effect. A setting that takes effect only at the next start is reported and is not an error.

examples:
  haft reload
"""


def run(options: argparse.Namespace) -> int:
    with connect(options) as haft:
        encoded = haft.raw("daemon/reload")
    result = msgspec.json.decode(encoded, type=ReloadResult)
    count = sum(isinstance(problem.level, UnsetType) for problem in result.problems)
    status = Status.FAILED if count else Status.DONE
    if options.json:
        show.document(encoded)
        return status
    for problem in result.problems:
        show.line(problem_line(problem), "yellow")
    show.line(f"haftd: {result.tools} tools, {count} problem{'' if count == 1 else 's'}")
    return status
