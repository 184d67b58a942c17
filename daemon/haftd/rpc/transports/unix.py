"""Unix stream socket: access, input and output, hang-up.

Input is drained until the peer has read all, as an early close would discard the last reply.
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
from haftd.rpc.wire import Disconnected, Timeouts

from .accept import acceptor, descriptors_exhausted

_CHUNK = 65_536
_EAGER = 2  # reads before a turn of other tasks: more raise throughput and unfairness
_REFUSALS = 32  # peers that are refused concurrently for lack of room


class UnixWire:
    transport: Literal["unix", "websocket"] = "unix"

    def __init__(self, sock: socket.socket, max_message: int, timeouts: Timeouts) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._fd = sock.fileno()
        self._framer = Framer(max_message)
        self._timeouts = timeouts
        self._eager = _EAGER
        self._is_drained = False
        self._begun: float | None = None
        self.fault: RpcError | None = None
        self.frame = self._framer.frame

    async def receive(self) -> list[bytes] | None:
        framer = self._framer
        while True:
            if not self._eager:
                self._eager = _EAGER
                await trio.lowlevel.checkpoint()
            data = None
            if not self._is_drained:
                try:
                    data = self._sock.recv(_CHUNK)
                except BlockingIOError:
                    pass  # and wait below: a task that waits in an `except` keeps the exception
                except OSError as error:
                    raise Disconnected(error.strerror) from None
            if data is None:
                self._eager = _EAGER
                if self._begun is None:
                    await trio.lowlevel.wait_readable(self._fd)
                elif not await self._readable_before(self._begun + self._timeouts.partial):
                    return []
                self._is_drained = False
                continue
            self._eager -= 1
            # The kernel fills the buffer where it can: another read would find nothing. Input that
            # came since wakes the wait, which asks for the present state.
            self._is_drained = 0 < len(data) < _CHUNK
            if not data:
                # After shutting down only its sending side, a client still reads.
                messages = framer.finish()
                self._begun, self.fault = None, framer.fault
                return messages if messages or self.fault else None
            messages = framer.feed(data)
            if framer.partial:
                if messages or self._begun is None:
                    self._begun = trio.current_time()
            else:
                self._begun = None
            self.fault = framer.fault
            if messages or self.fault is not None:
                return messages

    async def _readable_before(self, deadline: float) -> bool:
        """Wait for input; False after the deadline of an incomplete message."""
        with trio.move_on_at(deadline) as scope:
            await trio.lowlevel.wait_readable(self._sock)
        if scope.cancelled_caught:
            limit = int(self._timeouts.partial)
            self.fault = limit_exceeded(
                "partial_s", limit, "A message began and was not completed in time"
            )
        return not scope.cancelled_caught

    def write(self, data: bytes | memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Disconnected(error.strerror) from None

    async def send(self, data: bytes | memoryview) -> int:
        with trio.move_on_after(self._timeouts.stalled):
            while True:
                done = self.write(data)
                if done:
                    return done
                await trio.lowlevel.wait_writable(self._sock)
        raise Disconnected(f"took nothing for {self._timeouts.stalled:g} s")

    async def writable(self) -> None:
        """Wait for room in the kernel, by an epoll: trio permits one waiting task per socket."""
        with select.epoll(1) as epoll:
            epoll.register(self._sock, select.EPOLLOUT)
            if not epoll.poll(0):
                await trio.lowlevel.wait_readable(epoll)

    async def hung_up(self) -> None:
        """Wait for the hang-up, all that an epoll without events reports."""
        with select.epoll(1) as epoll:
            epoll.register(self._sock, 0)
            await trio.lowlevel.wait_readable(epoll)

    async def discard_input(self) -> None:
        try:
            while True:
                try:
                    if not self._sock.recv(_CHUNK):
                        return
                    await trio.lowlevel.checkpoint()
                    continue
                except BlockingIOError:
                    pass
                await trio.lowlevel.wait_readable(self._fd)
        except OSError:
            pass  # `hung_up` reports the end

    def _is_read(self) -> bool:
        # Sent bytes stay in this queue until the peer reads them.
        return not int.from_bytes(fcntl.ioctl(self._sock, termios.TIOCOUTQ, bytes(4)), "little")

    async def close(self, *, graceful: bool) -> None:
        try:
            if graceful:
                self._sock.shutdown(socket.SHUT_WR)
                with trio.move_on_after(self._timeouts.close_grace, shield=True):
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
    """Accept from `listener` until cancelled. The nursery `connections` outlives this call."""
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

    def refuse_at_once(sock: socket.socket) -> None:
        wire = UnixWire(sock, rpc_context.limits.max_message, rpc_context.timeouts)
        _reply_refused(wire, descriptors_exhausted())
        sock.close()

    accept = acceptor(listener, rpc_context, refuse_at_once)
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
        wire = UnixWire(sock, rpc_context.limits.max_message, rpc_context.timeouts)
        if len(rpc_context.connections) < rpc_context.limits.max_connections:
            start_connection(connections, wire, rpc_context.caller_of("unix", peer), rpc_context)
            continue
        rpc_context.connections.refuse("max_connections", rpc_context.log)
        if refusing < _REFUSALS:
            refusing += 1
            connections.start_soon(refuse, wire)
        else:
            _reply_refused(wire, full(rpc_context.limits))
            sock.close()


def _reply_refused(wire: UnixWire, error: RpcError) -> None:
    try:
        wire.write(wire.frame(encode_error(b"null", error)))
    except Disconnected:
        pass


async def _refuse(wire: UnixWire, rpc_context: RpcContext) -> None:
    try:
        with trio.move_on_after(rpc_context.timeouts.close_grace):
            await wire.receive()
        _reply_refused(wire, full(rpc_context.limits))
    except Disconnected:
        pass
    finally:
        await wire.close(graceful=True)
