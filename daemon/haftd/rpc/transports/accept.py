"""Accept loop that survives a lack of file descriptors: clients wait in the kernel's queue until a
connection closes or a second passes."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable

import trio

from haftd.host.descriptors import has_room
from haftd.rpc.connection import RpcContext

_BURST = 32
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0


def _is_room_left(listener: socket.socket) -> bool:
    """True if the next descriptor may be a client's, or no descriptor is left: `accept` reports
    that."""
    try:
        lowest = os.dup(listener.fileno())
    except OSError:
        return True
    os.close(lowest)
    return has_room(lowest, "client")


def acceptor(
    listener: socket.socket, rpc_context: RpcContext
) -> Callable[[], Awaitable[socket.socket]]:
    """Return a function that waits for the next socket."""
    listener.setblocking(False)
    burst = 0
    # Each socket's own number shows the room; before the first socket, and after the last for which
    # there was room, the kernel is asked.
    is_room_known = False

    async def pause(why: str) -> None:
        rpc_context.connections.refuse("descriptors", rpc_context.log, why=why)
        await rpc_context.connections.wait_for_close(_PAUSE)

    async def accept() -> socket.socket:
        nonlocal burst, is_room_known
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
                sock, _ = listener.accept()
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
                is_room_known = has_room(sock.fileno() + 1, "client")
                return sock

    return accept
