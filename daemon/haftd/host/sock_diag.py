"""Query the kernel about one socket, by sock_diag(7), which answers at once."""

from __future__ import annotations

import socket
import struct

_NETLINK_SOCK_DIAG = 4  # linux/netlink.h
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY of linux/sock_diag.h
_REQUEST = 1  # NLM_F_REQUEST of netlink(7)
_HEAD = struct.Struct("=IHHII")  # nlmsghdr of netlink(7)
_MAX_ANSWER = 4096
"""Bytes; an answer about one socket has some hundred."""


def ask(request: bytes) -> bytes | None:
    """Return the answer without its head; None if there is no such socket. Raises OSError."""
    head = _HEAD.pack(_HEAD.size + len(request), _BY_FAMILY, _REQUEST, 1, 0)
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as netlink:
        netlink.sendto(head + request, (0, 0))
        answer = netlink.recv(_MAX_ANSWER)
    if len(answer) < _HEAD.size or _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    return answer[_HEAD.size :]
