"""Options of the commands that read a handle, and the output of the state read."""

from __future__ import annotations

import argparse
import json
import sys
import time

from haft_protocol.constants import VIEWS, WAITS

from ..errors import HaftError, ReplyTimeout
from . import show
from .options import (
    MAX_OFFSET,
    ApprovalTimedOut,
    UsageError,
    command_for,
    connect_plainly,
    report_unresponsive,
    whole,
)
from .replies import checked_state
from .statuses import Status

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..blocking_connection import BlockingConnection
    from .show import Json

    Fields = Mapping[str, object]

_LAST_OUTPUT_S = 1.0
"""Seconds allowed for the last output of a stopped handle."""
_APPROVAL_HINT_S = 1.0
"""Seconds without a reply, after which a hint names the action that awaits approval."""
_CHECK_S = 4.0
"""Seconds allowed for the check whether an action awaits approval; after them haftd is pinged."""
_LAST_CHECK_S = 1.0
"""Seconds allowed for the same check after Ctrl-C."""
_LATE_S = 0.25
"""Seconds beyond `--timeout-ms` in which the reply to a call that awaits no approval arrives."""
_PERSON_S = 660.0
"""Seconds allowed for a person's decision (`approval_timeout_s`, 600) and what follows it."""
_SUBJECTS = {
    "spawn": ("its start", "withdraws it"),
    "apply": ("the input", "withdraws it"),
    "result": ("its result", "ends the wait"),
}
"""How a hint names each action that awaits approval, and the effect of Ctrl-C on it.

The action `result` hands out the result of a tool that has ended.
"""
_BOUNDED = ("spawn", "apply", "fetch")
"""Commands whose --timeout-ms also bounds the wait for an approval."""
_FIELDS = (
    "wait",
    "timeout_ms",
    "quiet_ms",
    "pattern",
    "view",
    "max_bytes",
    "cursor",
    "since_revision",
)


WAIT_OF_A_PROGRAM = "on a terminal: input; on a pipe: output, for 250 ms at most"
"""Default of `--wait` for a started process, or one given input."""


def add_read_options(parser: argparse.ArgumentParser, *, cursor: bool, wait: str) -> None:
    """Add the options; `wait` describes the default of `--wait`."""
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--wait", choices=WAITS, help=f"answer when this holds, or the handle stops ({wait})"
    )
    group.add_argument(
        "--timeout-ms",
        type=whole(),
        metavar="N",
        help="wait at most this many milliseconds (10,000)",
    )
    group.add_argument(
        "--quiet-ms",
        type=whole(),
        metavar="N",
        help="milliseconds without output after which --wait quiet holds (500)",
    )
    group.add_argument(
        "--pattern",
        metavar="REGEX",
        help="the regular expression of --wait pattern, for unread output",
    )
    group.add_argument(
        "--view",
        choices=VIEWS,
        help="new output (delta, the default), the same without echo and prompt (answer), all, tail, "
        "screen, the bytes (raw), "
        "or those that draw the screen (paint)",
    )
    group.add_argument(
        "--max-bytes", type=whole(), metavar="N", help="how many bytes to show (65,536)"
    )
    if cursor:
        group.add_argument(
            "--cursor",
            type=whole(maximum=MAX_OFFSET),
            metavar="N",
            help="from this byte on; marks nothing as read",
        )
        group.add_argument(
            "--since-revision",
            type=whole(maximum=MAX_OFFSET),
            metavar="N",
            help="only the rows changed since (screen)",
        )


def read_params(options: argparse.Namespace) -> dict[str, object]:
    params = {name: getattr(options, name, None) for name in _FIELDS}
    if params["wait"] == "pattern" and params["pattern"] is None:
        raise UsageError("--wait pattern needs the expression: --pattern REGEX")
    return {name: value for name, value in params.items() if value is not None}


def call_awaiting_approval(
    haft: BlockingConnection, options: argparse.Namespace, method: str, fields: Fields
) -> bytes:
    """Call a method on a handle, and wait for the approval of it, too.

    Raises `ApprovalTimedOut` after `--timeout-ms`, with the action withdrawn. A start answers with the
    handle `pending` then, by `approval_timeout_ms`.
    """
    with AwaitingApproval(haft, options, fields["id"], method):
        return haft.raw(method, fields)


class AwaitingApproval:
    """Context that allows the calls made in it the time of an approval, and reports that they await
    one.

    Ctrl-C ends the command, and haftd withdraws a start or an input that awaits approval when its
    connection ends. For a start, `withdrawn` has the command say so.
    """

    def __init__(
        self,
        haft: BlockingConnection,
        options: argparse.Namespace,
        id: object,
        method: str = "spawn",
    ) -> None:
        self._haft = haft
        self._options = options
        self._id = id
        self._method = method
        timeout_ms = None if method == "spawn" else getattr(options, "timeout_ms", None)
        self._bound_s = None if timeout_ms is None else timeout_ms / 1000 + _LATE_S
        self._began = time.monotonic()
        self._is_reported = False

    def __enter__(self) -> None:
        if self._haft.patience is not None:
            self._haft.patience = max(self._haft.patience, _PERSON_S)
        first_s = _APPROVAL_HINT_S
        if self._bound_s is not None:
            first_s = min(first_s, self._bound_s)
        self._haft.silence = first_s, self._report
        # After Ctrl-C the command says that this handle runs on.
        self._options.waited_for = [self._id]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._haft.silence = None
        is_interrupt = kind is not None and issubclass(kind, KeyboardInterrupt)
        if not is_interrupt or self._method != "spawn":
            return
        try:
            action = _awaited_action(self._options, self._id, patience=_LAST_CHECK_S)
        except ReplyTimeout:
            return
        if action == "spawn":
            # haftd withdraws it as soon as the connection is closed.
            self._options.waited_for = []
            self._options.withdrawn = self._id

    def _report(self) -> float | None:
        """Report the approval that is awaited; return the seconds after which to look again."""
        try:
            action = _awaited_action(self._options, self._id, patience=_CHECK_S)
        except ReplyTimeout:
            report_unresponsive(self._options)
            return None
        id, bound_s, passed_s = self._id, self._bound_s, time.monotonic() - self._began
        subject, end = _SUBJECTS.get(action or "", (action, "ends the wait"))
        if bound_s is not None and passed_s >= bound_s:
            if action == self._method:
                raise ApprovalTimedOut(
                    f"{id}: timed out, as {subject} awaited approval; it is withdrawn, and nothing was done"
                )
            bound_s = None
        if action is not None and not self._is_reported:
            self._is_reported = True
            # `haft approve` also takes the id of a handle.
            approve = command_for(self._options, f"approve {id}")
            show.line(
                f"{id}: {subject} awaits approval; decide in another terminal: {approve}; Ctrl-C {end}"
                f"{other_bounds(self._options)}"
            )
        return bound_s


def other_bounds(options: argparse.Namespace) -> str:
    """Name the options that bound the wait, for a program that runs the command without a terminal;
    empty otherwise, for a command without them, and if one of them is given."""
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if has_terminal or options.command not in _BOUNDED or hasattr(options, "timeout_ms"):
        return ""
    ends = " and --wait none ends it" if options.command == "spawn" else ""
    return f"; --timeout-ms bounds this wait{ends}"


def _awaited_action(options: argparse.Namespace, id: object, *, patience: float) -> str | None:
    """Return the action that awaits approval; only a hint depends on it, so errors are dropped.

    Raises `ReplyTimeout`.
    """
    try:
        with connect_plainly(options) as other:
            other.patience = patience
            waiting = json.loads(other.raw("approvals/list"))["approvals"]
            return next((str(each["action"]) for each in waiting if each["id"] == id), None)
    except ReplyTimeout:
        raise
    except (HaftError, KeyError, TypeError):
        return None


def print_state(haft: BlockingConnection, options: argparse.Namespace, encoded: bytes) -> int:
    """Print the encoded state, and a wait without its condition; return the exit status."""
    state = checked_state(encoded)
    if options.json:
        show.document(encoded)
    elif getattr(options, "view", None) in ("raw", "paint"):
        show.show_bytes(state)
    else:
        show.show_state(_with_last_output(haft, options, state))
    missed = _missed(options, state)
    if missed and not options.json:
        show.line(f"haft {options.command}: {missed}", "yellow")
    if show.failed(state):
        return Status.FAILED
    return Status.WAIT_FAILED if missed else Status.DONE


def _missed(options: argparse.Namespace, state: Json) -> str:
    """Describe a wait that has ended without its condition; return an empty string for other waits.

    The default wait on a pipe is never described: nobody has asked for it, and it takes 250 ms at
    most.
    """
    if (
        state["state"] == "pending"
        and options.command == "spawn"
        and hasattr(options, "timeout_ms")
    ):
        approve, abort = (
            command_for(options, f"{verb} {state['id']}") for verb in ("approve", "abort")
        )
        return f"timed out: its start awaits approval; {approve} decides, {abort} withdraws it"
    for_pattern = hasattr(options, "pattern") or getattr(options, "wait", None) == "pattern"
    if state.get("waited") in ("stopped", "deadline") and for_pattern:
        ended = "stopped" if state["waited"] == "stopped" else "timed out"
        missed = f"{ended} without a match for --pattern"
        # A fetch without --cursor misses a match in output that was read before; the waits of spawn
        # and apply begin at the start and the input, so nothing of theirs has been read.
        reads_new = options.command == "fetch" and not hasattr(options, "cursor")
        return f"{missed} in new output; --cursor 0 searches all output" if reads_new else missed
    asked = any(hasattr(options, name) for name in ("wait", "pattern", "timeout_ms"))
    on_terminal = state["state"] == "running" and "input_wanted" in state
    return "timed out" if state.get("waited") == "deadline" and (asked or on_terminal) else ""


def _with_last_output(haft: BlockingConnection, options: argparse.Namespace, state: Json) -> Json:
    """Fetch a stopped handle again for a moment, so that the last output is shown once and whole."""
    again = {k: v for k, v in read_params(options).items() if k in ("view", "max_bytes", "cursor")}
    until = time.monotonic() + _LAST_OUTPUT_S
    while (
        state["state"] == "stopped"
        and state.get("output_complete") is False
        and time.monotonic() < until
    ):
        time.sleep(0.05)
        fresh = checked_state(haft.raw("fetch", {"id": state["id"], **again}))
        if fresh["generation"] != state["generation"]:
            break
        state = fresh
    return state
