"""Identify a process by more than its pid, because the kernel reuses pids.

- An `Identity` holds the pid, the start time in ticks (field 22 of stat), the pidfd's inode (unique
  within a boot from Linux 6.9 on, 0 before), the boot id and the inode of the pid namespace.
- Standard library only, without an event loop: the guardian uses this module after the daemon's
  death.
"""

from __future__ import annotations

import errno
import os
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from haftd.host.process.machine import boot_id, pid_namespace

_MAX_ENVIRON = 4 << 20


@dataclass(frozen=True, slots=True)
class Identity:
    pid: int
    ticks: int
    inode: int
    boot: str
    ns: int


class Stat(NamedTuple):
    """Fields of /proc/<pid>/stat."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    flags: int
    reaped: int
    """Minor faults of the children that the process has waited for: the count grows with each of them."""
    ticks: int
    threads: int = 0
    """The number of threads; 0 where unknown, as of a process that has ended."""


def own_proc() -> bool:
    """Return whether /proc shows this process's pid namespace."""
    try:
        return str(Path("/proc/self").readlink()) == str(os.getpid())
    except OSError:
        return False


@cache
def _shared_inode() -> int:
    """Return the inode of all anonymous files, which older kernels give every pidfd."""
    epoll = select.epoll()
    try:
        return os.fstat(epoll.fileno()).st_ino
    finally:
        epoll.close()


def pidfd_inode(pidfd: int) -> int:
    """Return a pidfd's inode; 0 if the kernel has no unique ones."""
    inode = os.fstat(pidfd).st_ino
    return 0 if inode == _shared_inode() else inode


def _is_ours(error: OSError) -> bool:
    """Return whether this process lacks resources, which proves nothing about another."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if _is_ours(error):
            raise
        return None


def open_pidfd(pid: int) -> int | None:
    """Open a pidfd; None for no such process. Raises OSError for lack of descriptors or memory."""
    try:
        return os.pidfd_open(pid)
    except OverflowError:
        return None
    except OSError as error:
        if _is_ours(error):
            raise
        return None


def read_stat(pid: int) -> Stat | None:
    """Read /proc/<pid>/stat; None for no such process. Raises OSError as `open_pidfd`."""
    fd = _open(f"/proc/{pid}/stat")
    if fd is None:
        return None
    try:
        data = os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The name in parentheses may hold blanks and parentheses: cut after the last one.
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Stat(
        pid,
        fields[0].decode("ascii", "replace"),
        int(fields[1]),
        int(fields[2]),
        int(fields[3]),
        int(fields[6]),
        int(fields[8]),
        int(fields[19]),
        int(fields[17]),
    )


def read_environ(pid: int) -> bytes | None:
    """Read the initial environment of a process of this user; None if unreadable."""
    fd = _open(f"/proc/{pid}/environ")
    if fd is None:
        return None
    data = bytearray()
    try:
        # Root can read every process; those of other users are still not ours.
        if os.fstat(fd).st_uid != os.geteuid():
            return None
        while len(data) < _MAX_ENVIRON:
            piece = os.read(fd, 1 << 16)
            if not piece:
                break
            data += piece
    except OSError:
        return None
    finally:
        os.close(fd)
    return bytes(data)


def every_pid() -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - half the time of Path.iterdir
        if name.isdecimal():
            yield int(name)


def ancestors() -> frozenset[int]:
    pids: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in pids:
        pids.add(pid)
        stat = read_stat(pid)
        if stat is None:
            break
        pid = stat.parent
    return frozenset(pids)


def identify_child(pid: int, pidfd: int) -> Identity:
    """Return the identity of an unreaped process. Raises ProcessLookupError in a foreign /proc."""
    stat = read_stat(pid)
    if stat is None:
        raise ProcessLookupError(errno.ESRCH, f"process {pid} is not in /proc")
    return Identity(pid, stat.ticks, pidfd_inode(pidfd), boot_id(), pid_namespace())


def has_ended(pidfd: int) -> bool:
    """Return whether the whole process has exited, reaped or not.

    State Z in stat is not enough: the first thread may end before others.
    """
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def send_signal(pidfd: int, signum: int, flags: int = 0) -> bool:
    """Send a signal; return False when the process is gone. Raises PermissionError."""
    try:
        signal.pidfd_send_signal(pidfd, signum, None, flags)
    except ProcessLookupError:
        return False
    return True


def open_verified(identity: Identity) -> int | None:
    """Open a pidfd of exactly this process, also of a zombie; None when gone, or of another boot or
    namespace.

    The caller closes the descriptor. Raises OSError as `open_pidfd`.
    """
    if identity.pid <= 1 or identity.boot != boot_id() or identity.ns != pid_namespace():
        return None
    pidfd = open_pidfd(identity.pid)
    if pidfd is None:
        return None
    same = False
    try:
        same = _is_same(identity, pidfd)
    finally:
        if not same:
            os.close(pidfd)
    return pidfd if same else None


def is_alive(identity: Identity) -> bool:
    pidfd = open_verified(identity)
    if pidfd is None:
        return False
    try:
        return not has_ended(pidfd)
    finally:
        os.close(pidfd)


def _is_same(identity: Identity, pidfd: int) -> bool:
    inode = pidfd_inode(pidfd)
    # A record without an inode (of an older kernel) is judged by ticks alone.
    if identity.inode and inode != identity.inode:
        return False
    stat = read_stat(identity.pid)
    if stat is None or stat.ticks != identity.ticks:
        return False
    # The ticks are the process's own only if the pidfd's process is still there.
    try:
        return send_signal(pidfd, 0)
    except PermissionError:
        return True
