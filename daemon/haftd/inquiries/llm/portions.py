"""How a request goes out and what a provider's server sends comes in: little by little, and not without
end before the reply.

Rules: a request is sent from what is no generator, as nobody would close one when it is cancelled. Whoever parses HTTP takes all that came with one read without giving way, so a read is small:
what is in it costs about a millisecond. Before the reply come its headers, and as many `100 Continue`
as the server likes: all of that together has a most.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpcore
import httpx

from ..backend import InquiryFailed

_AT_ONCE = 2048
MOST_BEFORE = 32_768


class Transport(httpx.AsyncHTTPTransport):
    """What one request and its repetitions go over. `begins` is to be said before each of them,
    `is_answered` when its reply has begun."""

    def __init__(self, verify: ssl.SSLContext | bool) -> None:
        super().__init__(verify=verify, trust_env=False)
        self.is_answered = False
        self.before = 0
        self._pool._network_backend = _Backend(self)  # see pyproject.toml

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it; its content is there already."""
        request.stream = _Sent(request.content)
        return await super().handle_async_request(request)

    def begins(self) -> None:
        """A request begins: nothing came yet."""
        self.is_answered = False
        self.before = 0

    def came(self, size: int) -> None:
        """So many bytes came. Raises `InquiryFailed` where it is too much before the reply."""
        self.before += 0 if self.is_answered else size
        if self.before > MOST_BEFORE:
            raise InquiryFailed(
                f"the model's server sent more than {MOST_BEFORE:,} bytes before its reply"
            )


class _Sent(httpx.AsyncByteStream):
    """The whole content of a request, in one piece."""

    def __init__(self, content: bytes) -> None:
        self._left = [content]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class _Backend(httpcore.AsyncNetworkBackend):
    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._trio = httpcore.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._trio.connect_tcp(host, port, timeout, local_address, socket_options)
        return _Stream(stream, self._transport)

    async def sleep(self, seconds: float) -> None:
        await self._trio.sleep(seconds)


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: httpcore.AsyncNetworkStream, transport: Transport) -> None:
        self._stream = stream
        self._transport = transport

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(min(max_bytes, _AT_ONCE), timeout)
        self._transport.came(len(data))
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _Stream(stream, self._transport)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
