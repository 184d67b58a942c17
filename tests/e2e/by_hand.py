"""A WebSocket client written from RFC 6455 alone, on a TCP socket."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import socket
import struct
from typing import Any

from tests.wire import Refused

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class ByHand:
    """A TCP connection; `upgrade` asks for a WebSocket and returns the HTTP status."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.headers: dict[str, str] = {}
        self._buffer = b""
        self._ids = itertools.count(1)
        self._kept: list[dict[str, Any]] = []

    def __enter__(self) -> ByHand:
        return self

    def __exit__(self, *exc: object) -> None:
        self.sock.close()

    def upgrade(
        self,
        *,
        token: str | None = None,
        protocols: str | None = None,
        origin: str | None = None,
        host: str | None = None,
    ) -> int:
        """Ask for the upgrade; the status, with the answer's headers in `headers`."""
        key = base64.b64encode(os.urandom(16))
        lines = [
            "GET / HTTP/1.1",
            f"Host: {host or f'127.0.0.1:{self.port}'}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key.decode()}",
        ]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        if protocols is not None:
            lines.append(f"Sec-WebSocket-Protocol: {protocols}")
        if origin is not None:
            lines.append(f"Origin: {origin}")
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode())
        while b"\r\n\r\n" not in self._buffer:
            data = self.sock.recv(65_536)
            assert data, f"closed without an answer: {self._buffer!r}"
            self._buffer += data
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        self.headers = {
            name.lower(): value.strip() for name, value in (line.split(":", 1) for line in rest)
        }
        status = int(first.split()[1])
        if status == 101:
            accept = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
            assert self.headers["sec-websocket-accept"] == accept
        return status

    def send(self, message: object) -> None:
        """Send one masked text frame."""
        body = json.dumps(message).encode()
        mask = os.urandom(4)
        if len(body) < 126:
            length = bytes([0x80 | len(body)])
        elif len(body) < 1 << 16:
            length = b"\xfe" + struct.pack("!H", len(body))
        else:
            length = b"\xff" + struct.pack("!Q", len(body))
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))
        self.sock.sendall(b"\x81" + length + mask + masked)

    def receive(self) -> Any:
        """The next text message; pings are passed over. Raises EOFError at a close."""
        text = b""
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self._take(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._take(8))
            body = self._take(size)
            kind = first & 0x0F
            if kind == 8:
                raise EOFError(f"closed: {body!r}")
            if kind in (0, 1):
                text += body
                if first & 0x80:
                    return json.loads(text)

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = self.sock.recv(65_536)
            if not data:
                raise EOFError("closed without a close frame")
            self._buffer += data
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

    def start(self, method: str, **params: Any) -> int:
        number = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def finish(self, number: int) -> Any:
        for at, message in enumerate(self._kept):
            if message.get("id") == number:
                return _result(self._kept.pop(at))
        while True:
            message = self.receive()
            if message.get("id") == number:
                return _result(message)
            self._kept.append(message)

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a request, or raise `Refused`."""
        return self.finish(self.start(method, **params))

    def initialize(self, **params: Any) -> Any:
        client = {"name": "by hand", "version": "1"}
        return self.call("initialize", client=client, protocol=1, **params)


def _result(message: dict[str, Any]) -> Any:
    if "error" in message:
        raise Refused(message["error"])
    return message["result"]
