"""Discovery of the daemon's socket, connection, and the check of the peer.

A socket chosen by option or `HAFT_SOCKET` is the only candidate; otherwise the lock in the state
folder names the socket of a daemon started with other variables. The peer must be this user or
root: a spawn carries the whole environment.
"""

from __future__ import annotations

import _socket
import errno
import json
import os
import sys
from _socket import AF_UNIX, SO_PEERCRED, SOCK_STREAM, SOL_SOCKET

from haft_protocol.paths import (
    PathError,
    machine_lock,
    machine_name,
    socket_path,
    state_folder,
    with_login_folder,
)

from .errors import HaftError, InvalidAddress, NotRunning, ProtocolFault

Socket = _socket.socket
"""The base class of `socket.socket`, a module that takes 4 ms for its enumerations."""

_LINE = 1024
_ROOT = 0
"""Nothing can be kept from root."""


def find_socket(chosen: str | None = None) -> str:
    """Return the daemon's socket: `chosen`, or the path of `haft_protocol.paths`."""
    try:
        env = with_login_folder(os.environ, os.getuid(), os.lstat)
        return socket_path(env, os.getuid(), socket=chosen)
    except PathError as fault:
        raise InvalidAddress(str(fault)) from fault


def is_chosen(chosen: str | None) -> bool:
    return bool(chosen or os.environ.get("HAFT_SOCKET"))


def open_daemon(chosen: str | None = None, timeout: float = 5.0) -> Socket:
    """Connect to the daemon at `chosen`, the path of `haft_protocol.paths`, or the lock's socket.

    Raises `NotRunning` where none listens. The caller closes the socket.
    """
    path = find_socket(chosen)
    try:
        return _open(path, timeout)
    except NotRunning:
        if is_chosen(chosen) or (elsewhere := announced_socket()) in (None, path):
            raise
        try:
            return _open(elsewhere, timeout)
        except NotRunning:
            pass  # The lock outlives its daemon: the error names the usual path.
        raise


def announced_socket() -> str | None:
    """Return the socket of the daemon that last used this user's state folder."""
    return _holder().socket or None


def announced_pid(path: str) -> int | None:
    """Return the pid of the daemon at `path`; None unless its lock is held, in this pid namespace."""
    holder = _holder(held=True)
    if holder.socket != path or holder.ns != _pid_namespace():
        return None
    return holder.pid


def _holder(*, held: bool = False) -> _Holder:
    try:
        lock = machine_lock(state_folder(os.environ), _machine())
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if held and not _is_locked(fd):
                return _Holder()
            return _Holder(json.loads(os.read(fd, _LINE)))
        finally:
            os.close(fd)
    except (OSError, PathError, ValueError, RecursionError):
        return _Holder()


def _is_locked(fd: int) -> bool:
    """True if a daemon holds the lock, which is otherwise taken for a moment."""
    import fcntl  # only for `haft stop`

    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


class _Holder:
    """Line of the lock: the daemon's pid, with the inode of its pid namespace, and socket."""

    def __init__(self, line: object = None) -> None:
        fields = line if isinstance(line, dict) else {}
        pid, ns, socket = (fields.get(name) for name in ("pid", "ns", "socket"))
        self.pid = pid if isinstance(pid, int) else None
        self.ns = ns if isinstance(ns, int) else None
        self.socket = socket if isinstance(socket, str) else None


def _machine() -> str:
    def read(path: str) -> str:
        try:
            with open(path, encoding="ascii") as file:
                return file.read()
        except (OSError, ValueError):
            return ""

    return machine_name(
        read("/etc/machine-id"),
        read("/proc/sys/kernel/random/boot_id"),
        _pid_namespace(),
    )


def _pid_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - pathlib costs 5 ms of every command


def _open(path: str, timeout: float) -> Socket:
    end = Socket(AF_UNIX, SOCK_STREAM)
    try:
        # A full backlog makes a Unix connect wait, not fail.
        end.settimeout(timeout)
        end.connect(path)
        _check_peer(end, path)
    except OSError as fault:
        end.close()
        raise _explained(fault, path) from fault
    except BaseException:
        end.close()
        raise
    return end


def _check_peer(end: Socket, path: str) -> None:
    # `struct ucred` of unix(7): pid, uid and gid.
    credentials = end.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    uid = int.from_bytes(credentials[4:8], sys.byteorder)
    if uid not in (os.geteuid(), _ROOT):
        raise ProtocolFault(f"{path} belongs to the user with uid {uid}; nothing was sent to it")


def _explained(fault: OSError, path: str) -> HaftError:
    if fault.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR):
        return NotRunning(f"haftd is not running: no daemon listens at {path}")
    if isinstance(fault, TimeoutError):
        return HaftError(
            f"haftd does not accept connections at {path}; has it been stopped (SIGSTOP)?"
        )
    return HaftError(f"{path} cannot be connected to: {os.strerror(fault.errno or 0)}")
