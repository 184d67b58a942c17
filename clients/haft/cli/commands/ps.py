"""`haft ps`: list handles with their processes."""

from __future__ import annotations

import argparse
import os
import re

from ...errors import RemoteError
from .. import show
from ..options import connect_plainly, session
from ..replies import handle_entries

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from ...blocking_connection import BlockingConnection
    from ..show import Json

EPILOG = """\
Running handles come first, then stopped ones, the latest first. Without -a, handles that stopped more
than a minute ago are only counted, and finished calls of tools are omitted; --json has all.
SESSION is shown if a handle belongs to another session than this command's.

examples:
  haft ps
  haft ps -a                                        all of them, of all sessions
  haft abort $(haft ps -q)                          ends all of the session
  haft ps --json | jq '.handles[].command'
"""

_HEAD = ("ID", "TOOL", "STATE", "PID", "AGE", "CPU", "MEMORY", "OUTPUT", "COMMAND")
_WHOLE = ("ID", "STATE", "NEEDS", "PID", "AGE", "CPU", "MEMORY", "OUTPUT")
_SPARE = {"CPU": 24, "MEMORY": 24, "OUTPUT": 24, "PID": 24, "AGE": 8, "TOOL": 8}
"""Characters of the command that are worth each column; with 24, an interpreter's script is seen."""
_RECENT_S = 60.0
_CALL = r"call\.[0-9a-f]{16}"
"""Daemon's id for a call without an action."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-a",
        "--all",
        action="store_true",
        help="also handles that stopped long ago, of all sessions",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="only the names of live handles")
    parser.add_argument("--every-session", action="store_true", help="of all sessions")


def run(options: argparse.Namespace) -> int:
    """List the handles; an empty list is not a failure."""
    whole = getattr(options, "all", False)
    every = whole or getattr(options, "every_session", False) or session(options) == "*"
    with connect_plainly(options) as haft:
        encoded = haft.raw("handles/list", {"session": "*"} if every else {})
        elsewhere = (
            ()
            if every or options.json or hasattr(options, "quiet")
            else _other_sessions(haft, encoded)
        )
    if options.json:
        show.document(encoded)
        return 0
    infos = handle_entries(encoded)
    if hasattr(options, "quiet"):
        live = (info for info in infos if whole or info["state"] != "stopped")
        show.write("".join(f"{info['id']}\n" for info in live))
        return 0
    if not whole:
        infos = [info for info in infos if not _is_finished_call(info)]
    shown = sorted(
        (info for info in infos if whole or _seconds_since_stop(info) <= _RECENT_S),
        key=_seconds_since_stop,
    )
    every = every and {info["session"] for info in shown} != {_own_session(options)}
    show.table(
        _rows(shown, every),
        narrow=_rows(shown, every, narrow=True),
        whole=_WHOLE,
        spare=_SPARE,
    )
    if hidden := len(infos) - len(shown):
        show.line(f"haft ps: {hidden} stopped more than a minute ago; -a shows all", "dim")
    if elsewhere:
        show.line(f"haft ps: {_counted(elsewhere)}; --every-session shows them", "dim")
    return 0


def _own_session(options: argparse.Namespace) -> str:
    """Return the session of a command without --session, or with this one's if that names one."""
    named = session(options)
    return (os.environ.get("HAFT_SESSION") if named == "*" else named) or "default"


def _other_sessions(haft: BlockingConnection, encoded: bytes) -> tuple[str, ...]:
    """Return the session of each live handle of other sessions, if this session has no handle."""
    if handle_entries(encoded):
        return ()
    try:
        everything = haft.raw("handles/list", {"session": "*"})
    except RemoteError:
        return ()  # A tool's process may not see other sessions.
    infos = handle_entries(everything)
    return tuple(info["session"] for info in infos if info["state"] != "stopped")


def _counted(sessions: tuple[str, ...]) -> str:
    handles = "1 live handle is" if len(sessions) == 1 else f"{len(sessions)} live handles are"
    names = sorted(set(sessions))
    place = f"the session {names[0]}" if len(names) == 1 else f"{len(names)} other sessions"
    return f"no handle in this session, but {handles} in {place}"


def _is_finished_call(info: Json) -> bool:
    """True for an unnamed call that ran to its end: its client has the result."""
    return info["state"] == "stopped" and re.fullmatch(_CALL, info["id"]) is not None


def _seconds_since_stop(info: Json) -> float:
    """Return the seconds since the stop; negative for a live handle, which comes first."""
    if info["state"] != "stopped":
        return -1.0
    return max(0.0, float(info["age_s"] - info["elapsed_ms"] / 1000))


def _rows(infos: list[Json], every: bool, *, narrow: bool = False) -> list[tuple[str, ...]]:
    """Return the table; it has the column NEEDS if a handle needs anything."""
    rows = [_HEAD, *(_row(info, narrow=narrow) for info in infos)]
    needs = ["NEEDS", *(info.get("needs", "nothing").replace("nothing", "-") for info in infos)]
    if any(need != "-" for need in needs[1:]):
        rows = [(*row[:3], need, *row[3:]) for row, need in zip(rows, needs, strict=True)]
    if every:
        sessions = ["SESSION", *(info["session"] for info in infos)]
        rows = [(session, *row) for session, row in zip(sessions, rows, strict=True)]
    return rows


def _row(info: Json, *, narrow: bool = False) -> tuple[str, ...]:
    duration = show.short_duration if narrow else show.duration
    amount = show.short_amount if narrow else show.amount
    return (
        info["id"],
        info["tool"],
        show.state_word(info),
        str(info.get("pid", "-")),
        duration(info["age_s"]),
        duration(info["cpu_s"]) if "cpu_s" in info else "-",
        amount(info["memory"]) if "memory" in info else "-",
        amount(info["bytes"]),
        show.plain(info["command"]),
    )
