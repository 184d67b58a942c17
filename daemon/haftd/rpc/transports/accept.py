"""Accept connections in bursts, and go on when descriptors run out.

Rules: everything that waits is accepted before the loop is asked again, with a turn for others every
few. When descriptors run out, or nearly, nothing is accepted until a connection has gone or a second
has passed, and one line says so; what is connected is served on meanwhile.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Awaitable, Callable

import trio

from haftd.host.descriptors import has_room
from haftd.rpc.connection import RpcContext

_BURST = 32
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0


def acceptor(
    listener: socket.socket, rpc_context: RpcContext
) -> Callable[[], Awaitable[socket.socket]]:
    """A function that waits for the next connection of `listener` and returns its socket."""
    listener.setblocking(False)
    burst = 0

    async def full(why: str) -> None:
        rpc_context.connections.refuse("descriptors", rpc_context.log, why=why)
        await rpc_context.connections.one_left(_PAUSE)

    async def accept() -> socket.socket:
        nonlocal burst
        while True:
            burst += 1
            if burst >= _BURST:
                burst = 0
                await trio.lowlevel.checkpoint()
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                burst = 0
                await trio.lowlevel.wait_readable(listener)
            except OSError as error:
                if error.errno in _NO_ROOM:
                    await full(str(error.strerror))
                elif error.errno in (errno.EBADF, errno.EINVAL, errno.ENOTSOCK):
                    raise
                # Anything else is the end of that one connection before it was ours.
            else:
                if has_room(sock.fileno(), "client"):
                    return sock
                sock.close()
                await full("the reserve is reached")

    return accept
