"""Exit statuses of `haft`, and the errors that cause them.

Scripts depend on the numbers: never change a meaning. `attach` also returns 128 and a signal's
number, `run` and `shell` the status of their program.
"""

from __future__ import annotations

from enum import IntEnum

from ..errors import (
    InvalidAddress,
    NotUnicode,
    ProtocolFault,
    RemoteError,
    ReplyTimeout,
    SetupFailed,
)
from .options import ApprovalTimedOut, UnknownId, UsageError
from .show import OutputFailed


class Status(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_DAEMON = 3
    REFUSED = 4
    WAIT_FAILED = 5
    NOT_WRITTEN = 6
    INTERRUPTED = 130
    BROKEN_PIPE = 141


_MEANINGS = {
    Status.DONE: "done",
    Status.FAILED: "the tool failed, a search found nothing, or you did not agree",
    Status.USAGE: "the command line is wrong",
    Status.NO_DAEMON: "no daemon answers",
    Status.REFUSED: "the daemon refused, as for an unknown id, or did not answer properly",
    Status.WAIT_FAILED: "the time ran out, or the wait ended without its condition",
    Status.NOT_WRITTEN: "the output could not be written",
    Status.INTERRUPTED: "interrupted by Ctrl-C; a handle runs on",
    Status.BROKEN_PIPE: "the reader of the output is gone",
}

_KINDS: tuple[tuple[type[Exception], str, Status], ...] = (
    (UnknownId, "unknown_id", Status.REFUSED),
    (UsageError, "usage", Status.USAGE),
    (InvalidAddress, "usage", Status.USAGE),
    (NotUnicode, "usage", Status.USAGE),
    (OutputFailed, "output", Status.NOT_WRITTEN),
    (SetupFailed, "setup", Status.FAILED),
    (ApprovalTimedOut, "timeout", Status.WAIT_FAILED),
    (RemoteError, "", Status.REFUSED),
    (ReplyTimeout, "protocol", Status.REFUSED),
    (ProtocolFault, "protocol", Status.REFUSED),
)


def status_of(fault: Exception) -> tuple[str, Status]:
    """Return an error's kind for the JSON document, and the exit status."""
    if isinstance(fault, RemoteError):
        return fault.kind, Status.REFUSED
    entries = (entry[1:] for entry in _KINDS if isinstance(fault, entry[0]))
    return next(entries, ("unreachable", Status.NO_DAEMON))


def table() -> str:
    return "".join(f"  {status:<5}{meaning}\n" for status, meaning in _MEANINGS.items())
