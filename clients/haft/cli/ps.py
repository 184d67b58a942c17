"""`haft ps`: list handles with their processes."""

from __future__ import annotations

import argparse

import msgspec
from msgspec import UnsetType

from haft_protocol.methods import HandleInfo, HandlesListResult

from ..requests import given, handle_infos
from . import show
from .options import connect

__all__ = ["EPILOG", "configure", "run"]

EPILOG = """\
examples:
  haft ps
  haft ps -a                                        of all sessions
  haft ps --json | jq '.handles[].command'
"""

_HEAD = ("ID", "TOOL", "STATE", "PID", "AGE", "CPU", "MEMORY", "OUTPUT", "COMMAND")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("-a", "--every-session", action="store_true", help="of all sessions")


def run(options: argparse.Namespace) -> int:
    """List them; an empty list is no failure."""
    every = getattr(options, "every_session", False)
    with connect(options) as haft:
        encoded = haft.raw("handles/list", given(session="*" if every else None))
    if options.json:
        show.document(encoded)
        return 0
    infos = handle_infos(msgspec.json.decode(encoded, type=HandlesListResult))
    rows = [_row(info, every) for info in infos]
    show.table([("SESSION", *_HEAD) if every else _HEAD, *rows])
    return 0


def _row(info: HandleInfo, every: bool) -> tuple[str, ...]:
    state = info.state
    row = (
        state.id,
        state.tool,
        show.state_word(state),
        "-" if isinstance(info.pid, UnsetType) else str(info.pid),
        show.duration(info.age_s),
        "-" if isinstance(info.cpu_s, UnsetType) else show.duration(info.cpu_s),
        "-" if isinstance(info.memory, UnsetType) else show.amount(info.memory),
        show.amount(info.bytes),
        show.plain(info.command),
    )
    return (state.session, *row) if every else row
