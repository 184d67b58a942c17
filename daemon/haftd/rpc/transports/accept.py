"""Accept loop that survives a lack of file descriptors: clients wait in the kernel's queue until a
connection closes or a second passes. If the lack lasts, those who wait are refused: the spare
descriptors are enough to answer them one by one."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable
from math import inf

import trio

from haft_protocol.errors import RpcError, limit_exceeded
from haftd.host.descriptors import has_room, read_limit
from haftd.rpc.connection import RpcContext

_BURST = 32
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0
_MAX_WAIT_S = 3.0
"""Seconds that a lack of descriptors may last before clients are refused."""


def _is_room_left(listener: socket.socket) -> bool:
    """True if the next descriptor may be a client's, or no descriptor is left: `accept` reports
    that."""
    try:
        lowest = os.dup(listener.fileno())
    except OSError:
        return True
    os.close(lowest)
    return has_room(lowest, "client")


def descriptors_exhausted() -> RpcError:
    return limit_exceeded(
        "open_files",
        read_limit(),
        "haftd cannot serve more connections now: it has no free file descriptors",
    )


def acceptor(
    listener: socket.socket,
    rpc_context: RpcContext,
    refuse: Callable[[socket.socket], None],
) -> Callable[[], Awaitable[socket.socket]]:
    """Return a function that waits for the next socket. `refuse` answers a client without waiting, and
    closes the socket."""
    listener.setblocking(False)
    family, kind, protocol = listener.family, listener.type, listener.proto
    burst = 0
    short_since = inf
    """Time since which there is no room for a client."""
    # Each socket's own number shows the room; before the first socket, and after the last for which
    # there was room, the kernel is asked.
    is_room_known = False

    async def pause(why: str) -> None:
        nonlocal short_since
        rpc_context.connections.refuse("descriptors", rpc_context.log, why=why)
        short_since = min(short_since, trio.current_time())
        await rpc_context.connections.wait_for_close(_PAUSE)
        if trio.current_time() - short_since >= _MAX_WAIT_S and not _is_room_left(listener):
            _refuse_waiting(listener, refuse)

    async def accept() -> socket.socket:
        nonlocal burst, is_room_known, short_since
        while True:
            burst += 1
            if burst >= _BURST:
                burst = 0
                await trio.lowlevel.checkpoint()
            if not is_room_known and not _is_room_left(listener):
                await trio.lowlevel.wait_readable(listener)
                await pause("the reserve is reached")
                continue
            try:
                # `accept` itself looks up two enumerations for each socket.
                fd, _ = listener._accept()  # type: ignore[attr-defined]
            except BlockingIOError:
                burst = 0
                await trio.lowlevel.wait_readable(listener)
            except OSError as error:
                if error.errno in _NO_ROOM:
                    await pause(str(error.strerror))
                elif error.errno in (errno.EBADF, errno.EINVAL, errno.ENOTSOCK):
                    raise
                # Other errors end only a connection not yet accepted.
            else:
                short_since = inf
                is_room_known = has_room(fd + 1, "client")
                return socket.socket(family, kind, protocol, fileno=fd)

    return accept


def _refuse_waiting(listener: socket.socket, refuse: Callable[[socket.socket], None]) -> None:
    for _ in range(_BURST):
        try:
            sock, _ = listener.accept()
        except OSError:
            return  # none waits, or there is no descriptor at all
        refuse(sock)
