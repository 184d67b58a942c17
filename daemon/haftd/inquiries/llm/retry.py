"""Retry policy: the reply, another attempt, or the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

import msgspec

from haftd.config.inquiry_settings import LlmSettings
from haftd.lazy_pattern import lazy_pattern
from haftd.redaction import Redacted

from .provider import value_at

_RETRIED = (408, 409, 425, 429)
"""Statuses below 500 that pass by themselves: request timeout, conflict, too early, too many requests."""
_MIN_PAUSE_S = 0.5
_MAX_PAUSE_S = 30.0
"""First and longest pause, without `Retry-After`."""
_MAX_RETRY_AFTER_S = 60.0
"""Longest `Retry-After` that is waited for; a longer one ends the attempts, as a call waits meanwhile."""
_REASON = lazy_pattern(r"[A-Za-z_]{3,40}")
"""An error code, and never a sentence, which could quote the request or the key."""


class Unsent(msgspec.Struct, frozen=True):
    """No complete reply."""

    why: str
    """Rest of "the model's server …"."""


class Received(Redacted, frozen=True):
    """Reply, with header names in lower case."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("headers", "body")

    status: int
    headers: Mapping[str, str]
    body: bytes


Outcome = Unsent | Received


class Pause(msgspec.Struct, frozen=True):
    seconds: float


class GiveUp(msgspec.Struct, frozen=True):
    why: str


Decision = Pause | GiveUp | None
"""None: the reply can be read."""


def decide(
    outcome: Outcome, settings: LlmSettings, *, tries: int, chance: float, now: float
) -> Decision:
    """Return the decision after `tries` attempts; `chance` is from 0 to 1, `now` the Unix time.
    The pause doubles up to `_MAX_PAUSE_S`, with jitter on its second half, and is never shorter than
    the server's `Retry-After`."""
    if isinstance(outcome, Received):
        if outcome.status == 200:
            return None
        if outcome.status not in _RETRIED and outcome.status < 500:
            return GiveUp(_explain_status(outcome, settings))
    why = (
        outcome.why if isinstance(outcome, Unsent) else f"answered with {_describe_status(outcome)}"
    )
    if tries >= settings.attempts:
        times = "" if tries == 1 else f", {tries} times"
        return GiveUp(f"the model's server {why}{times}")
    asked = _read_retry_after_s(outcome.headers, now) if isinstance(outcome, Received) else 0.0
    if asked > _MAX_RETRY_AFTER_S:
        return GiveUp(f"the model's server {why} and asks to wait for {asked:.0f} s")
    # A float overflows: the exponent is limited.
    whole = min(_MIN_PAUSE_S * 2 ** min(tries - 1, 16), _MAX_PAUSE_S)
    return Pause(max(asked, whole / 2 + whole / 2 * chance))


def _explain_status(outcome: Received, settings: LlmSettings) -> str:
    status = _describe_status(outcome)
    if 300 <= outcome.status < 400:
        return f"the model's server redirects ({status}); a key is sent to `inquiry.llm.url` only"
    match outcome.status:
        case 401 | 403:
            place = settings.key_env or settings.key_file
            where = f"check the key in {place}" if place else "it may need a key (`key_env`)"
            return f"the model's server refused to serve ({status}): {where}"
        case 404:
            return (
                f"the model's server does not know the model {settings.model} or the place"
                f" ({status}): check `model` and `url`"
            )
    return f"the model's server refused the request ({status})"


def _describe_status(outcome: Received) -> str:
    """Return the status and the provider's error code, all that messages may show of the body."""
    try:
        body = msgspec.json.decode(outcome.body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        body = None
    words = [value_at(body, "error", key) for key in ("code", "type", "status")]
    return f"HTTP {outcome.status}{_choose_word(words)}"


def _choose_word(words: list[Any]) -> str:
    for word in words:
        if isinstance(word, str) and _REASON.fullmatch(word):
            return f" {word}"
    return ""


def _read_retry_after_s(headers: Mapping[str, str], now: float) -> float:
    milliseconds, seconds = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", milliseconds):
        return float(milliseconds) / 1000
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", seconds):
        return float(seconds)
    try:
        return max(0.0, parsedate_to_datetime(seconds).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0
