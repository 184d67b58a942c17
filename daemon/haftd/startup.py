"""What is done before READY: recovery, sockets, the environment that tools get.

Rules: each step either succeeds, or is a problem that the daemon lives with and reports, or raises
`CannotStart` with a sentence and the exit status. Nothing of a user's is run before recovery.
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
from haftd.config.options import EXIT_CONFIG, Paths
from haftd.config.settings import Settings, WebSocketSettings
from haftd.host.cgroup import find_base
from haftd.host.files import runtime_folder
from haftd.host.files.lockfile import DaemonLock, LockHeld
from haftd.host.files.spool_folder import sweep
from haftd.host.process.identity import boot_id, machine_id, pid_namespace
from haftd.host.process.process_tag import home_of
from haftd.host.recovery.journal import Journal
from haftd.host.recovery.recovery import Report, recover
from haftd.rpc.transports.credentials import Credentials
from haftd.tools.calls import loginpath
from haftd.upkeep import Listener

EXIT_HELD = 75
_MAX_DESCRIPTORS = 1 << 20
"""Descriptors that are asked for."""
_FEWEST = 64
"""With fewer, what an idle daemon has and what connections may not take leave none for a client."""
_LOGIN_SHELL_S = 1.5

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOSPC, errno.EDQUOT)
"""A file system without locks, such as a network's without its lock daemon, or without room for one."""

log = structlog.get_logger("haftd.startup")


class CannotStart(Exception):
    """The daemon cannot start; `status` is what it exits with."""

    def __init__(self, message: str, status: int = EXIT_CONFIG) -> None:
        super().__init__(message)
        self.status = status


def private_folders(paths: Paths) -> None:
    """Make the folders, or check those that are there. Raises `CannotStart`."""
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
    """Take `daemon.lock` and, if it can be had, the state folder's lock, until `stack` unwinds.

    The state folder's comes first: whoever is refused it has not touched `daemon.lock`, which a running
    daemon may be about to take again. Raises `Held`, `CannotStart`.
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
    """Take the lock of the one daemon of this state folder and machine; None where none can be had.

    Two daemons over one state folder would not know each other's handles: a program that one of them
    runs could have the other trust it. The lock is named by the machine: machines may share a home.
    """
    machine = machine_name(machine_id(), boot_id(), pid_namespace())
    path = Path(machine_lock(paths.state, machine))
    try:
        return DaemonLock.acquire(path)
    except LockHeld as held:
        who = "another haftd" if held.pid is None else f"another haftd (process {held.pid})"
        where = "" if held.socket is None else f" at {held.socket}"
        raise CannotStart(
            f"{who} serves the state folder {paths.state}{where}; use that one, or give this one a "
            "state folder of its own (XDG_STATE_HOME)",
            EXIT_HELD,
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise CannotStart(f"{path}: {error.strerror}") from None
        problems.append(
            Problem(
                file=str(path),
                key="",
                message=f"it cannot be locked ({error.strerror}), so nothing keeps a second daemon "
                "from using this state folder",
                advice="set XDG_STATE_HOME to a folder on a local disk",
            )
        )
        return None


def containment(settings: Settings, paths: Paths, problems: list[Problem]) -> Path | None:
    """The cgroup below which handles get theirs; None where there is none to have."""
    try:
        return find_base(settings.daemon.cgroup, told=os.environ.get("HAFT_DELEGATED") == "1")
    except OSError as error:
        problems.append(
            Problem(
                file=paths.config,
                key="daemon.cgroup",
                message=f"{error}; handles get no cgroup of their own",
            )
        )
        return None


def after_a_crash(paths: Paths, instance: str, base: Path | None) -> tuple[Journal, Report]:
    """End what a daemon before this one left; blocks for some seconds at most."""
    try:
        journal = Journal.open(Path(paths.runtime.handles_lock))
    except OSError as error:
        raise CannotStart(f"{error.filename}: {error.strerror}") from None
    report = recover(
        journal.records,
        home=home_of(Path(paths.runtime.folder)),
        base=base,
        live=instance,
        lock=Path(paths.runtime.recover_lock),
    )
    unwritten = []
    try:
        journal.compact(report.keep)
    except OSError as error:
        # The old file serves on: a spawn is refused while nothing can be written.
        unwritten.append(f"{journal.path.name} cannot be rewritten: {error.strerror}")
    for text in (*journal.problems, *report.problems, *unwritten):
        log.warning("recovery", problem=text)
    sweep(Path(paths.state, "calls"), home_of(Path(paths.runtime.folder)))
    remove_saved(paths)
    return journal, report


def remove_saved(paths: Paths) -> None:
    """Remove the files of results that no handle has any more."""
    sweep(Path(paths.spool), home_of(Path(paths.runtime.folder)))


async def environment(paths: Paths) -> dict[str, str]:
    """What tools get when a client sends none: ours, with the PATH of a login if ours is bare."""
    environ = {**os.environ, "HAFT_SOCKET": paths.socket}
    if loginpath.is_bare(environ.get("PATH")):
        learnt = await trio.to_thread.run_sync(
            loginpath.learn, environ, loginpath.login_shell(environ, os.getuid()), _LOGIN_SHELL_S
        )
        if learnt:
            environ["PATH"] = learnt
    return environ


def unix_listeners(given: Sequence[socket.socket], path: Path) -> list[Listener]:
    """The sockets that the service manager has bound, else one at `path`. Raises `CannotStart`."""
    if given:
        return [Listener(Path(sock.getsockname()), sock, owned=False) for sock in given]
    try:
        return [Listener(path, runtime_folder.bind(path), owned=True)]
    except runtime_folder.SocketInUse as error:
        raise CannotStart(str(error), EXIT_HELD) from None
    except (runtime_folder.FolderRefused, OSError) as error:
        raise CannotStart(str(error)) from None


def websocket_listener(
    wanted: WebSocketSettings | None,
    given: tuple[socket.socket, ...],
    paths: Paths,
    problems: list[Problem],
    stack: contextlib.ExitStack,
) -> tuple[list[socket.socket], Credentials | None]:
    """The listening sockets, none where it is off or cannot be had, and what is shown there.

    `stack` closes them. Credentials are made after the bind and removed before the close, so that no
    client sends a token to another process at the port; only a manager's port is held throughout.
    """
    try:
        if given:
            listening, credentials = list(given), Credentials.keep(paths.runtime)
        else:
            Credentials.remove(paths.runtime)
            if wanted is None:
                return [], None
            # It brings a library along: only who turns it on pays for that.
            from haftd.rpc.transports.websocket import open_websocket_listener

            listening = [open_websocket_listener(wanted.host, wanted.port)]
            try:
                credentials = Credentials.make(paths.runtime)
            except OSError:
                listening[0].close()
                raise
    except (OSError, ValueError) as error:
        problems.append(Problem(file=paths.config, key="websocket", message=f"it is off: {error}"))
        return [], None
    for sock in listening:
        stack.enter_context(sock)
    if not given:
        stack.callback(_remove_credentials, paths)
    return listening, credentials


def _remove_credentials(paths: Paths) -> None:
    with contextlib.suppress(OSError):
        Credentials.remove(paths.runtime)


def check_descriptors() -> None:
    """Raises `CannotStart` where nobody could ever be served."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _FEWEST:
        raise CannotStart(
            f"a process may have {hard} open files here, and {_FEWEST} are the fewest that serve "
            "anybody; raise the limit (`ulimit -n`, LimitNOFILE=)"
        )


def descriptors() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def raise_descriptor_limit() -> int:
    """Use all the descriptors the system lets us have; returns the soft limit that we were given,
    which is what tools get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return soft
