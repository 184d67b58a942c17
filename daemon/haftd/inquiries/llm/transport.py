"""httpx transport with small reads and a limit on bytes before the reply."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpcore
import httpx

from ..backend import InquiryFailed

_READ_SIZE = 2048
MAX_BEFORE_REPLY = 32_768


class Transport(httpx.AsyncHTTPTransport):
    """Transport of one request and its repetitions. Call `reset` before each, and set `is_answered`
    when the reply has begun. Small reads: h11 parses one without a checkpoint."""

    def __init__(self, verify: ssl.SSLContext | bool) -> None:
        super().__init__(verify=verify, trust_env=False)
        self.is_answered = False
        self.before = 0
        self._pool._network_backend = _Backend(self)  # see pyproject.toml

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.stream = _Content(request.content)
        return await super().handle_async_request(request)

    def reset(self) -> None:
        self.is_answered = False
        self.before = 0

    def count(self, size: int) -> None:
        """Count received bytes; raises `InquiryFailed` for too many before the reply."""
        self.before += 0 if self.is_answered else size
        if self.before > MAX_BEFORE_REPLY:
            raise InquiryFailed(
                f"the model's server sent more than {MAX_BEFORE_REPLY:,} bytes before its reply"
            )


class _Content(httpx.AsyncByteStream):
    """Content in one piece; an abandoned generator would stay unclosed on cancellation."""

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
        data = await self._stream.read(min(max_bytes, _READ_SIZE), timeout)
        self._transport.count(len(data))
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
