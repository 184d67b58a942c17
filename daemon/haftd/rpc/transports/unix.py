"""The Unix stream socket: who may connect, how bytes move, when a peer is gone.

Rules: the peer is identified by the kernel before a byte is read: its uid, and whether this daemon has
started it. `recv` is tried first, the loop is
asked only when there is nothing; a busy peer lets others in every few reads. Plain `recv` takes no
descriptors, so a peer can give us none. A socket that is closed too early takes the last reply from
its reader: we stop writing and throw away what still comes, until it has read all or for a moment.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import termios
from typing import Literal

import trio

from haft_protocol.encoding import encode_error
from haft_protocol.errors import RpcError, limit_exceeded
from haft_protocol.framing import Framer
from haftd.host.process.peer_process import identify
from haftd.rpc.connection import RpcContext, full, start_connection
from haftd.rpc.wire import Gone, Pace

from .accept import acceptor

_CHUNK = 65_536
_EAGER = 2  # reads in a row before others get their turn: more is faster for all, unfair to each
_REFUSALS = 32  # peers that are being told at the same time that there is no room


class UnixWire:
    """One connected Unix stream socket; owns it."""

    transport: Literal["unix", "websocket"] = "unix"

    def __init__(self, sock: socket.socket, max_message: int, pace: Pace) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._framer = Framer(max_message)
        self._pace = pace
        self._eager = _EAGER
        self._begun: float | None = None
        self._late: RpcError | None = None
        self.frame = self._framer.frame

    @property
    def fault(self) -> RpcError | None:
        """What the peer's framing came to, or that a message took too long."""
        return self._framer.fault or self._late

    async def receive(self) -> list[bytes] | None:
        """Take what is there, else wait for it."""
        while True:
            if not self._eager:
                self._eager = _EAGER
                await trio.lowlevel.checkpoint()
            try:
                data = self._sock.recv(_CHUNK)
            except BlockingIOError:
                self._eager = _EAGER
                if not await self._readable():
                    return []
                continue
            except OSError as error:
                raise Gone(error.strerror) from None
            self._eager -= 1
            if not data:
                # A client that only shuts down its side of the connection still reads replies.
                messages = self._framer.finish()
                self._begun = None
                return messages if messages or self._framer.fault else None
            messages = self._framer.feed(data)
            if not self._framer.partial:
                self._begun = None
            elif messages or self._begun is None:
                self._begun = trio.current_time()
            if messages or self._framer.fault:
                return messages

    async def _readable(self) -> bool:
        """Wait for bytes; false when a message was begun too long ago."""
        if self._begun is None:
            await trio.lowlevel.wait_readable(self._sock)
            return True
        limit = self._pace.partial
        with trio.move_on_at(self._begun + limit) as scope:
            await trio.lowlevel.wait_readable(self._sock)
        if scope.cancelled_caught:
            self._late = limit_exceeded(
                "partial_s", int(limit), "A message was begun and did not get whole in time"
            )
        return not scope.cancelled_caught

    def write(self, data: bytes | memoryview) -> int:
        """Write what the kernel takes now."""
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Gone(error.strerror) from None

    async def send(self, data: bytes | memoryview) -> int:
        """Write a part, once the kernel takes one."""
        with trio.move_on_after(self._pace.stalled):
            while True:
                done = self.write(data)
                if done:
                    return done
                await trio.lowlevel.wait_writable(self._sock)
        raise Gone(f"took nothing for {self._pace.stalled:g} s")

    async def writable(self) -> None:
        """Wait for room in the kernel; by an epoll, as one task only can wait for a socket."""
        with select.epoll(1) as epoll:
            epoll.register(self._sock, select.EPOLLOUT)
            if not epoll.poll(0):
                await trio.lowlevel.wait_readable(epoll)

    async def hung_up(self) -> None:
        """Wait for the peer's end to be closed both ways: an epoll with no events tells just that."""
        with select.epoll(1) as epoll:
            epoll.register(self._sock, 0)
            await trio.lowlevel.wait_readable(epoll)

    def _is_read(self) -> bool:
        """Whether the peer has read all that was written: on a Unix socket that stays ours till then."""
        return not int.from_bytes(fcntl.ioctl(self._sock, termios.TIOCOUTQ, bytes(4)), "little")

    async def close(self, *, polite: bool) -> None:
        """Close; a polite close gives the peer time to read its last reply, if it has not yet."""
        try:
            if polite:
                self._sock.shutdown(socket.SHUT_WR)
                with trio.move_on_after(self._pace.farewell):
                    while True:
                        try:
                            if not self._sock.recv(_CHUNK):
                                break
                            await trio.lowlevel.checkpoint()
                        except BlockingIOError:
                            if self._is_read():
                                break
                            await trio.lowlevel.wait_readable(self._sock)
        except OSError:
            pass
        finally:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()


async def serve_unix(
    listener: socket.socket, connections: trio.Nursery, rpc_context: RpcContext
) -> None:
    """Accept from `listener`, which stays the caller's, until cancelled.

    Connections run in `connections`, a nursery that outlives this call."""
    own = os.geteuid()
    refusing = 0

    async def refuse(wire: UnixWire) -> None:
        nonlocal refusing
        try:
            await _refuse(wire, rpc_context)
        except Exception as error:
            rpc_context.log.exception("refusing failed", exc_info=error)
        finally:
            refusing -= 1

    accept = acceptor(listener, rpc_context)
    while True:
        sock = await accept()
        try:
            peer = identify(sock)
        except OSError:
            sock.close()
            continue
        if peer.uid != own:
            rpc_context.connections.refuse("uid", rpc_context.log, uid=peer.uid, pid=peer.pid)
            sock.close()
            continue
        wire = UnixWire(sock, rpc_context.limits.max_message, rpc_context.pace)
        if len(rpc_context.connections) < rpc_context.limits.max_connections:
            start_connection(connections, wire, rpc_context.caller_of("unix", peer), rpc_context)
            continue
        rpc_context.connections.refuse("max_connections", rpc_context.log)
        if refusing < _REFUSALS:
            refusing += 1
            connections.start_soon(refuse, wire)
        else:
            _tell(wire, rpc_context)
            sock.close()


def _tell(wire: UnixWire, rpc_context: RpcContext) -> None:
    try:
        wire.write(wire.frame(encode_error(b"null", full(rpc_context.limits))))
    except Gone:
        pass


async def _refuse(wire: UnixWire, rpc_context: RpcContext) -> None:
    """Say that there is no room, in the framing that the peer uses if it shows it soon."""
    try:
        with trio.move_on_after(rpc_context.pace.farewell):
            await wire.receive()
        _tell(wire, rpc_context)
    except Gone:
        pass
    finally:
        with trio.CancelScope(shield=True):
            await wire.close(polite=True)
