"""What becomes of a request that was sent: its reply, another try, or the end.

Rules: pure; the time and the chance come in. What may pass by itself is tried again: no connection, a
time that ran out, 408, 409, 425, 429 and all of 500 and above. The pause doubles, half of it is chance,
and it is never shorter than what the server asks for; a server that asks for more than a minute ends
it. Nothing of a body gets into a message but the provider's short word for the error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from haftd.config.inquiry_settings import LlmSettings

from .provider import dig

_AGAIN = (408, 409, 425, 429)
_FIRST_S = 0.5
_LONGEST_S = 30.0
_PATIENCE_S = 60.0
_REASON = re.compile(r"[A-Za-z_]{3,40}")


@dataclass(frozen=True, slots=True)
class Unsent:
    """There was no whole reply; `why` is the rest of "the model's server …"."""

    why: str


@dataclass(frozen=True, slots=True)
class Received:
    """A reply, with its headers in lower case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


Outcome = Unsent | Received


@dataclass(frozen=True, slots=True)
class Pause:
    """Try again after so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It has failed for good."""

    why: str


Decision = Pause | GiveUp | None
"""None: there is a reply to read."""


def decide(
    outcome: Outcome, settings: LlmSettings, *, tries: int, chance: float, now: float
) -> Decision:
    """What to do after so many `tries`; `chance` is from 0 to 1, `now` the time of day."""
    if isinstance(outcome, Received):
        if outcome.status == 200:
            return None
        if outcome.status not in _AGAIN and outcome.status < 500:
            return GiveUp(_final(outcome, settings))
    why = outcome.why if isinstance(outcome, Unsent) else f"answered with {_said(outcome)}"
    if tries >= settings.attempts:
        times = "" if tries == 1 else f", {tries} times"
        return GiveUp(f"the model's server {why}{times}")
    asked = _asked(outcome.headers, now) if isinstance(outcome, Received) else 0.0
    if asked > _PATIENCE_S:
        return GiveUp(f"the model's server {why} and wants to be left alone for {asked:.0f} s")
    # The exponent has a bound of its own: a float has, too.
    whole = min(_FIRST_S * 2 ** min(tries - 1, 16), _LONGEST_S)
    return Pause(max(asked, whole / 2 + whole / 2 * chance))


def _final(outcome: Received, settings: LlmSettings) -> str:
    said = _said(outcome)
    if 300 <= outcome.status < 400:
        return (
            f"the model's server sends elsewhere ({said}); a key is sent to `inquiry.llm.url` only"
        )
    match outcome.status:
        case 401 | 403:
            place = settings.key_env or settings.key_file
            where = f"look at the key in {place}" if place else "it may want a key (`key_env`)"
            return f"the model's server refused to serve ({said}): {where}"
        case 404:
            return (
                f"the model's server does not know the model {settings.model} or the place"
                f" ({said}): look at `model` and `url`"
            )
    return f"the model's server refused the request ({said})"


def _said(outcome: Received) -> str:
    """The status, and the provider's word for it where it is nothing but a word."""
    try:
        body = msgspec.json.decode(outcome.body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        body = None
    words = [dig(body, "error", key) for key in ("code", "type", "status")]
    return f"HTTP {outcome.status}{_word(words)}"


def _word(words: list[Any]) -> str:
    for word in words:
        if isinstance(word, str) and _REASON.fullmatch(word):
            return f" {word}"
    return ""


def _asked(headers: Mapping[str, str], now: float) -> float:
    """For how many seconds the server wants to be left alone."""
    exact, said = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", exact):
        return float(exact) / 1000
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", said):
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0
