"""Locks of one daemon: `daemon.lock` of a runtime folder, and the machine's lock of a state folder.

A flock, as any close of the file would end a POSIX lock; close-on-exec, as a child would hold it
after the daemon; never unlinked, as a lock on an unlinked file excludes no daemon. A suspended
holder is alive.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from pathlib import Path

from haftd.host.process.identity import (
    Identity,
    has_ended,
    identify_child,
    open_verified,
    read_stat,
)
from haftd.host.process.machine import boot_id, pid_namespace
from haftd.named_tuple import NamedTuple

_PF_EXITING = 0x4  # linux/sched.h
_LINE = 1024
"""Bytes of the first line: one write below a page, so no reader sees half."""


class LockHeld(Exception):
    """Held by another daemon; `pid` and `socket` as recorded, or None."""

    def __init__(self, path: Path, pid: int | None, socket: str | None = None) -> None:
        process = "" if pid is None else f" (process {pid})"
        where = "" if socket is None else f" and serves {socket}"
        super().__init__(f"another daemon{process} holds {path}{where}")
        self.path = path
        self.pid = pid
        self.socket = socket


class DaemonLock:
    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._socket: str | None = None

    @classmethod
    def acquire(cls, path: Path, *, patience_s: float = 1.0) -> DaemonLock:
        """Take the lock, and record this process as its holder; raise LockHeld, or OSError of opening
        the file.

        Blocks up to `patience_s` while the recorded holder is dead: a child between fork and exec
        still has the descriptors.
        """
        deadline = time.monotonic() + patience_s
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            lock = cls(path, fd)
            with contextlib.suppress(OSError):
                os.fchmod(fd, 0o1600)  # sticky: spared by age cleaners
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _read_holder(fd)
                os.close(fd)
                if holder.alive or time.monotonic() > deadline:
                    raise LockHeld(path, holder.pid, holder.socket) from None
                time.sleep(0.002)
                continue
            except BaseException:
                os.close(fd)
                raise
            # A file replaced between open and flock excludes no daemon.
            if not lock.is_in_place():
                os.close(fd)
                if time.monotonic() > deadline:
                    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))
                continue
            lock.announce(None)
            return lock

    def announce(self, socket: str | None) -> None:
        """Record this process and its socket; ignore a failed write."""
        self._socket = socket
        with contextlib.suppress(OSError):
            _write_holder(self._fd, socket)

    def restore(self) -> None:
        """Lock again after the file's removal; raise as `acquire`."""
        if not self.is_in_place():
            fresh = DaemonLock.acquire(self.path, patience_s=0)
            os.close(self._fd)
            self._fd = fresh._fd
            self.announce(self._socket)

    def is_in_place(self) -> bool:
        """True if the path still leads to the locked file."""
        try:
            current = os.stat(self.path, follow_symlinks=False)  # noqa: PTH116
        except OSError:
            return False
        held = os.fstat(self._fd)
        return (current.st_dev, current.st_ino) == (held.st_dev, held.st_ino)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _Holder(NamedTuple):
    pid: int | None = None
    socket: str | None = None
    alive: bool = True
    """False only if the recorded process has surely ended: an unreadable record counts as living."""


def _write_holder(fd: int, socket: str | None) -> None:
    pidfd = os.pidfd_open(os.getpid())
    try:
        holder = {**identify_child(os.getpid(), pidfd)._asdict(), "socket": socket}
        line = json.dumps(holder).encode() + b"\n"
    finally:
        os.close(pidfd)
    # In place: a rename would release the lock. Blanks cover the former content.
    os.pwrite(fd, line.ljust(_LINE), 0)


def _read_holder(fd: int) -> _Holder:
    try:
        form = json.loads(os.pread(fd, _LINE, 0))
        socket = form.get("socket") if isinstance(form, dict) else None
        identity = Identity(*(form[key] for key in ("pid", "ticks", "inode", "boot", "ns")))
    except (OSError, ValueError, KeyError, TypeError):
        return _Holder()
    if identity.ns != pid_namespace() and identity.boot == boot_id():
        return _Holder(identity.pid, socket)  # another pid namespace has other pids
    pidfd = open_verified(identity)
    if pidfd is None:
        return _Holder(identity.pid, socket, alive=False)
    try:
        stat = read_stat(identity.pid)
        dying = has_ended(pidfd) or stat is None or bool(stat.flags & _PF_EXITING)
    finally:
        os.close(pidfd)
    return _Holder(identity.pid, socket, alive=not dying)


def holds_daemon_lock(pid: int) -> bool:
    """True if the process has a `daemon.lock` open, as no child of a daemon has, or may not be examined."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except PermissionError:
        return True
    except OSError:
        return False
    for name in names:
        try:
            link = os.readlink(f"{folder}/{name}")  # noqa: PTH115
        except PermissionError:
            return True
        except OSError:
            continue
        if link.removesuffix(" (deleted)").endswith("/daemon.lock"):
            return True
    return False
