"""Backend `client`: connected clients with the capability, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from weakref import WeakKeyDictionary

from haft_protocol.errors import CODES, RpcError
from haft_protocol.rpc import BadReply
from haftd.caller import Caller
from haftd.client_requests import ClientRequests, Clients, Unreachable

from .backend import Backend, Candidate, Declined, InquiryFailed
from .kind import Message
from .pending_inquiry import PendingInquiry

_DECLINES = (CODES["method_not_found"], CODES["request_cancelled"])


class ClientBackend(Backend):
    """The caller's connection, then the session's others (`members`), also later ones. Each is asked
    once per inquiry."""

    name = "client"
    takes_secrets = True

    def __init__(self, clients: Clients, members: Callable[[str], Iterable[Caller]]) -> None:
        self._clients = clients
        self._members = members
        self._asked: WeakKeyDictionary[PendingInquiry, set[ClientRequests]] = WeakKeyDictionary()

    def candidates(self, pending: PendingInquiry) -> Iterator[Candidate]:
        while (client := self._find_next(pending)) is not None:
            self._asked.setdefault(pending, set()).add(client)
            source = {"by": "client", "client": client.caller.identity}
            yield Candidate(partial(_ask, client, pending), source, client.caller)

    async def change(self, pending: PendingInquiry) -> None:
        while self._find_next(pending) is None:
            await self._clients.arrival()

    def _find_next(self, pending: PendingInquiry) -> ClientRequests | None:
        """Return the next client to ask; None if all have been asked."""
        kind, asked = pending.kind, self._asked.get(pending, ())
        first = kind.context.caller
        others = (caller for caller in self._members(kind.session) if caller is not first)
        for client in self._clients.able((first, *others), kind.capability):
            if client not in asked and kind.admits(client.caller):
                return client
        return None


async def _ask(client: ClientRequests, pending: PendingInquiry, message: Message) -> object:
    """Ask a client. It declines by a disconnect, by too many unanswered requests, by a reply that
    cannot be read, or by the errors `-32601` and `-32800`. Any other error fails a question, but
    declines a decision of `clients_only`."""
    try:
        return await client.ask(pending.kind.method, message)
    except (Unreachable, BadReply):
        raise Declined("it is gone, or sent no valid reply") from None
    except RpcError as error:
        if error.code in _DECLINES or pending.kind.clients_only:
            raise Declined(f"{client.caller.label} answered with the code {error.code}") from None
        raise InquiryFailed(f"{client.caller.label} answered: {error.message}") from None
