"""Asks a connected client that can be asked: the caller's own connection, else another of its session.

Rules: one after the other; who is gone, does not serve the request (`-32601`) or cancels it
(`-32800`), or leaves too much unanswered, has declined, and the next one is asked. Any other error
is the client's word that there is no answer: the inquiry has failed. A client that connects while
the question is open is asked then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UNSET

from haft_protocol.errors import CODES, RpcError
from haft_protocol.inquiries import ASK, read_lasting
from haft_protocol.questions import InvalidAnswer
from haft_protocol.rpc import BadReply
from haftd.caller import Caller
from haftd.links import Link, Links, Round, Unreachable

from .base import AGAIN, Answered, Backend, Declined, InquiryFailed, Outcome, Way

__all__ = ["ClientBackend"]

_DECLINES = (CODES["method_not_found"], CODES["request_cancelled"])


class ClientBackend(Backend):
    """The backend `client`. `members` names the connections of a session, in order."""

    name = "client"
    takes_secrets = True

    def __init__(self, links: Links, members: Callable[[str], Iterable[Caller]]) -> None:
        self._links = links
        self._members = members
        self._rounds: WeakKeyDictionary[Way, Round] = WeakKeyDictionary()

    async def ask(self, way: Way) -> Outcome:
        """See `base`."""
        asked = self._round(way)
        while (link := asked.next()) is not None:
            answer = await self._ask(link, way)
            if answer is not None:
                return answer
        return Declined("no client that can be asked is in the session")

    async def change(self, way: Way) -> None:
        """See `base`."""
        await self._round(way).more()

    def _round(self, way: Way) -> Round:
        found = self._rounds.get(way)
        if found is None:
            session = way.inquiry.session
            members = partial(self._members, session)
            needs_a_person = way.inquiry.needs_a_person
            found = self._rounds[way] = Round(
                self._links,
                members,
                way.origin.caller,
                "inquiry",
                lambda caller: (
                    caller.may_reach(way.origin.may)
                    and (caller.may("questions") or not needs_a_person)
                ),
            )
        return found

    async def _ask(self, link: Link, way: Way) -> Answered | None:
        inquiry = way.inquiry
        for _ in range(1 + AGAIN):
            try:
                reply = await link.ask(ASK, inquiry)
            except (Unreachable, BadReply):
                return None
            except RpcError as error:
                if error.code in _DECLINES:
                    return None
                raise InquiryFailed(f"{link.caller.label} answered: {error.message}") from None
            try:
                answer, remember = read_lasting(way.inquiry, reply)
            except InvalidAnswer as wrong:
                inquiry = msgspec.structs.replace(inquiry, refused=f"{wrong}.")
                continue
            if not link.caller.may("questions"):
                remember = UNSET  # for how long an answer counts is a person's word
            who = {"by": "client", "client": link.caller.identity}
            return Answered(answer, who, remember)
        return None
