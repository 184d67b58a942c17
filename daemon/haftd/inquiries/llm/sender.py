"""Sender of requests to a provider; only this and `transport` speak HTTP."""

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

from haft_protocol.network_errors import first_reason
from haftd.config.inquiry_settings import LlmSettings

from ..backend import InquiryFailed
from .provider import Request
from .retry import GiveUp, Outcome, Pause, Received, Unsent, decide
from .transport import Transport

_MAX_REPLY_BYTES = 1 << 20
"""Decoding is not interrupted: this takes some 30 ms at worst."""
_PARTS_PER_TURN = 64
"""Parts of a reply between checkpoints: about a millisecond."""

log = structlog.get_logger("haftd.inquiries")

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


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
        """Return the decoded reply. Raises `InquiryFailed`. Repetitions share one connection,
        closed also on cancellation."""
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
                transport.reset()
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
            return False  # reading the stores takes a while
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
                reason = first_reason(error) or str(error)[:200] or "no connection"
                return Unsent(f"cannot be reached ({reason})")
            except httpx.InvalidURL:
                raise InquiryFailed("`inquiry.llm.url` is no URL that can be asked") from None
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
                raise InquiryFailed("the model's server answered in an encoding nobody asked for")
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


def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certifi.where())
    context.load_default_certs()
    return context
