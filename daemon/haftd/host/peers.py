"""Who is at the other end of a Unix socket, as sock_diag(7) tells.

Rules: nothing is opened but a netlink socket for the moment, and nothing waits: the kernel has
answered before the request returns. What it does not tell (another network's socket, a kernel
without unix_diag) is None.
"""

from __future__ import annotations

import socket
import struct

__all__ = ["peer_of"]

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_SHOW_PEER = 4
_PEER = 2
_ANY_COOKIE = 0xFFFF_FFFF
_HEAD = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBHIIIII")
_TOLD = struct.Struct("=BBBBIII")
_ATTRIBUTE = struct.Struct("=HH")
_INT = struct.Struct("=I")


def peer_of(inode: int) -> int | None:
    """The inode of the socket to which a Unix socket is connected. Never raises."""
    ask = _ASK.pack(socket.AF_UNIX, 0, 0, 0xFFFF_FFFF, inode, _SHOW_PEER, _ANY_COOKIE, _ANY_COOKIE)
    head = _HEAD.pack(_HEAD.size + len(ask), _BY_FAMILY, _REQUEST, 1, 0)
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    try:
        with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as asked:
            asked.sendto(head + ask, (0, 0))
            told = asked.recv(4096)
    except (OSError, struct.error):
        return None
    return _peer(told)


def _peer(told: bytes) -> int | None:
    """The attribute that names the peer."""
    if len(told) < _HEAD.size + _TOLD.size or _HEAD.unpack_from(told)[1] != _BY_FAMILY:
        return None
    at = _HEAD.size + _TOLD.size
    while at + _ATTRIBUTE.size <= len(told):
        size, name = _ATTRIBUTE.unpack_from(told, at)
        if name == _PEER and size >= _ATTRIBUTE.size + _INT.size:
            (peer,) = _INT.unpack_from(told, at + _ATTRIBUTE.size)
            return int(peer)
        if size < _ATTRIBUTE.size:
            return None
        at += (size + 3) & ~3
    return None
