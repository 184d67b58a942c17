"""Interface between an inquiry and the backends that answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
import trio

from haftd.caller import Caller

from .pending_inquiry import PendingInquiry

MAX_ATTEMPTS = 3
"""Attempts of a candidate until an answer fits: the second and third are sent the fault of the answer
before."""


class Declined(Exception):
    """The candidate declines; the argument is the reason, for the log."""


class InquiryFailed(Exception):
    """The inquiry has failed; the argument is the reason, a clause."""


class Candidate(msgspec.Struct, frozen=True):
    """Potential answerer, with `MAX_ATTEMPTS` attempts."""

    ask: Callable[[Any], Awaitable[object]]
    """Send the message, with `refused` on a repeat; return the raw reply, for the router's check.
    On cancellation, end all that was begun."""
    source: Mapping[str, object]
    """Author of the answer, for the audit log."""
    caller: Caller | None = None
    exhausted: str = ""
    """Reason for which the inquiry fails after the last attempt; if empty, the candidate declines.
    """


class Backend(Protocol):
    """Source of answers, which appear in no log and no error."""

    name: str
    takes_secrets: bool
    """Secrets may be asked: a user answers, and the answer is not stored."""

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        """Yield the first candidate, and each other one when the candidate before it has declined.
        Raises `Declined` and `InquiryFailed`."""

    async def change(self, pending: PendingInquiry) -> None:
        """Wait until there may be another candidate; for ever in backends that only have those of
        `candidates`."""
        await trio.sleep_forever()
