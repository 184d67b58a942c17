"""One request over HTTP/1.1 and its reply, on a new connection."""

from __future__ import annotations

import ssl
from typing import Any

import h11
import trio

_CHUNK = 65_536
"""Bytes of one read, and of a reply's head at most."""

Headers = list[tuple[str, str]]


class TooLong(Exception):
    """A body, or a part of one, exceeds the limit."""


async def secure(stream: trio.abc.Stream, context: ssl.SSLContext, host: str) -> trio.abc.Stream:
    """Return the stream over TLS, with a certificate of `host`; after a failure the stream is closed."""
    encrypted = trio.SSLStream(stream, context, server_hostname=host, https_compatible=True)
    try:
        await encrypted.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return encrypted


class HttpExchange:
    """`status` and `headers` are the reply's; names of headers are in lower case."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_CHUNK)
        self.status = 0
        self.headers: Headers = []

    def header(self, name: str) -> str:
        """Return the last value of a header, by its name in lower case; empty without it."""
        return dict(self.headers).get(name, "")

    async def request(self, method: str, target: str, headers: Headers, body: bytes) -> None:
        """Send the request; return when the reply has begun. Raises `h11.ProtocolError`, and
        `trio.BrokenResourceError` for a connection that breaks without a reply."""
        if body or method == "POST":
            headers = [*headers, ("Content-Length", str(len(body)))]
        events = [h11.Request(method=method, target=target, headers=headers), h11.EndOfMessage()]
        if body:
            events.insert(1, h11.Data(data=body))
        broken: trio.BrokenResourceError | None = None
        try:
            await self._stream.send_all(b"".join(self._http.send(event) or b"" for event in events))
        except trio.BrokenResourceError as error:
            broken = error  # a reply may precede the end of the request
        while isinstance(event := await self._next(), h11.InformationalResponse):
            pass
        if not isinstance(event, h11.Response):
            raise broken or h11.RemoteProtocolError("it closed the connection before it answered")
        self.status = event.status_code
        self.headers = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]

    async def chunk(self) -> bytes | None:
        """Return the next part of the body; None at its end."""
        event = await self._next()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def body(self, limit: int) -> bytes:
        """Return the body; raise `TooLong` for more than `limit` bytes."""
        body = bytearray()
        while (chunk := await self.chunk()) is not None:
            body += chunk
            if len(body) > limit:
                raise TooLong
        return bytes(body)

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            try:
                data = await self._stream.receive_some(_CHUNK)
            except trio.BrokenResourceError:
                data = b""
            self._http.receive_data(bytes(data))
        return event
