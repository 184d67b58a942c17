"""`haft await`: wait for handles to stop."""

from __future__ import annotations

import argparse

import msgspec

from haft_protocol.methods import AwaitResult

from ...requests import drop_unset
from .. import show
from ..options import UsageError, connect, seconds, whole
from ..statuses import Status

USAGE = "haft await ID… | --all ID… [--any ID…] [options]"
EPILOG = """\
Without options it waits for all ids. Exit status 5 when the time ran out, otherwise 1 when a tool failed.

examples:
  haft await build test
  haft await --any server tunnel --timeout-ms 60000
  haft await --all build --any server tunnel
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="handles, as `haft ps` names them")
    parser.add_argument("--all", nargs="+", metavar="ID", help="until all of these have stopped")
    parser.add_argument("--any", nargs="+", metavar="ID", help="and one of these")
    longest = parser.add_mutually_exclusive_group()
    longest.add_argument(
        "--timeout-ms",
        type=whole(),
        metavar="N",
        help="wait at most this many milliseconds (no limit)",
    )
    longest.add_argument("--timeout-secs", type=seconds, metavar="N", help="the same in seconds")


def run(options: argparse.Namespace) -> int:
    every = [*getattr(options, "ids", []), *getattr(options, "all", [])]
    some = getattr(options, "any", [])
    if not every and not some:
        raise UsageError("name at least one handle to wait for; see `haft await --help`")
    longest_s = getattr(options, "timeout_secs", None)
    if hasattr(options, "timeout_ms"):
        longest_s = options.timeout_ms / 1000
    fields = drop_unset(all=every, any=some, timeout_secs=longest_s)
    with connect(options) as haft:
        options.waited_for = [*every, *some]
        encoded = haft.raw("await", fields)
    result = msgspec.json.decode(encoded, type=AwaitResult)
    ended = [msgspec.to_builtins(state) for state in result.completed]
    if options.json:
        show.document(encoded)
    else:
        for state in ended:
            show.show_line(state)
        for state in map(msgspec.to_builtins, result.waiting):
            # The reply has moved the read offset: no other read has this output.
            if state["content"] and len([*every, *some]) > 1:
                show.head(state["id"])
            show.show_state(state)
        for state in map(msgspec.to_builtins, result.pending):
            show.show_line(state)
    if result.timed_out:
        show.line("haft await: timed out", "yellow")
        return Status.WAIT_FAILED
    return Status.FAILED if any(map(show.failed, ended)) else Status.DONE
