"""The seam between an inquiry and the backends that find an answer.

Rules: a backend names candidates, one after the other. A candidate returns a reply as it came; the router alone
checks it. It may wait without bound; cancelled, it ends all that it has begun. An answer is in no log, no error,
no argument of a program; a backend that is no place for a secret is not asked for one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import trio

from haftd.caller import Caller

from .pending import PendingInquiry

MAX_ATTEMPTS = 3
"""How often a candidate is asked that answers wrongly."""


class Declined(Exception):
    """Another candidate is to be asked; the argument says why, for the log."""


class InquiryFailed(Exception):
    """The inquiry has failed for good; the argument says why, as the rest of a sentence."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One that can be asked. `ask` takes the message, with `refused` on a repeat, and returns the raw reply.
    `source` and `caller` name the author of its answer. One whose replies never fit has declined, unless
    `exhausted` says why the inquiry has failed then."""

    ask: Callable[[Any], Awaitable[object]]
    source: Mapping[str, object]
    caller: Caller | None = None
    exhausted: str = ""


class Backend(Protocol):
    """One way of finding an answer."""

    name: str
    takes_secrets: bool
    """Whether a secret may be asked here: a person is there to answer, and nothing keeps it."""

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        """Yield one candidate after the other, each when the last has declined. May raise `Declined` and
        `InquiryFailed`."""

    async def change(self, pending: PendingInquiry) -> None:
        """Wait until there may be another candidate; most backends never have one."""
        await trio.sleep_forever()
