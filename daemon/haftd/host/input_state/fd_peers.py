"""The process at the other end of a Unix socket, a pipe, or a terminal's master.

Never waits or raises; a peer hidden by the kernel counts as none.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import socket
import stat
import struct
from collections.abc import Callable

from haftd.host import sock_diag

_libc = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438  # from Linux 5.6 on, the same on every machine
# linux/unix_diag.h: flag and attribute, unix_diag_req, unix_diag_msg; then an attribute's head and value.
_SHOW_PEER = 4
_PEER = 2
_ANY = 0xFFFF_FFFF
_REQUEST = struct.Struct("=BBHIIIII")
_REPLY = struct.Struct("=BBBBIII")
_ATTRIBUTE = struct.Struct("=HH")
_INT = struct.Struct("=I")


def has_both_ends(pid: int, inode: int) -> bool:
    """True if a process has a Unix socket's peer open."""
    peer = find_peer(inode)
    return peer is not None and _holds(
        pid, lambda info, _: info.st_ino == peer and stat.S_ISSOCK(info.st_mode)
    )


def writes_to(pid: int, pipes: frozenset[int]) -> bool:
    """True if a process has one of these pipes open for writing."""
    return _holds(
        pid,
        lambda info, fd: (
            info.st_ino in pipes
            and stat.S_ISFIFO(info.st_mode)
            and max(0, _read_fdinfo(pid, fd, rb"^flags:\s*([0-7]+)", 8)) & (os.O_WRONLY | os.O_RDWR)
            > 0
        ),
    )


def find_terminal(pid: int, master: int) -> int:
    """Return the terminal's number of a process's master; -1 where unknown."""
    return _read_fdinfo(pid, str(master), rb"^tty-index:\s*(\d+)", 10)


def is_readable(pid: int, fd: int) -> bool | None:
    """True if a read would not block; None if unknown.

    The poll delivers input on its way to a master.
    """
    copy = _copy(pid, fd)
    if copy is None:
        return None
    try:
        poll = select.poll()
        poll.register(copy, select.POLLIN)
        return bool(poll.poll(0))
    finally:
        os.close(copy)


def is_listening(pid: int, fd: int) -> bool:
    """True for a process's listening socket; False if unknown."""
    copy = _copy(pid, fd)
    if copy is None:
        return False
    yes, size = ctypes.c_int(), ctypes.c_uint32(ctypes.sizeof(ctypes.c_int))
    try:
        failed = _libc.getsockopt(
            copy, socket.SOL_SOCKET, socket.SO_ACCEPTCONN, ctypes.byref(yes), ctypes.byref(size)
        )
    finally:
        os.close(copy)
    return failed == 0 and yes.value == 1


def _copy(pid: int, fd: int) -> int | None:
    """Return a copy of a process's descriptor, by pidfd_getfd(2); None if that is not permitted."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    try:
        copy = _libc.syscall(_PIDFD_GETFD, pidfd, fd, 0)
    finally:
        os.close(pidfd)
    return int(copy) if copy >= 0 else None


def _holds(pid: int, matches: Callable[[os.stat_result, str], bool]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208 - half the time of Path.iterdir
    except OSError:
        return False
    for name in names:
        try:
            if matches(os.stat(f"{folder}/{name}"), name):  # noqa: PTH116
                return True
        except OSError:
            continue  # closed meanwhile
    return False


def _read_fdinfo(pid: int, fd: str, pattern: bytes, base: int) -> int:
    """Return the number that `pattern` finds in fdinfo (proc_pid_fdinfo(5)), -1 if it finds none."""
    try:
        with open(f"/proc/{pid}/fdinfo/{fd}", "rb") as file:
            match = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return -1
    return int(match[1], base) if match else -1


def find_peer(inode: int) -> int | None:
    """Return the inode of a Unix socket's peer, None if it has no peer or the peer is unknown."""
    request = _REQUEST.pack(socket.AF_UNIX, 0, 0, _ANY, inode, _SHOW_PEER, _ANY, _ANY)
    try:
        answer = sock_diag.ask(request)
    except OSError:
        return None
    return None if answer is None else _read_peer_attribute(answer)


def _read_peer_attribute(answer: bytes) -> int | None:
    """Return the inode in the attribute UNIX_DIAG_PEER, None without the attribute."""
    at = _REPLY.size
    while at + _ATTRIBUTE.size <= len(answer):
        size, name = _ATTRIBUTE.unpack_from(answer, at)
        if name == _PEER and size >= _ATTRIBUTE.size + _INT.size:
            (peer,) = _INT.unpack_from(answer, at + _ATTRIBUTE.size)
            return int(peer)
        if size < _ATTRIBUTE.size:
            return None
        at += (size + 3) & ~3
    return None
