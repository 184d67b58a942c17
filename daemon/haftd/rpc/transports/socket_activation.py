"""Socket activation: LISTEN_FDS, LISTEN_FDNAMES, LISTEN_PID, see sd_listen_fds(3).

`rpc` is a Unix stream socket, `ws` a TCP socket on loopback; other sockets are closed and reported.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

import msgspec

from haftd.config.values import is_loopback

_FIRST = 3
_MAX_SOCKETS = 64


class ActivatedSockets(msgspec.Struct, frozen=True):
    """Sockets of the service manager; the caller closes them."""

    rpc: tuple[socket.socket, ...] = ()
    ws: tuple[socket.socket, ...] = ()
    problems: tuple[str, ...] = ()


def take(env: MutableMapping[str, str], pid: int, first: int = _FIRST) -> ActivatedSockets:
    """Take the sockets that `env` announces to process `pid`."""
    meant = env.pop("LISTEN_PID", "")
    count = env.pop("LISTEN_FDS", "")
    names = env.pop("LISTEN_FDNAMES", "")
    env.pop("LISTEN_PIDFDID", None)
    if meant != str(pid) or not count.isdecimal() or len(count) > 9 or int(count) > _MAX_SOCKETS:
        return ActivatedSockets()
    listed = names.split(":") if names else []
    rpc: list[socket.socket] = []
    ws: list[socket.socket] = []
    problems: list[str] = []
    for index in range(int(count)):
        name = listed[index] if index < len(listed) else ""
        fd = first + index
        try:
            os.set_inheritable(fd, False)
            sock = socket.socket(fileno=fd)
        except OSError as error:
            problems.append(f"inherited descriptor {fd} ({name}): {error.strerror}")
            continue
        problem = _judge(sock, name)
        if problem is None:
            sock.setblocking(False)
            (rpc if sock.family == socket.AF_UNIX else ws).append(sock)
        else:
            problems.append(f"inherited socket {fd} ({name}): {problem}")
            sock.close()
    return ActivatedSockets(tuple(rpc), tuple(ws), tuple(problems))


def _judge(sock: socket.socket, name: str) -> str | None:
    try:
        listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        return str(error.strerror)
    if sock.type != socket.SOCK_STREAM or not listening:
        return "it is not a listening stream socket"
    unix = sock.family == socket.AF_UNIX
    if name not in ("rpc", "ws", "", "unknown"):
        return "its name is neither `rpc` nor `ws` (FileDescriptorName=)"
    if name == "rpc" and not unix:
        return "`rpc` must be a Unix socket"
    if name == "ws" and unix:
        return "`ws` must be a TCP socket"
    if unix:
        address = sock.getsockname()
        if not address or address[:1] in ("\0", b"\0"):
            return "an abstract socket is open to every user; give it a path"
        return None
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return "its address family is not served"
    if not is_loopback(sock.getsockname()[0]):
        return "only loopback addresses are served"
    return None
