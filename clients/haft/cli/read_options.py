"""Options of the commands that read a handle, and the output of the state read."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import get_args

import msgspec
from msgspec import UnsetType

from haft_protocol.methods import ApprovalsListResult, View, Wait
from haft_protocol.states import HandleState, Running, Stopped

from ..client import Haft
from ..errors import HaftError
from . import show
from .options import connect
from .statuses import Status

Fields = Mapping[str, object]

_SETTLE_S = 1.0
_SILENCE_S = 1.0
_PERSON_S = 660.0
"""A person's time (`approval_timeout_s`, 600) plus that of the other steps."""
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
_STATE: msgspec.json.Decoder[HandleState] = msgspec.json.Decoder(HandleState)


def add_reading(parser: argparse.ArgumentParser, *, cursor: bool) -> None:
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--wait", choices=get_args(Wait), help="answer when this holds (or the handle stops)"
    )
    group.add_argument(
        "--timeout-ms", type=int, metavar="N", help="but after this time at the latest (10,000)"
    )
    group.add_argument("--quiet-ms", type=int, metavar="N", help="the quiet time (500)")
    group.add_argument(
        "--pattern",
        metavar="REGEX",
        help="the expression of --wait pattern, for unread output",
    )
    group.add_argument(
        "--view",
        choices=get_args(View),
        help="new output (delta), the same without echo and prompt (answer), all, tail, "
        "screen, the bytes (raw), "
        "or those that draw the screen (paint)",
    )
    group.add_argument("--max-bytes", type=int, metavar="N", help="how much to show (65,536)")
    if cursor:
        group.add_argument(
            "--cursor", type=int, metavar="N", help="from this byte on; marks nothing as read"
        )
        group.add_argument(
            "--since-revision", type=int, metavar="N", help="only the rows changed since (screen)"
        )


def reading_of(options: argparse.Namespace) -> dict[str, object]:
    params = {name: getattr(options, name, None) for name in _FIELDS}
    return {name: value for name, value in params.items() if value is not None}


def state_of(encoded: bytes) -> HandleState:
    return _STATE.decode(encoded)


def approved(haft: Haft, options: argparse.Namespace, method: str, fields: Fields) -> bytes:
    """Call a method that may need approval."""
    with awaiting_approval(haft, options, fields["id"], is_start=method == "spawn"):
        return haft.raw(method, fields)


@contextmanager
def awaiting_approval(
    haft: Haft, options: argparse.Namespace, id: object, *, is_start: bool = True
) -> Iterator[None]:
    """Allow the time of a person who approves, and report the wait.

    An interrupted start that awaits approval is withdrawn, so its handle is none that runs on.
    """
    if haft.patience is not None:
        haft.patience = max(haft.patience, _PERSON_S)
    word = threading.Timer(_SILENCE_S, _report_pending_approval, (options, id))
    word.daemon = True
    word.start()
    options.waited_for = [id]
    try:
        yield
    except KeyboardInterrupt:
        if is_start and _awaits_approval(options, id):
            options.waited_for = []
            options.withdrawn = id
        raise
    finally:
        word.cancel()


def _report_pending_approval(options: argparse.Namespace, id: object) -> None:
    """Report a pending approval of the call."""
    if _awaits_approval(options, id):
        show.line(f"{id}: awaits approval, see `haft approvals` and `haft approve {id}`")


def _awaits_approval(options: argparse.Namespace, id: object) -> bool:
    """Return True for a pending approval; only a hint depends on it, so errors are dropped."""
    with suppress(HaftError), connect(options) as other:
        other.patience = _SILENCE_S
        waiting = msgspec.json.decode(other.raw("approvals/list"), type=ApprovalsListResult)
        return any(approval.id == id for approval in waiting.approvals)
    return False


def finish(haft: Haft, options: argparse.Namespace, encoded: bytes) -> int:
    state = state_of(encoded)
    if options.json:
        show.document(encoded)
    elif getattr(options, "view", None) in ("raw", "paint"):
        show.show_bytes(state)
    else:
        show.show_state(_settled(haft, options, state))
    missed = _missed(options, state)
    if missed and not options.json:
        show.line(f"haft {options.command}: {missed}", "yellow")
    if show.failed(state):
        return Status.FAILED
    return Status.WAITED_IN_VAIN if missed else Status.DONE


def _missed(options: argparse.Namespace, state: HandleState) -> str:
    """Describe a wait without its condition; the implicit one for a piped process's first output is
    none."""
    for_pattern = hasattr(options, "pattern") or getattr(options, "wait", None) == "pattern"
    if state.waited in ("stopped", "deadline") and for_pattern:
        ended = "stopped" if state.waited == "stopped" else "timed out"
        missed = f"{ended} without a match for --pattern"
        # Only fetch waits for output after the read offset; a spawn or apply has returned none yet.
        reads_new = options.command == "fetch" and not hasattr(options, "cursor")
        return f"{missed} in new output; --cursor 0 searches all output" if reads_new else missed
    asked = any(hasattr(options, name) for name in ("wait", "pattern", "timeout_ms"))
    on_terminal = isinstance(state, Running) and not isinstance(state.input_wanted, UnsetType)
    return "timed out" if state.waited == "deadline" and (asked or on_terminal) else ""


def _settled(haft: Haft, options: argparse.Namespace, state: HandleState) -> HandleState:
    """Give a stopped handle's last output a moment to arrive, so that a person sees the text once
    and whole."""
    again = {k: v for k, v in reading_of(options).items() if k in ("view", "max_bytes", "cursor")}
    until = time.monotonic() + _SETTLE_S
    while (
        isinstance(state, Stopped) and state.output_complete is False and time.monotonic() < until
    ):
        time.sleep(0.05)
        fresh = state_of(haft.raw("fetch", {"id": state.id, **again}))
        if fresh.generation != state.generation:
            break
        state = fresh
    return state
