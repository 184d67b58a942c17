"""Query the kernel about one socket, by sock_diag(7), which answers at once."""

from __future__ import annotations

import socket
import struct

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_HEAD = struct.Struct("=IHHII")
_MAX_ANSWER = 4096


def ask(request: bytes) -> bytes | None:
    """Return the answer without its head; None for no such socket. Raises OSError."""
    head = _HEAD.pack(_HEAD.size + len(request), _BY_FAMILY, _REQUEST, 1, 0)
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as netlink:
        netlink.sendto(head + request, (0, 0))
        answer = netlink.recv(_MAX_ANSWER)
    if len(answer) < _HEAD.size or _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    return answer[_HEAD.size :]
