"""Interface between an inquiry and the backends that answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
import trio

from haftd.caller import Caller

from .pending_inquiry import PendingInquiry

MAX_ATTEMPTS = 3
"""Attempts of a candidate until an answer fits."""


class Declined(Exception):
    """The candidate declines; the argument is the reason, for the log."""


class InquiryFailed(Exception):
    """The inquiry has failed; the argument is the reason, a clause."""


class Candidate(msgspec.Struct, frozen=True):
    """Potential answerer. `ask` takes the message, with `refused` on a repeat, and returns the raw
    reply for the router's check; on cancellation it ends all that it has begun. `source` and
    `caller` name the author. After `MAX_ATTEMPTS` the candidate declines, or, with `exhausted`, the
    inquiry fails for that reason."""

    ask: Callable[[Any], Awaitable[object]]
    source: Mapping[str, object]
    caller: Caller | None = None
    exhausted: str = ""


class Backend(Protocol):
    """Source of answers, which appear in no log and no error."""

    name: str
    takes_secrets: bool
    """Secrets may be asked: a user answers, and the answer is not stored."""

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        """Yield each candidate after the last has declined. Raises `Declined` and `InquiryFailed`."""

    async def change(self, pending: PendingInquiry) -> None:
        """Wait until there may be another candidate, as most backends never have."""
        await trio.sleep_forever()
