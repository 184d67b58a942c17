"""Asks a connected client that can be asked: the caller's own connection, else another of its session.

Rules: one after the other; who is gone, does not serve the request (`-32601`) or cancels it
(`-32800`), or leaves too much unanswered, has declined, and the next one is asked. Any other error
is the client's word that there is no answer: the inquiry has failed. A client that connects while
the question is open is asked then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from haft_protocol.errors import CODES, RpcError
from haft_protocol.inquiries import ASK, read_lasting
from haft_protocol.questions import InvalidAnswer
from haft_protocol.rpc import BadReply
from haftd.caller import Caller
from haftd.links import Link, Links, Unreachable

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

    async def ask(self, way: Way) -> Outcome:
        """See `base`."""
        while True:
            way.arrivals = self._links.arrivals
            link = next((one for one in self._able(way) if one not in way.tried), None)
            if link is None:
                return Declined("no client that can be asked is in the session")
            answer = await self._ask(link, way)
            if answer is not None:
                return answer
            way.tried.add(link)

    async def change(self, way: Way) -> None:
        """See `base`."""
        while self._links.arrivals == way.arrivals:
            await self._links.arrival()

    def _able(self, way: Way) -> list[Link]:
        first = way.origin.caller
        others = (one for one in self._members(way.inquiry.session) if one is not first)
        return self._links.able((first, *others))

    async def _ask(self, link: Link, way: Way) -> Answered | None:
        for _ in range(1 + AGAIN):
            try:
                reply = await link.ask(ASK, way.inquiry)
            except (Unreachable, BadReply):
                return None
            except RpcError as error:
                if error.code in _DECLINES:
                    return None
                raise InquiryFailed(f"{link.caller.label} answered: {error.message}") from None
            try:
                answer, remember = read_lasting(way.inquiry, reply)
            except InvalidAnswer:
                continue
            who = {"by": "client", "client": link.caller.identity}
            return Answered(answer, who, remember)
        return None
