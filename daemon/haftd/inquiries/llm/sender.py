"""Sender of requests to a provider, over an httpx transport with small reads and a limit on bytes
before the reply."""

from __future__ import annotations

import logging
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import certifi
import httpcore
import httpx
import msgspec
import structlog
import trio

from haft_protocol.ellipsis import shorten
from haft_protocol.network_errors import first_reason
from haftd.config.inquiry_settings import LlmSettings

from ..backend import InquiryFailed
from .provider import Request
from .retry import GiveUp, Outcome, Pause, Received, Unsent, decide

_MAX_REPLY_BYTES = 1 << 20
"""Decoding is not interrupted: this takes some 30 ms at worst."""
_PARTS_PER_TURN = 64
"""Parts of a reply between checkpoints: about a millisecond."""

log = structlog.get_logger("haftd.inquiries")

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


_READ_SIZE = 2048
"""Bytes; h11 parses a read without a checkpoint."""
MAX_BEFORE_REPLY = 32_768
"""Bytes of status lines, headers and interim replies before a reply's content, some times what servers
send."""


class Transport(httpx.AsyncHTTPTransport):
    """Transport of one request and its repetitions. Call `reset` before each, and set `is_answered`
    when the reply's headers have arrived."""

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


class Sender:
    """Sends requests, repeated by `retry`. No redirects, as the key would follow; no proxies and
    .netrc of the environment. Headers and bodies appear in no log and no message."""

    def __init__(
        self,
        sleep: Callable[[float], Awaitable[None]] = trio.sleep,
        chance: Callable[[], float] = random.random,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._sleep = sleep
        self._chance = chance
        self._wall = wall
        self._trust: ssl.SSLContext | None = None

    async def send(self, request: Request, settings: LlmSettings) -> Any:
        """Return the decoded reply. Raises `InquiryFailed`. Repetitions share a connection that the
        server keeps open; it is closed at the end, also on cancellation."""
        data = msgspec.json.encode(request.body)
        tries = 0
        transport = Transport(await self._choose_trust(settings.url))
        async with httpx.AsyncClient(
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            timeout=None,
        ) as client:
            while True:
                transport.reset()
                outcome = await self._send_once(client, transport, request, data, settings)
                tries += 1
                decision = decide(
                    outcome, settings, tries=tries, chance=self._chance(), now=self._wall()
                )
                match decision:
                    case None:
                        break
                    case GiveUp(why):
                        raise InquiryFailed(why)
                    case Pause(seconds):
                        log.info("model not reached", outcome=repr(outcome), again_in=seconds)
                        await self._sleep(seconds)
        if not isinstance(outcome, Received):
            raise AssertionError(f"a reply is read after {type(outcome).__name__}")
        try:
            return msgspec.json.decode(outcome.body)
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise InquiryFailed(
                "the model's server answered with a body that is not JSON"
            ) from None

    async def _choose_trust(self, url: str) -> ssl.SSLContext | bool:
        if not url.startswith("https:"):
            return False  # reading the certificate stores takes a while
        if self._trust is None:
            self._trust = await trio.to_thread.run_sync(_load_trust)
        return self._trust

    async def _send_once(
        self,
        client: httpx.AsyncClient,
        transport: Transport,
        request: Request,
        data: bytes,
        settings: LlmSettings,
    ) -> Outcome:
        body = _Body()
        with trio.move_on_after(settings.timeout_s) as scope:
            try:
                return await self._exchange(client, transport, request, data, settings, body, scope)
            except httpx.ConnectError as error:
                reason = first_reason(error) or shorten(str(error), 200) or "no connection"
                return Unsent(f"cannot be reached ({reason})")
            except httpx.InvalidURL:
                raise InquiryFailed(
                    "`inquiry.llm.url` is not a URL that can be requested"
                ) from None
            except httpx.HTTPError as error:
                return Unsent(f"broke off ({type(error).__name__})")
        if body.is_too_long:
            raise InquiryFailed(
                f"the model's server answered with more than {_MAX_REPLY_BYTES:,} bytes"
            )
        return Unsent(f"did not answer within {settings.timeout_s:g} s")

    async def _exchange(
        self,
        client: httpx.AsyncClient,
        transport: Transport,
        request: Request,
        data: bytes,
        settings: LlmSettings,
        body: _Body,
        scope: trio.CancelScope,
    ) -> Outcome:
        headers = {
            "content-type": "application/json",
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "haftd",
            **request.headers,
        }
        url = settings.url + request.path
        async with client.stream("POST", url, headers=headers, content=data) as response:
            transport.is_answered = True
            if response.headers.get("content-encoding", "identity") != "identity":
                raise InquiryFailed(
                    "the model's server answered in a content encoding that was not requested"
                )
            async for part in response.aiter_raw():
                body.take(part)
                if body.parts % _PARTS_PER_TURN == 0:
                    # One read may hold thousands of parts. Shielded, as only the next await may be
                    # cancelled: see below.
                    await trio.lowlevel.cancel_shielded_checkpoint()
                if body.is_too_long:
                    # httpx nests generators, and only a cancellation of the innermost closes all:
                    # the loop continues until it is raised there.
                    scope.cancel()
            if body.is_too_long:
                await trio.lowlevel.checkpoint()
            return Received(response.status_code, dict(response.headers), bytes(body.data))


class _Body:
    def __init__(self) -> None:
        self.data = bytearray()
        self.parts = 0
        self.is_too_long = False

    def take(self, part: bytes) -> None:
        self.parts += 1
        self.is_too_long = self.is_too_long or len(self.data) + len(part) > _MAX_REPLY_BYTES
        if not self.is_too_long:
            self.data += part


def _load_trust() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certifi.where())
    context.load_default_certs()
    return context
