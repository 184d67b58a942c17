"""`haft search`: find lines in the output of handles."""

from __future__ import annotations

import argparse

import msgspec

from haft_protocol.methods import SearchParams, SearchResult

from ...requests import drop_unset
from .. import show
from ..options import connect, whole
from ..statuses import Status

EPILOG = """\
The number after the name of a handle is the offset of the byte at which the line begins: `haft fetch ID --cursor N` reads on
from there. Exit status 1 when nothing is found, as with grep.

examples:
  haft search 'error|warning'
  haft search 'listening on' server tunnel
"""

_MAX_MATCHES = SearchParams(pattern=".").max_matches


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", metavar="REGEX", help="a regular expression (RE2)")
    parser.add_argument("ids", nargs="*", metavar="ID", help="only in these")
    parser.add_argument(
        "--max-matches", type=whole(), metavar="N", help="at most this many lines (200)"
    )


def run(options: argparse.Namespace) -> int:
    max_matches: int | None = getattr(options, "max_matches", None)
    fields = drop_unset(
        pattern=options.pattern,
        ids=getattr(options, "ids", None) or None,
        max_matches=max_matches,
    )
    with connect(options) as haft:
        encoded = haft.raw("output/search", fields)
    result = msgspec.json.decode(encoded, type=SearchResult)
    if options.json:
        show.document(encoded)
    else:
        for match in result.matches:
            show.write(f"{match.id}:{match.cursor}: {match.line}\n")
        if result.more:
            remedy = "raise --max-matches"
            if len(result.matches) < (max_matches or _MAX_MATCHES):
                remedy = "name fewer handles, or search for less"
            show.line(f"haft search: there may be more; {remedy}")
    return Status.DONE if result.matches else Status.FAILED
