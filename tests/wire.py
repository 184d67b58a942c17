"""A client of the wire written from the protocol alone: a blocking socket and JSON. Tests of the
wire use this client, so that a fault of our own codecs cannot hide on both sides."""

from __future__ import annotations

import itertools
import json
import socket
from pathlib import Path
from typing import Any, Literal

from tests.patience import PATIENCE_S

Framing = Literal["lines", "headers"]


class Refused(Exception):
    """An error reply."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: dict[str, Any] = error.get("data") or {}


class Wire:
    """A connection; `call` sends a request and waits for its reply, keeping other messages."""

    def __init__(
        self, path: str | Path, framing: Framing = "lines", timeout: float = 2 * PATIENCE_S
    ) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(timeout)
        try:
            self.sock.connect(str(path))
        except OSError:
            self.sock.close()
            raise
        self.framing = framing
        self._buffer = bytearray()
        self._ids = itertools.count(1)
        self._kept: list[Any] = []

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def send_raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def send(self, message: Any) -> None:
        body = json.dumps(message).encode()
        if self.framing == "lines":
            self.send_raw(body + b"\n")
        else:
            self.send_raw(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def receive(self) -> Any:
        """Return the next message of any kind; raise EOFError at a close."""
        while True:
            message = self._take()
            if message is not None:
                return message
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError("the daemon closed the connection")
            self._buffer += data

    def _take(self) -> Any:
        if self.framing == "lines":
            line, newline, rest = self._buffer.partition(b"\n")
            if not newline:
                return None
            self._buffer = rest
            return json.loads(line)
        head, blank, body = bytes(self._buffer).partition(b"\r\n\r\n")
        if not blank:
            return None
        fields = dict(line.split(b":", 1) for line in head.split(b"\r\n"))
        length = int(fields[b"Content-Length"])
        if len(body) < length:
            return None
        self._buffer = bytearray(body[length:])
        return json.loads(body[:length])

    def start(self, method: str, **params: Any) -> int:
        """Send a request and return its id. A request that waits does so for `PATIENCE_S` unless
        given another `timeout_ms`: the daemon's 10 s are over on a machine that is busy enough."""
        if params.get("wait", "none") != "none":
            params.setdefault("timeout_ms", round(PATIENCE_S * 1000))
        number = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def finish(self, number: int) -> Any:
        """Return the result of an earlier request; raise `Refused`."""
        for at, message in enumerate(self._kept):
            if message.get("id") == number:
                return _result(self._kept.pop(at))
        while True:
            message = self.receive()
            if message.get("id") == number:
                return _result(message)
            self._kept.append(message)

    def told(self, method: str) -> Any:
        """Return the next message of the daemon with that method; others are kept."""
        for at, message in enumerate(self._kept):
            if message.get("method") == method:
                return self._kept.pop(at)
        while True:
            message = self.receive()
            if message.get("method") == method:
                return message
            self._kept.append(message)

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a request; raise `Refused`."""
        return self.finish(self.start(method, **params))


def _result(message: dict[str, Any]) -> Any:
    if "error" in message:
        raise Refused(message["error"])
    return message["result"]
