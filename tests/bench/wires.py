"""Minimal blocking clients, so that the server and the socket are timed. Each sends prepared
bytes and reads until the reply is whole, without decoding."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

_CHUNK = 1 << 20


class Exchange:
    """A connection; a call sends a message and returns the raw reply."""

    def __init__(self, sock: socket.socket, exchange: Callable[[bytes], bytes]) -> None:
        self._sock = sock
        self._exchange = exchange

    def __call__(self, request: bytes) -> bytes:
        return self._exchange(request)

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()


def message(method: str, **params: object) -> bytes:
    """A request with the id 1."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def _connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return sock


def lines(path: Path) -> Exchange:
    """JSON lines over a Unix socket."""
    sock = _connect(path)

    def exchange(request: bytes) -> bytes:
        sock.sendall(request + b"\n")
        reply = sock.recv(_CHUNK)
        if reply.endswith(b"\n"):
            return reply
        long = bytearray(reply)
        while not long.endswith(b"\n"):
            long += sock.recv(_CHUNK)
        return bytes(long)

    return Exchange(sock, exchange)


def headers(path: Path) -> Exchange:
    """`Content-Length` blocks over a Unix socket."""
    sock = _connect(path)

    def exchange(request: bytes) -> bytes:
        sock.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(request), request))
        reply = sock.recv(_CHUNK)
        while b"\r\n\r\n" not in reply:
            reply += sock.recv(_CHUNK)
        head, _, body = reply.partition(b"\r\n\r\n")
        length = int(head.partition(b": ")[2])
        while len(body) < length:
            body += sock.recv(_CHUNK)
        return body

    return Exchange(sock, exchange)


def raw(path: Path) -> Exchange:
    """Bytes over a Unix socket, as many back as were sent."""
    sock = _connect(path)

    def exchange(request: bytes) -> bytes:
        sock.sendall(request)
        reply = sock.recv(_CHUNK)
        while len(reply) < len(request):
            reply += sock.recv(_CHUNK)
        return reply

    return Exchange(sock, exchange)


def websocket(host: str, port: int, token: str) -> Exchange:
    """Text frames over a WebSocket on the loopback interface; the first message is `initialize`."""
    sock = socket.create_connection((host, port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += sock.recv(_CHUNK)
    if b" 101 " not in answer.partition(b"\r\n")[0]:
        raise ConnectionError(answer.decode(errors="replace"))
    exchange = _frames(sock)
    exchange(message("initialize", client={"name": "bench"}, protocol=1))
    return Exchange(sock, exchange)


def _frames(sock: socket.socket) -> Exchange:
    def exchange(request: bytes) -> bytes:
        # A mask of zeros is a mask, and costs no time of ours.
        size = len(request)
        head = (
            struct.pack("!BB", 0x81, 0x80 | size) if size < 126 else b"\x81\xfe" + size.to_bytes(2)
        )
        sock.sendall(head + b"\0\0\0\0" + request)
        while True:
            reply = sock.recv(_CHUNK)
            while len(reply) < _frame_end(reply):
                reply += sock.recv(_CHUNK)
            if reply[0] == 0x81:
                return reply
            if reply[0] == 0x89:  # a ping: its pong, with the same body
                sock.sendall(struct.pack("!BB", 0x8A, 0x80 | reply[1]) + b"\0\0\0\0" + reply[2:])

    return Exchange(sock, exchange)


def _frame_end(data: bytes) -> int:
    """Return the minimum length of the frame at the beginning of `data`."""
    if len(data) < 4:
        return 4
    size = data[1]
    if size < 126:
        return 2 + size
    if size == 126:
        return 4 + int.from_bytes(data[2:4])
    return 10 + int.from_bytes(data[2:10]) if len(data) >= 10 else 10
