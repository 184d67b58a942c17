"""Identify the process at the other end of a connected Unix socket.

Rules:

- The process is identified when its connection is accepted, through a pidfd: of the kernel's making where it
  has SO_PEERPIDFD (Linux 6.5), else opened at once by the number of SO_PEERCRED. Asked later, that number may
  be another process's.
- What is read in /proc counts only if the process was still not reaped afterwards.
- A process of another pid namespace has no number here, and does not descend from this one.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass

from haftd.host.family import lineage
from haftd.host.identity import Identity, Stat, of_child, open_pidfd, send

__all__ = ["Connected", "identify"]

_SO_PEERPIDFD = 77
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Connected:
    """The process that connected. `lineage` begins with it and ends with a child of this process: empty
    where it does not descend from this process, None where nobody can tell, as it is gone."""

    pid: int
    uid: int
    identity: Identity | None
    lineage: tuple[Stat, ...] | None


def identify(sock: socket.socket) -> Connected:
    """Identify the peer of an accepted socket. Raises OSError where the socket has none."""
    pid, uid, _gid = _CREDENTIALS.unpack(
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    if pid == 0:
        return Connected(pid, uid, None, ())
    pidfd = _peer_pidfd(sock, pid)
    if pidfd is None:
        return Connected(pid, uid, None, None)
    try:
        line = lineage(pid, os.getpid())
        identity = of_child(pid, pidfd)
        is_known = _is_there(pidfd)
    except ProcessLookupError:
        is_known = False
    finally:
        os.close(pidfd)
    return Connected(pid, uid, identity, line) if is_known else Connected(pid, uid, None, None)


def _peer_pidfd(sock: socket.socket, pid: int) -> int | None:
    """A pidfd of the peer; None where it is gone, or this process may open no more descriptors."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            return None
    try:
        return open_pidfd(pid)
    except OSError:
        return None


def _is_there(pidfd: int) -> bool:
    try:
        return send(pidfd, 0)
    except PermissionError:
        return True
