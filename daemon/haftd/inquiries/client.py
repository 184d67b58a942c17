"""The backend `client`: connected clients with the capability, the caller's own first, then others of its session.

Rules: one after the other. A client that is gone or leaves too much unanswered has declined; so has one that does
not serve the request (`-32601`) or cancels it (`-32800`). Any other error of a client that is asked a question
says that there is no answer: the inquiry has failed. One that is asked to decide in a person's place has declined
by any error. A client that connects while an inquiry is open is asked then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from weakref import WeakKeyDictionary

from haft_protocol.errors import CODES, RpcError
from haft_protocol.rpc import BadReply
from haftd.caller import Caller
from haftd.links import CandidateOrder, Link, Links, Unreachable

from .backend import Backend, Candidate, Declined, InquiryFailed
from .kind import Message
from .pending import PendingInquiry

__all__ = ["ClientBackend"]

_DECLINES = (CODES["method_not_found"], CODES["request_cancelled"])


class ClientBackend(Backend):
    """The backend `client`. `members` names the connections of a session, in order."""

    name = "client"
    takes_secrets = True

    def __init__(self, links: Links, members: Callable[[str], Iterable[Caller]]) -> None:
        self._links = links
        self._members = members
        self._orders: WeakKeyDictionary[PendingInquiry, CandidateOrder] = WeakKeyDictionary()

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        """See `backend.Backend`."""
        order = self._order(pending)
        while (link := order.next()) is not None:
            source = {"by": "client", "client": link.caller.identity}
            yield Candidate(partial(_ask, link, pending), source, link.caller)

    async def change(self, pending: PendingInquiry) -> None:
        """See `backend.Backend`."""
        await self._order(pending).more()

    def _order(self, pending: PendingInquiry) -> CandidateOrder:
        order = self._orders.get(pending)
        if order is None:
            kind = pending.kind
            order = self._orders[pending] = CandidateOrder(
                self._links,
                partial(self._members, kind.session),
                kind.context.caller,
                kind.capability,
                kind.admits,
            )
        return order


async def _ask(link: Link, pending: PendingInquiry, message: Message) -> object:
    try:
        return await link.ask(pending.kind.method, message)
    except (Unreachable, BadReply):
        raise Declined("it is gone, or gave no reply that can be read") from None
    except RpcError as error:
        if error.code in _DECLINES or pending.kind.clients_only:
            raise Declined(f"{link.caller.label} answered with the code {error.code}") from None
        raise InquiryFailed(f"{link.caller.label} answered: {error.message}") from None
