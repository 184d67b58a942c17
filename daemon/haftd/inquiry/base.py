"""The seam between a question and whoever may answer it.

A backend is one coroutine, `async def ask(way)`. Rules:

- It returns `Answered` with an answer that it has checked by `haft_protocol.inquiries.read_reply`, or
  `Declined`: then the next backend is asked. It raises `InquiryFailed` where the inquiry has failed
  for good; then nobody else is asked.
- Whoever answers wrongly is asked again, `AGAIN` times at most. A client or a program has declined
  then, since a person may still answer otherwise; with a model the inquiry has failed.
- It may wait without bound. Cancelled, it ends all that it has begun for this question.
- An answer is in no log, no error, no argument of a program. One that is no place for a secret says
  so by `takes_secrets` and is not asked for any.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import trio
from msgspec import UNSET, UnsetType

from haft_protocol.approvals import Remember
from haft_protocol.inquiries import Inquiry
from haftd.caller import Caller
from haftd.tools.definition import QuestionPolicy

__all__ = [
    "AGAIN",
    "Answered",
    "Backend",
    "Declined",
    "InquiryFailed",
    "Origin",
    "Outcome",
    "Way",
]

AGAIN = 2
"""How often one that answered wrongly is asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the questions of one use come from: who called, under which `call_id`, with which
    `context`, what the tool's definition says of its questions and lets its processes do for a person,
    and which program asks them."""

    caller: Caller
    call_id: str | None = None
    context: Any = field(default=None, repr=False)
    questions: Mapping[str, QuestionPolicy] = field(default_factory=dict)
    may: frozenset[str] = frozenset()
    bound_to: Hashable = None
    """What runs: a remembered answer is given to nothing else of that name. None: to nothing."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Way:
    """One question on its way: what is asked, and for whom."""

    inquiry: Inquiry
    origin: Origin
    tool: str
    renew: Callable[[], Inquiry] | None = None
    """What is asked as of now, where that changes while it is asked."""
    claim: Callable[[bool], None] | None = None
    """Told whether somebody is asked, or all have declined."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer; `who` says who gave it, for the audit log, `remember` how long it counts."""

    answer: Any = field(repr=False)
    who: Mapping[str, object] = field(default_factory=dict)
    remember: Remember | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class Declined:
    """Somebody else is to be asked; `why` is for the log."""

    why: str


Outcome = Answered | Declined


class InquiryFailed(Exception):
    """The inquiry has failed for good; the argument says why, as the rest of a sentence."""


class Backend(Protocol):
    """One way of finding an answer."""

    name: str
    takes_secrets: bool
    """Whether a secret may be asked here: a person is there to answer, and nothing keeps it."""

    async def ask(self, way: Way) -> Outcome:
        """See the head of this file."""

    async def change(self, way: Way) -> None:
        """Wait until one that declined may do otherwise; most never do."""
        await trio.sleep_forever()
