"""Identify the process at the other end of a connected socket, by SO_PEERPIDFD (Linux 6.5), else
the pid of SO_PEERCRED, which may have been reused.

Data from /proc counts only if the process is unreaped afterwards. The holder of a TCP connection is
searched for; no visible holder counts as a descendant, as a socket may be in transit through a Unix
socket, or in an io_uring. The socket's owner is not evidence: the holder may be in a user namespace.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable

import trio

from haftd.host import sock_diag
from haftd.host.process.ancestry import find_lineage, is_stranger, make_child_lister
from haftd.host.process.identity import (
    Identity,
    Stat,
    every_pid,
    make_identity,
    open_pidfd,
    read_pidfd_inode,
    read_stat,
    send_signal,
)
from haftd.named_tuple import NamedTuple

_SO_PEERPIDFD = 77  # asm-generic/socket.h
_CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7)
# linux/inet_diag.h: inet_diag_req_v2, inet_diag_sockid in it, inet_diag_msg.
_REQUEST = struct.Struct("=BBBBI")
_SOCKET = struct.Struct("!HH16s16s")
_ANY_COOKIE = struct.pack("=III", 0, 0xFFFF_FFFF, 0xFFFF_FFFF)
_ANSWER = struct.Struct("=4s48sIIIII")


class PeerProcess(NamedTuple):
    """Connected process."""

    pid: int
    uid: int
    identity: Identity | None
    lineage: tuple[Stat, ...] | None
    """The process and its ancestors up to a child of this process; empty for no descendant, None if
    unknown: the peer is gone, or no holder of the connection is visible."""


def identify(sock: socket.socket) -> PeerProcess:
    """Identify the peer of an accepted Unix socket. Raises OSError for another socket."""
    pid, uid, _gid = _CREDENTIALS.unpack(
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    if pid == 0:
        return PeerProcess(pid, uid, None, ())
    pidfd = _open_peer_pidfd(sock, pid)
    if pidfd is None:
        return PeerProcess(pid, uid, None, None)
    own = os.getpid()
    try:
        inode = read_pidfd_inode(pidfd)
        identity = _strangers.get((own, inode))
        line: tuple[Stat, ...] | None = ()
        is_new = False
        if identity is None and (stat := read_stat(pid)) is not None:
            line, identity = find_lineage(pid, own, stat), make_identity(stat, inode)
            is_new = inode != 0 and is_stranger(stat, own)
        if identity is not None and _is_unreaped(pidfd):
            if is_new:
                _remember(identity, own)
            return PeerProcess(pid, uid, identity, line)
    finally:
        os.close(pidfd)
    return PeerProcess(pid, uid, None, None)


_MAX_STRANGERS = 256
_strangers: dict[tuple[int, int], Identity] = {}
"""Identities of processes that descend from this process neither now nor later, as (this pid, their
pidfd's inode), which is no other process's within a boot."""


def _remember(identity: Identity, own: int) -> None:
    _strangers[own, identity.inode] = identity
    if len(_strangers) > _MAX_STRANGERS:
        del _strangers[next(iter(_strangers))]


def _open_peer_pidfd(sock: socket.socket, pid: int) -> int | None:
    """Return a pidfd of the peer; None if it is gone."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            return None
    try:
        return open_pidfd(pid)
    except OSError:
        return None


def _is_unreaped(pidfd: int) -> bool:
    try:
        return send_signal(pidfd, 0)
    except PermissionError:
        return True


async def identify_tcp(sock: socket.socket) -> PeerProcess:
    """Identify a local TCP connection's peer, without `identity`; with the pid 0 if no holder is
    visible, and with this user's id if the kernel does not report the socket.

    Yields to other tasks between processes.
    """
    own = os.geteuid()
    try:
        other_end = _find_other_end(sock)
    except OSError:
        other_end = None
    if other_end is None:
        return PeerProcess(0, own, None, None)
    inode, uid = other_end
    descendants = _list_descendants()
    holder = await _find_holder(inode, descendants)
    if holder is None:
        holder = await _find_holder(inode, (pid for pid in every_pid() if pid not in descendants))
    # A holder among the other processes may be a descendant forked meanwhile.
    line = None if holder in (None, os.getpid()) else find_lineage(holder, os.getpid())
    return PeerProcess(holder or 0, uid, None, line)


def _find_other_end(sock: socket.socket) -> tuple[int, int] | None:
    """Return inode and user of the socket's other end, by sock_diag(7); None for an end without an
    inode, as of another machine. Raises OSError."""
    ours, theirs = sock.getsockname(), sock.getpeername()
    addresses = [
        socket.inet_pton(sock.family, address[0].partition("%")[0]) for address in (theirs, ours)
    ]
    socket_id = _SOCKET.pack(theirs[1], ours[1], *addresses) + _ANY_COOKIE
    answer = sock_diag.ask(
        _REQUEST.pack(sock.family, socket.IPPROTO_TCP, 0, 0, 0xFFFF_FFFF) + socket_id
    )
    if answer is None or len(answer) < _ANSWER.size:
        return None
    *_, uid, inode = _ANSWER.unpack_from(answer)
    return (inode, uid) if inode else None


def _list_descendants() -> dict[int, None]:
    """Return the pids of all descendants of this process, parents first, as keys."""
    descendants: dict[int, None] = {}
    queue = [os.getpid()]
    below = make_child_lister()
    while queue:
        try:
            children = below(queue.pop())
        except OSError:
            continue
        queue += [pid for pid in children if pid not in descendants]
        descendants.update(dict.fromkeys(children))
    return descendants


async def _find_holder(inode: int, pids: Iterable[int]) -> int | None:
    """Return the first of these processes that has the socket open; None if none has."""
    link = f"socket:[{inode}]"
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            for name in os.listdir(folder):  # noqa: PTH208
                try:
                    if os.readlink(f"{folder}/{name}") == link:  # noqa: PTH115
                        return pid
                except FileNotFoundError:
                    continue  # closed meanwhile
        except OSError:
            pass  # ended, or hides open files
        await trio.lowlevel.checkpoint()
    return None
