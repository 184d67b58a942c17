"""Sends a request to a provider and brings back its reply: with `portions` all that speaks HTTP.

Rules: one connection for a request and its repetitions, closed with it, also when that is cancelled.
One time is over the whole of a request, from its beginning to the last byte of the reply; a reply has
a largest size and no encoding. No redirect is followed, as a key would follow it. Nothing of the
environment counts, no proxy, no .netrc: a question goes where the configuration says. Certificates are
held against what the system trusts, and against certifi's list. Neither headers nor bodies are in a
log or a message.
"""

from __future__ import annotations

import logging
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import certifi
import httpx
import msgspec
import structlog
import trio

from haftd.config.inquiry_settings import LlmSettings

from ..backend import InquiryFailed
from .portions import Transport
from .provider import Request
from .retrying import GiveUp, Outcome, Pause, Received, Unsent, decide

_MOST = 1 << 20
"""Bytes of a reply. It is decoded at one go: that much takes some 30 ms at worst."""
_AT_ONCE = 64
"""Parts of a reply that are taken before others get their turn: about a millisecond."""

log = structlog.get_logger("haftd.inquiries")

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class Sender:
    """Sends, and tries again as `retrying` says. What waits, the chance and the time come in."""

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
        """The reply, decoded. Raises `InquiryFailed` when there is none to be had."""
        data = msgspec.json.encode(request.body)
        tries = 0
        transport = Transport(await self._verify(settings.url))
        async with httpx.AsyncClient(
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            timeout=None,
        ) as client:
            while True:
                transport.begins()
                outcome = await self._once(client, transport, request, data, settings)
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
            raise AssertionError("what is to be read was received")
        try:
            return msgspec.json.decode(outcome.body)
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise InquiryFailed("the model's server answered with what is no JSON") from None

    async def _verify(self, url: str) -> ssl.SSLContext | bool:
        if not url.startswith("https:"):
            return False  # there is nothing to hold against it, and to read the lists takes a while
        if self._trust is None:
            self._trust = await trio.to_thread.run_sync(_trust)
        return self._trust

    async def _once(
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
                return Unsent(f"cannot be reached ({_reason(error)})")
            except httpx.InvalidURL:
                raise InquiryFailed("`inquiry.llm.url` is no URL that can be asked") from None
            except httpx.HTTPError as error:
                return Unsent(f"broke off ({type(error).__name__})")
        if body.is_too_long:
            raise InquiryFailed(f"the model's server answered with more than {_MOST:,} bytes")
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
                raise InquiryFailed("the model's server answered in an encoding nobody asked for")
            async for part in response.aiter_raw():
                body.take(part)
                if body.parts % _AT_ONCE == 0:
                    # What came at once may be thousands of parts, and others want their turn. Not a
                    # place for a cancellation, see below; the next thing that is waited for is.
                    await trio.lowlevel.cancel_shielded_checkpoint()
                if body.is_too_long:
                    # The client reads by generators in generators, and only a cancellation of the
                    # innermost closes them all: so the loop goes on, and ends there.
                    scope.cancel()
            if body.is_too_long:
                await trio.lowlevel.checkpoint()
            return Received(response.status_code, dict(response.headers), bytes(body.data))


class _Body:
    """What came of a reply, up to the most that is taken."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.parts = 0
        self.is_too_long = False

    def take(self, part: bytes) -> None:
        """Keep it, unless it is too much."""
        self.parts += 1
        self.is_too_long = self.is_too_long or len(self.data) + len(part) > _MOST
        if not self.is_too_long:
            self.data += part


def _reason(error: BaseException) -> str:
    """Why there is no connection: the system's or TLS's own words, wherever in the chain they are."""
    one: BaseException | None = error
    while one is not None:
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {one.verify_message}"
        if isinstance(one, OSError) and one.strerror:
            return one.strerror
        if isinstance(one, BaseExceptionGroup):
            one = one.exceptions[0]
        else:
            one = one.__cause__ or one.__context__
    return str(error)[:200] or "no connection"


def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certifi.where())
    context.load_default_certs()
    return context
