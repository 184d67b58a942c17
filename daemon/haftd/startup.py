"""Steps before READY: locks, recovery, sockets, the environment of tools.

A failed step is a problem or raises `CannotStart`. Programs run only after recovery.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
from collections.abc import Sequence
from pathlib import Path

import structlog
import trio

from haft_protocol.methods import Problem
from haft_protocol.paths import machine_lock, machine_name
from haftd.config.command_line import EXIT_CONFIG
from haftd.config.options import Paths
from haftd.config.settings import Settings, WebSocketSettings
from haftd.host.cgroup import find_base
from haftd.host.files import runtime_folder
from haftd.host.files.lockfile import DaemonLock, LockHeld
from haftd.host.files.spool_folder import sweep
from haftd.host.limit_group import Containment, enable_controllers
from haftd.host.process.machine import boot_id, machine_id, pid_namespace
from haftd.host.process.own_tag import OUTER, make_home
from haftd.host.recovery.journal import Journal
from haftd.host.recovery.record import Record
from haftd.host.recovery.recovery import Recovery, Report
from haftd.rpc.transports.credentials import Credentials
from haftd.tools.calls import loginpath
from haftd.tools.calls.environment import Variables
from haftd.upkeep import Listener

EXIT_HELD = 75  # EX_TEMPFAIL of sysexits.h
_MAX_DESCRIPTORS = 1 << 20  # the kernel's default of fs.nr_open, proc_sys_fs(5)
_MIN_DESCRIPTORS = 64
"""With fewer, none is left for a client."""
_LOGIN_SHELL_S = 1.5
"""Longest delay of a start by the login shell."""

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOSPC, errno.EDQUOT)
"""Errors of file systems without locks or room for one."""

log = structlog.get_logger("haftd.startup")


class CannotStart(Exception):
    """Impossible start; `status` is the exit status."""

    def __init__(self, message: str, status: int = EXIT_CONFIG) -> None:
        super().__init__(message)
        self.status = status


def prepare_folders(paths: Paths) -> None:
    """Create or check the private folders. Raises `CannotStart`."""
    try:
        runtime_folder.prepare(Path(paths.runtime.folder), ours=paths.runtime.ours)
        runtime_folder.prepare_state(Path(paths.state), ("spool", "calls"))
    except runtime_folder.FolderRefused as refused:
        raise CannotStart(str(refused)) from None
    except OSError as error:
        raise CannotStart(f"{error.filename}: {error.strerror}") from None


def take_locks(
    paths: Paths, problems: list[Problem], stack: contextlib.ExitStack
) -> tuple[DaemonLock, ...]:
    """Lock the state folder if possible, then `daemon.lock`, which a running daemon may need again,
    until `stack` unwinds.

    Raises `LockHeld`, `CannotStart`.
    """
    state_lock = _lock_state(paths, problems)
    if state_lock is not None:
        stack.callback(state_lock.close)
    try:
        lock = DaemonLock.acquire(Path(paths.runtime.daemon_lock))
    except OSError as error:
        raise CannotStart(f"{paths.runtime.daemon_lock}: {error.strerror}") from None
    stack.callback(lock.close)
    return (lock,) if state_lock is None else (lock, state_lock)


def _lock_state(paths: Paths, problems: list[Problem]) -> DaemonLock | None:
    """Lock the state folder for this machine; None if impossible.

    Daemons that share it cannot protect trust from each other's handles; machines may share a home.
    """
    machine = machine_name(machine_id(), boot_id(), pid_namespace())
    path = Path(machine_lock(paths.state, machine))
    try:
        return DaemonLock.acquire(path)
    except LockHeld as held:
        who = "another haftd" if held.pid is None else f"another haftd (process {held.pid})"
        where = "" if held.socket is None else f" at {held.socket}"
        raise CannotStart(
            f"{who} serves the state folder {paths.state}{where}; use that one, or give this one its own state folder (XDG_STATE_HOME)",
            EXIT_HELD,
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise CannotStart(f"{path}: {error.strerror}") from None
        problems.append(
            Problem(
                file=str(path),
                key="",
                message=f"it cannot be locked ({error.strerror}), so a second daemon could use this state folder",
                advice="set XDG_STATE_HOME to a folder on a local disk",
            )
        )
        return None


def prepare_containment(settings: Settings, paths: Paths, problems: list[Problem]) -> Containment:
    """Return the cgroups for handles, with their controllers enabled, for which the daemon may move into
    another one."""
    setting = settings.daemon.cgroup
    try:
        base = find_base(setting, declared=os.environ.get("HAFT_DELEGATED") == "1")
    except OSError as error:
        problems.append(
            Problem(
                file=paths.config,
                key="daemon.cgroup",
                message=f"{error}; handles do not get their own cgroups",
            )
        )
        base = None
    return Containment(base, enable_controllers(setting, base))


def recover_processes(
    paths: Paths, instance: str, bases: Sequence[Path]
) -> tuple[Journal, Report, Recovery | None]:
    """End the processes of a previous daemon; blocks for up to a few seconds.

    Returns the journal, the report, and the recovery if nothing was found, for its second scan
    (`finish_recovery`). Raises `CannotStart`.
    """
    try:
        journal = Journal.open(Path(paths.runtime.handles_lock))
    except OSError as error:
        raise CannotStart(f"{error.filename}: {error.strerror}") from None
    recovery = Recovery(
        journal.records,
        home=make_home(Path(paths.runtime.folder)),
        bases=bases,
        live=instance,
        lock=Path(paths.runtime.recover_lock),
    )
    # A tag in HAFT_OUTER is handed on to tools, which a later scan would take for a dead daemon's.
    is_due = recovery.scan_first() and not journal.problems and OUTER not in os.environ
    report = recovery.report() if is_due else recovery.finish()
    _note(report, journal)
    for folder in (Path(paths.state, "calls"), *paths.answered_calls):
        sweep(folder, make_home(Path(paths.runtime.folder)))
    remove_saved(paths)
    return journal, report, recovery if is_due else None


async def finish_recovery(recovery: Recovery, journal: Journal) -> Report:
    """Make the second scan between the turns of other tasks, also during a stop, and record what it has
    found. Closes the recovery."""
    try:
        with trio.CancelScope(shield=True):
            for pause_s in recovery.steps:
                await trio.sleep(pause_s)
        report = recovery.report()
    finally:
        recovery.close()
    if report != Report(dropped=report.dropped):
        _note(report, journal, (*journal.records, *report.keep))
    return report


def _note(report: Report, journal: Journal, keep: Sequence[Record] | None = None) -> None:
    unwritten = []
    try:
        journal.compact(report.keep if keep is None else keep)
    except OSError as error:
        # The old journal stays: unwritable, it refuses spawns.
        unwritten.append(f"{journal.path.name} cannot be rewritten: {error.strerror}")
    for text in (*journal.problems, *report.problems, *unwritten):
        log.warning("recovery", problem=text)


def remove_saved(paths: Paths) -> None:
    """Remove the named files of a previous daemon's results."""
    sweep(Path(paths.spool), make_home(Path(paths.runtime.folder)))


async def make_environment(paths: Paths) -> Variables:
    """Return the tools' default environment: the daemon's, with a login PATH if its own is minimal."""
    environ = {**os.environ, "HAFT_SOCKET": paths.socket}
    if loginpath.is_bare(environ.get("PATH")):
        learnt = await trio.to_thread.run_sync(
            loginpath.learn,
            environ,
            loginpath.find_login_shell(environ, os.getuid()),
            _LOGIN_SHELL_S,
        )
        if learnt:
            environ["PATH"] = learnt
    return Variables(environ)


def open_unix_listeners(activated: Sequence[socket.socket], path: Path) -> list[Listener]:
    """Return the service manager's sockets, else one at `path`. Raises `CannotStart`."""
    if activated:
        return [Listener(Path(sock.getsockname()), sock, owned=False) for sock in activated]
    try:
        return [Listener(path, runtime_folder.bind(path), owned=True)]
    except runtime_folder.SocketInUse as error:
        raise CannotStart(str(error), EXIT_HELD) from None
    except (runtime_folder.FolderRefused, OSError) as error:
        raise CannotStart(str(error)) from None


def open_websocket(
    settings: WebSocketSettings | None,
    activated: tuple[socket.socket, ...],
    paths: Paths,
    problems: list[Problem],
    stack: contextlib.ExitStack,
) -> tuple[list[socket.socket], Credentials | None]:
    """Return the WebSocket's listeners, closed by `stack`, and the credentials, none of either if it is
    off or, with a problem, cannot listen. The credentials exist only while the port is open: clients
    must send no token to another process. A service manager keeps the port open."""
    try:
        if activated:
            listening, credentials = list(activated), Credentials.keep(paths.runtime)
        else:
            Credentials.remove(paths.runtime)
            if settings is None:
                return [], None
            # Slow import.
            from haftd.rpc.transports.websocket import open_websocket_listener

            listening = [open_websocket_listener(settings.host, settings.port)]
            try:
                credentials = Credentials.make(paths.runtime)
            except OSError:
                listening[0].close()
                raise
    except (OSError, ValueError) as error:
        problems.append(
            Problem(file=paths.config, key="websocket", message=f"the WebSocket is off: {error}")
        )
        return [], None
    for sock in listening:
        stack.enter_context(sock)
    if not activated:
        stack.callback(_remove_credentials, paths)
    return listening, credentials


def _remove_credentials(paths: Paths) -> None:
    with contextlib.suppress(OSError):
        Credentials.remove(paths.runtime)


def check_descriptors() -> None:
    """Raise `CannotStart` if the limit of descriptors leaves none for a client."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _MIN_DESCRIPTORS:
        raise CannotStart(
            f"a process may have {hard} open files here, and {_MIN_DESCRIPTORS} is the minimum; raise the limit (`ulimit -n`, LimitNOFILE=)"
        )


def read_descriptor_limit() -> int:
    """Return the soft limit of descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> int:
    """Raise the soft limit of descriptors; return the former one, for tools."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return soft
