"""WebSocket on a loopback port: trio-websocket, one nursery per connection, for the library's
exceptions.

Handshakes have five seconds and limited places; a new one displaces the oldest.
"""

from __future__ import annotations

import contextlib
import socket
from collections import OrderedDict
from typing import Any, Literal

import trio
from trio_websocket import (
    ConnectionClosed,
    WebSocketConnection,
    WebSocketRequest,
    wrap_server_stream,
)
from wsproto.connection import ConnectionState
from wsproto.events import TextMessage

from haft_protocol.errors import RpcError, invalid_request, limit_exceeded
from haftd.config.values import is_loopback
from haftd.host.process.peer_process import identify_tcp
from haftd.rpc.connection import RpcContext, full, serve_connection
from haftd.rpc.wire import Disconnected, Timeouts

from .accept import acceptor, descriptors_exhausted
from .handshake import Gatekeeper, Refusal

_OPEN = ConnectionState.OPEN
_CHUNK = 65_536
_QUEUE = 16  # messages buffered by the library before it stops reading
_HANDSHAKES = 64
_END = b"\r\n\r\n"
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class NotLoopback(ValueError):
    """The address is reachable from other machines."""


class _Stream(trio.abc.Stream):
    """TCP stream for the library, with a deadline per written piece.

    `ended` cancels the wait for a handshake. Bytes after the handshake are held until `open`:
    wsproto would lose them. Before `open`, a close lets the peer read the reply.
    """

    def __init__(self, sock: socket.socket, timeouts: Timeouts) -> None:
        self.ended = trio.CancelScope()
        self._upgraded = trio.Event()
        self._shaken = False
        self._seam = b""
        self._held = b""
        self._sock = sock
        self._rest: bytes | memoryview = b""
        """Output that `write` has taken and the socket has not."""
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self._stalled = timeouts.stalled
        self._written = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self._shaken:
            await self._upgraded.wait()
            if self._held:
                held, self._held = self._held, b""
                return held
        try:
            data = await self._stream.receive_some(max_bytes)
        except trio.BrokenResourceError:
            self.ended.cancel()
            raise
        if not data:
            self.ended.cancel()
        return data if self._shaken else self._cut(bytes(data))

    def _cut(self, data: bytes) -> bytes:
        """Hold back bytes after the headers' end, which may span two reads."""
        before = len(self._seam)
        end = (self._seam + data).find(_END)
        if end < 0:
            self._seam = (self._seam + data)[-len(_END) + 1 :]
            return data
        self._shaken = True
        end += len(_END) - before
        self._held = data[end:]
        return data[:end]

    def open(self) -> None:
        self._upgraded.set()

    def write(self, data: bytes) -> bool:
        """Write without blocking, outside of `send_all` only; the next `send_all` begins with the
        rest. Return False if there is one."""
        try:
            count = self._sock.send(data, socket.MSG_DONTWAIT)
        except OSError:
            count = 0  # `send_all` raises the error.
        if count == len(data):
            return True
        self._rest = memoryview(data)[count:]
        return False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._written = True
        view = memoryview(data)
        if self._rest:
            rest, self._rest = self._rest, b""
            view = memoryview(b"".join((rest, view)) if view else rest)
        for start in range(0, len(view), _CHUNK):
            with trio.move_on_after(self._stalled) as scope:
                await self._stream.send_all(view[start : start + _CHUNK])
            if scope.cancelled_caught:
                self._stream.socket.close()
                raise trio.BrokenResourceError("took nothing in time")

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close for the library; before the upgrade, `finish` closes the socket."""
        self.ended.cancel()
        if self._upgraded.is_set():
            await self._stream.aclose()

    async def finish(self, answer: bytes) -> None:
        """Send `answer` if nothing was sent, then close; the caller sets a deadline."""
        try:
            if not self._upgraded.is_set():
                if answer and not self._written:
                    await self._stream.send_all(answer)
                await self._stream.send_eof()
                while await self._stream.receive_some(_CHUNK):
                    pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(self._stream)


class WebSocketWire:
    transport: Literal["unix", "websocket"] = "websocket"

    def __init__(
        self,
        connection: WebSocketConnection,
        stream: _Stream,
        max_message: int,
        timeouts: Timeouts,
    ) -> None:
        self.fault: RpcError | None = None
        self._connection = connection
        self._stream = stream
        self._is_begun = False
        """True if the frame of the message that `send` gets next is in the stream already."""
        self._max = max_message
        self._timeouts = timeouts

    async def receive(self) -> list[bytes] | None:
        """Return the next message; a binary or too long one is a fault."""
        try:
            message = await self._connection.get_message()
        except ConnectionClosed as closed:
            raise Disconnected(f"closed the WebSocket: {closed.reason}") from None
        if not isinstance(message, str):
            self.fault = invalid_request(
                "a message must be one text frame, and this frame is binary"
            )
            return []
        data = message.encode("utf-8", "surrogatepass")
        if len(data) > self._max:
            self.fault = limit_exceeded("max_message", self._max, "A message is too long, in bytes")
            return []
        return [data]

    def frame(self, message: bytes, *more: bytes) -> bytes:
        return b"".join((message, *more)) if more else message

    def write(self, data: bytes | memoryview) -> int:
        """Write all or, by the count, nothing: the library's `send_message` takes a task, a lock
        and three turns of the loop."""
        connection = self._connection
        if connection._stream_lock.locked() or connection._wsproto.state is not _OPEN:
            return 0
        frame = connection._wsproto.send(TextMessage(data=str(data, "utf-8")))
        if self._stream.write(frame):
            return len(data)
        self._is_begun = True
        return 0

    async def send(self, data: bytes | memoryview) -> int:
        try:
            if self._is_begun:
                self._is_begun = False
                await self._finish_frame()
            else:
                await self._connection.send_message(str(data, "utf-8"))
        except ConnectionClosed as closed:
            raise Disconnected(f"closed the WebSocket: {closed.reason}") from None
        return len(data)

    async def _finish_frame(self) -> None:
        async with self._connection._stream_lock:
            try:
                await self._stream.send_all(b"")
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                raise Disconnected("closed the WebSocket") from None

    async def writable(self) -> None:
        """Return at once: pings detect a stalled peer."""

    async def hung_up(self) -> None:
        try:
            while True:
                await self._connection.get_message()
        except ConnectionClosed:
            return

    async def discard_input(self) -> None:
        """Return at once: `hung_up` discards messages."""

    async def close(self, *, graceful: bool) -> None:
        """Send a close frame with the reason, and wait briefly for the echo."""
        code: int = 1001
        reason: str | None = "haftd is going"
        if self.fault is not None:
            code, reason = (1009 if self.fault.kind == "limit_exceeded" else 1003), None
        grace = self._timeouts.close_grace if graceful else 0.1
        with trio.move_on_after(grace, shield=True):
            await self._connection.aclose(code, reason)

    async def keep_alive(self) -> None:
        """Ping; return when a pong, or the rest of a fragmented message, is late."""
        begun: list[Any] = []
        since = 0.0
        while True:
            await trio.sleep(self._timeouts.ping)
            with trio.move_on_after(self._timeouts.ping) as scope:
                await self._connection.ping()
            if scope.cancelled_caught:
                return
            # The library makes a list per message and has no event for its start.
            parts = self._connection._message_parts
            if parts and parts is begun:
                if trio.current_time() - since >= self._timeouts.partial:
                    return
            else:
                begun, since = parts, trio.current_time()


def open_websocket_listener(host: str, port: int) -> socket.socket:
    """Listen on a loopback address; port 0 is any. Raises `NotLoopback`, `OSError`."""
    address = "127.0.0.1" if host == "localhost" else host
    if not is_loopback(address):
        raise NotLoopback(
            f"The WebSocket is served on this machine only: `host = {host!r}` is not a loopback "
            "address. Use 127.0.0.1 or ::1, and ssh -L to reach it from elsewhere."
        )
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(1024)
    except BaseException:
        sock.close()
        raise
    return sock


async def serve_websocket(
    listener: socket.socket, connections: trio.Nursery, rpc_context: RpcContext, keeper: Gatekeeper
) -> None:
    """Accept from `listener` until cancelled. The nursery `connections` outlives this call."""
    keeper.bound(*listener.getsockname()[:2])
    accept = acceptor(listener, rpc_context, _refuse_at_once)
    pending: OrderedDict[trio.CancelScope, None] = OrderedDict()
    while True:
        sock = await accept()
        if len(pending) >= _HANDSHAKES:
            oldest, _ = pending.popitem(last=False)
            oldest.cancel()
            rpc_context.connections.refuse("handshakes", rpc_context.log)
        scope = trio.CancelScope(deadline=trio.current_time() + rpc_context.timeouts.handshake)
        pending[scope] = None
        connections.start_soon(_serve_peer, sock, rpc_context, keeper, scope, pending)


def _refuse_at_once(sock: socket.socket) -> None:
    text = f"{descriptors_exhausted().message}\n".encode()
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close"
    sock.setblocking(False)
    with contextlib.suppress(OSError):
        sock.recv(_CHUNK)  # unread input would discard the reply
    with contextlib.suppress(OSError):
        sock.send(f"{head}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
    sock.close()


async def _serve_peer(
    sock: socket.socket,
    rpc_context: RpcContext,
    keeper: Gatekeeper,
    scope: trio.CancelScope,
    pending: OrderedDict[trio.CancelScope, None],
) -> None:
    try:
        stream = _Stream(sock, rpc_context.timeouts)
    except OSError:
        sock.close()
        pending.pop(scope, None)
        return
    wire: WebSocketWire | None = None
    answered = False
    try:
        async with trio.open_nursery() as nursery:
            with scope, stream.ended:
                request = await wrap_server_stream(
                    nursery, stream, _QUEUE, rpc_context.limits.max_message, _CHUNK
                )
                answered = True
                verdict = _judge(request, rpc_context, keeper)
                if isinstance(verdict, Refusal):
                    await trio.sleep(verdict.delay)
                    await request.reject(
                        verdict.status,
                        extra_headers=[(b"Content-Type", b"text/plain"), (b"Connection", b"close")],
                        body=verdict.message.encode() + b"\n",
                    )
                else:
                    upgraded = await request.accept(subprotocol=verdict)
                    wire = WebSocketWire(
                        upgraded, stream, rpc_context.limits.max_message, rpc_context.timeouts
                    )
                    stream.open()
            pending.pop(scope, None)
            if wire is not None:
                nursery.start_soon(_keep_alive, wire, nursery.cancel_scope)
                caller = rpc_context.caller_of("websocket", await identify_tcp(sock))
                await serve_connection(wire, caller, rpc_context)
            nursery.cancel_scope.cancel()
    except Exception as error:
        rpc_context.connections.refuse("websocket", rpc_context.log, why=repr(error))
    finally:
        pending.pop(scope, None)
        with trio.move_on_after(rpc_context.timeouts.close_grace, shield=True):
            await stream.finish(b"" if answered else _BAD_REQUEST)


async def _keep_alive(wire: WebSocketWire, scope: trio.CancelScope) -> None:
    try:
        await wire.keep_alive()
    except ConnectionClosed:
        return
    scope.cancel()


def _judge(
    request: WebSocketRequest, rpc_context: RpcContext, keeper: Gatekeeper
) -> Refusal | str | None:
    # The library omits this header.
    host = request._event.host
    verdict = keeper.judge(host, request.headers, request.proposed_subprotocols)
    if isinstance(verdict, Refusal):
        rpc_context.connections.refuse(verdict.kind, rpc_context.log)
    elif len(rpc_context.connections) >= rpc_context.limits.max_connections:
        rpc_context.connections.refuse("max_connections", rpc_context.log)
        return Refusal(503, "max_connections", full(rpc_context.limits).message)
    return verdict
