"""`haft stop`: stop the daemon; return when its process has ended."""

from __future__ import annotations

import argparse
import os
import select
import shlex
import signal
from collections.abc import Sequence
from typing import Literal

from haft_protocol.methods import HandleInfo

from ...client import Haft
from ...daemon_socket import announced_pid, find_socket
from ...errors import (
    ConnectionLost,
    NotRunning,
    ProtocolFault,
    RemoteError,
    ReplyTimeout,
    VersionMismatch,
)
from ...json_exchange import encode
from .. import show
from ..confirmation import ask, can_ask, handle_names, live_handles
from ..options import chosen_address, chosen_socket, connect, is_remote
from ..statuses import Status

EPILOG = """\
examples:
  haft stop                 ends every handle within its grace period; on a terminal it asks first
  haft stop --if-idle       not while a handle runs
"""

_MAX_WAIT_S = 30.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--if-idle", action="store_true", help="refuse while a handle runs")
    parser.add_argument("-y", "--yes", action="store_true", help="end the handles without asking")


def explain_unexpected(options: argparse.Namespace, words: Sequence[str]) -> str | None:
    """Report handles, as `docker stop` would take them."""
    if any(word.startswith("-") for word in words):
        return None
    return f"stop ends the daemon and all handles; to end single handles: haft abort {shlex.join(words)}"


def run(options: argparse.Namespace) -> int:
    policy: Literal["abort", "refuse"] = "refuse" if getattr(options, "if_idle", False) else "abort"
    ending: list[HandleInfo] = []
    try:
        with connect(options) as haft:
            if policy == "abort":
                ending = _ending(haft)
            asks = not options.json and not getattr(options, "yes", False) and can_ask()
            if ending and asks and not ask(f"This will end {handle_names(ending)}. Stop haftd?"):
                show.line("haft stop: nothing was stopped")
                return Status.FAILED
            pid = _stop(haft, policy, remote=is_remote(options))
    except NotRunning as fault:
        # A daemon is not started to be stopped.
        raise NotRunning(str(fault)) from fault
    except VersionMismatch as fault:
        if is_remote(options):
            raise ProtocolFault(
                f"{fault.daemon} speaks another version of the protocol, and no process of {chosen_address(options).name} "
                "can be ended from here; run `haft stop` there"
            ) from None
        pid = _end(options, fault, policy)
    if options.json:
        show.document(
            encode({"stopped": True, "pid": pid, "ended": [_named(one) for one in ending]})
        )
    else:
        ended = f", and ended {handle_names(ending)}" if ending else ""
        show.line(f"haftd: stopped (pid {pid}){ended}")
    return 0


def _named(info: HandleInfo) -> dict[str, str]:
    return {"session": info.state.session, "id": info.state.id, "tool": info.state.tool}


def _stop(haft: Haft, policy: Literal["abort", "refuse"], *, remote: bool) -> int:
    try:
        return _shut_down_there(haft, policy) if remote else shut_down(haft, policy)
    except RemoteError as refused:
        if policy != "refuse" or refused.kind != "limit_exceeded":
            raise
        raise RemoteError(refused.code, refused.kind, _busy(haft), refused.data) from None


def _end(
    options: argparse.Namespace, fault: VersionMismatch, policy: Literal["abort", "refuse"]
) -> int:
    """End a daemon of another protocol by SIGTERM, as a service manager does."""
    daemon = f"haftd {fault.version or ''}".strip() + " speaks another version of the protocol"
    if policy == "refuse":
        raise ProtocolFault(
            f"{daemon}, so it is unknown whether a handle runs; without --if-idle the daemon is ended"
        )
    pid = fault.pid or announced_pid(find_socket(chosen_socket(options)))
    if pid is None:
        raise ProtocolFault(
            f"{daemon} and its process is unknown; end it by hand (`systemctl --user stop haftd`, or "
            "`kill` its process)"
        )
    ending = _watch(pid)
    if ending is not None:
        signal.pidfd_send_signal(ending, signal.SIGTERM)
    if not _ended(ending, _MAX_WAIT_S):
        raise ReplyTimeout(
            f"haftd (pid {pid}) was asked to stop but still runs after {_MAX_WAIT_S:.0f} s"
        )
    return pid


def shut_down(haft: Haft, policy: Literal["abort", "refuse"]) -> int:
    """Stop the daemon, wait for its process's end, and return the pid.

    Raises `RemoteError` on refusal, `ReplyTimeout` if the process still runs.
    """
    pid = haft.server.pid
    ending = _watch(pid)
    try:
        haft.shutdown(policy)
    except ConnectionLost:
        # The process ended before the reply.
        pass
    except BaseException:
        if ending is not None:
            os.close(ending)
        raise
    # A daemon waits for its clients.
    haft.close()
    if not _ended(ending, _MAX_WAIT_S):
        raise ReplyTimeout(
            f"haftd (pid {pid}) was asked to stop but still runs after {_MAX_WAIT_S:.0f} s"
        )
    return pid


def _shut_down_there(haft: Haft, policy: Literal["abort", "refuse"]) -> int:
    """Stop another machine's daemon and return its pid; the process ends a moment later."""
    pid = haft.server.pid
    try:
        haft.shutdown(policy)
    except ConnectionLost:
        pass  # The process ended before the reply.
    return pid


def _ending(haft: Haft) -> list[HandleInfo]:
    """Return the handles that end with the daemon; none if undecodable."""
    try:
        return live_handles(haft)
    except VersionMismatch:
        raise
    except (RemoteError, ProtocolFault):
        return []


def _busy(haft: Haft) -> str:
    counts = haft.status().handles
    live = sum(number for state, number in counts.items() if state != "stopped")
    running = "1 handle still runs" if live == 1 else f"{live} handles still run"
    return f"{running}; `haft ps -a` shows {'it' if live == 1 else 'them'}"


def _watch(pid: int) -> int | None:
    """Return a descriptor, readable once the process has ended; None if it already has."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _ended(ending: int | None, longest: float) -> bool:
    if ending is None:
        return True
    try:
        return bool(select.select([ending], [], [], longest)[0])
    finally:
        os.close(ending)
