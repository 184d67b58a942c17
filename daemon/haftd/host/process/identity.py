"""Identify a process by more than its pid, which the kernel reuses: start time in ticks (field 22
of stat), the pidfd's inode (unique within a boot from Linux 6.9, 0 before), boot id and inode of
the pid namespace.

Standard library only, for the guardian.
"""

from __future__ import annotations

import errno
import os
import select
import signal
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from haftd.host.process.machine import boot_id, pid_namespace
from haftd.named_tuple import NamedTuple

_MAX_ENVIRON = 4 << 20
"""Bytes read of an environment: execve(2) takes 6 MiB of it at most, by default 2."""


class Identity(NamedTuple):
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
    """Minor faults of reaped children: grows with each."""
    ticks: int
    threads: int = 0
    """Number of threads; 0 where unknown, as after the end."""


def own_proc() -> bool:
    """True if the /proc that is mounted shows this process's pid namespace."""
    try:
        return str(Path("/proc/self").readlink()) == str(os.getpid())
    except OSError:
        return False


@cache
def _shared_inode() -> int:
    """Return the inode of all anonymous files, also of pidfds in older kernels."""
    epoll = select.epoll()
    try:
        return os.fstat(epoll.fileno()).st_ino
    finally:
        epoll.close()


def read_pidfd_inode(pidfd: int) -> int:
    """Return the inode that is the process's alone; 0 where the kernel gives none."""
    inode = os.fstat(pidfd).st_ino
    return 0 if inode == _shared_inode() else inode


def read_pidfd_key(pid: int, pidfd: int) -> int:
    """Return a number by which a process differs from all other processes of its pid: the pidfd's
    inode, or the start in ticks, 0 for a gone process."""
    inode = read_pidfd_inode(pidfd)
    if inode:
        return inode
    stat = read_stat(pid)
    return 0 if stat is None else stat.ticks


def _is_shortage(error: OSError) -> bool:
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def _open(path: str) -> int | None:
    """Open a file for reading; None where that fails. Raises OSError as `open_pidfd`."""
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        if _is_shortage(error):
            raise
        return None


def open_pidfd(pid: int) -> int | None:
    """Open a pidfd; None where there is no such process, or none that can be opened. Raises OSError
    for lack of descriptors or memory."""
    try:
        return os.pidfd_open(pid)
    except OverflowError:
        return None
    except OSError as error:
        if _is_shortage(error):
            raise
        return None


def _read_head(path: str) -> bytes | None:
    """Read up to 4 KiB; None where the file cannot be read. Raises OSError as `open_pidfd`."""
    fd = _open(path)
    if fd is None:
        return None
    try:
        return os.read(fd, 4096)
    except OSError:
        return None
    finally:
        os.close(fd)


def read_whole(path: str) -> bytes | None:
    """Read a small file of /proc; None where it cannot be read. Raises OSError as `open_pidfd`."""
    fd = _open(path)
    if fd is None:
        return None
    try:
        # A file that is shorter than the read is whole.
        data = part = os.read(fd, 4096)
        while len(part) == 4096:
            part = os.read(fd, 4096)
            data += part
        return data
    except OSError:
        return None
    finally:
        os.close(fd)


def skip_name(stat: bytes) -> bytes:
    """Return the fields of /proc/<pid>/stat from the state on.

    The name in parentheses before it may have spaces and parentheses in it.
    """
    return stat[stat.rfind(b")") + 2 :]


def read_stat(pid: int, read: Callable[[str], bytes] | None = None) -> Stat | None:
    """Read /proc/<pid>/stat (proc_pid_stat(5)); None for no such process. Raises OSError as
    `open_pidfd`. `read` reads a file in place of opening it here."""
    path = f"/proc/{pid}/stat"
    if read is None:
        data = _read_head(path)
    else:
        try:
            data = read(path)
        except OSError as error:
            if _is_shortage(error):
                raise
            return None
    if data is None:
        return None
    fields = skip_name(data).split()
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
    """Read the initial environment of this user's process; None for another user's, or if it is
    unreadable. Raises OSError as `open_pidfd`."""
    fd = _open(f"/proc/{pid}/environ")
    if fd is None:
        return None
    data = bytearray()
    try:
        # Root can read other users' processes, which are not ours.
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
    """Return the pids of this process and its ancestors, as far as /proc shows them."""
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
    """Return an unreaped process's identity; raise ProcessLookupError in a foreign /proc."""
    stat = read_stat(pid)
    if stat is None:
        raise ProcessLookupError(errno.ESRCH, f"process {pid} is not in /proc")
    return make_identity(stat, read_pidfd_inode(pidfd))


def make_identity(stat: Stat, inode: int) -> Identity:
    return Identity(stat.pid, stat.ticks, inode, boot_id(), pid_namespace())


def has_ended(pidfd: int) -> bool:
    """True if the whole process has exited, reaped or not.

    State Z is not enough: the first thread may end before others.
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

    The caller closes it. Raises OSError as `open_pidfd`.
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
    """True if exactly this process exists and has not ended. Raises OSError as `open_pidfd`."""
    pidfd = open_verified(identity)
    if pidfd is None:
        return False
    try:
        return not has_ended(pidfd)
    finally:
        os.close(pidfd)


def _is_same(identity: Identity, pidfd: int) -> bool:
    inode = read_pidfd_inode(pidfd)
    # A record without inode (older kernel) is judged by ticks alone.
    if identity.inode and inode != identity.inode:
        return False
    stat = read_stat(identity.pid)
    if stat is None or stat.ticks != identity.ticks:
        return False
    # The ticks count only if the pidfd's process is still there.
    try:
        return send_signal(pidfd, 0)
    except PermissionError:
        return True
