"""`haft shell`: open the person's own shell in haftd and attach to it."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence

from haft_protocol.states import Stopped

from ...errors import RemoteError
from ...requests import drop_unset
from ..options import UsageError, connect, is_remote, non_empty
from . import attach
from .run import exit_status
from .spawn import UNREAD, read_environment

_TOOL = "user_shell"
_HANDLE_EXISTS = -32002
_MAX_NUMBER = 1_000

EPILOG = r"""
Opens $SHELL under haftd and attaches to it, as `haft attach` does: C-\ d leaves it running, and `haft attach
ID` returns to it, also after the terminal or the connection is gone. Without ID it is called shell, or shell-2
and so on while a shell of that name runs.

Programs in it may do everything that you may do in your own terminal: approve, answer, use every session. Models are
not offered such a shell, and a program that haftd runs for another definition can neither start one nor type into it.

The exit status is the shell's when it has exited, 128 plus the number when a signal ended it, and 0 after a detach.

examples:
  haft shell
  haft shell work
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", type=non_empty, metavar="ID", help="the name of the handle"
    )
    parser.set_defaults(read_only=False)


def explain_unexpected(options: argparse.Namespace, words: Sequence[str]) -> str | None:
    """Show the place of the handle's name."""
    option, _, value = words[0].partition("=")
    if option not in ("--id", "--name"):
        return None
    return f"give the handle's name without an option, as in: haft shell {shlex.quote(value or getattr(options, 'id', 'work'))}"


def run(options: argparse.Namespace) -> int:
    if options.json:
        raise UsageError("shell has no --json: it is for a person; use `haft spawn shell --json`")
    keys, _ = attach.terminals("shell", "use `haft spawn shell`, and `haft apply` to type")
    size = os.get_terminal_size(keys)
    args: dict[str, object] = {}
    if size.lines and size.columns:
        args = {"rows": min(size.lines, 1000), "cols": min(size.columns, 1000)}
    if (program := os.environ.get("SHELL")) and not is_remote(options):
        args["program"] = program
    fields = drop_unset(tool=_TOOL, args=args, env=read_environment(options), wait="none", **UNREAD)
    with connect(options, start=True) as haft:
        id = getattr(options, "id", None)
        for number in range(1, _MAX_NUMBER):
            options.id = id or ("shell" if number == 1 else f"shell-{number}")
            try:
                haft.raw("spawn", {**fields, "id": options.id})
            except RemoteError as refused:
                if id or refused.code != _HANDLE_EXISTS:
                    raise
            else:
                break
        else:
            raise UsageError(f"{_MAX_NUMBER - 1} shells run already; name this one")
    own, last = attach.attach(options)
    status = exit_status(last) if isinstance(last, Stopped) else None
    return attach.status_of(own, last) if status is None else status
