"""Non-blocking use of the blocking client, polled beside a keyboard and signals."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from haft.client import Haft
from haft.exchange import result_of
from haft.requests import decode
from haft_protocol.states import HandleState


class PollableClient(Haft):
    def hear(self, take: Callable[[str, Raw], None]) -> None:
        self._wire.hear = take

    @property
    def is_full(self) -> bool:
        return bool(self._wire.to_send)

    def advance(self) -> None:
        """Send and receive without waiting; raise `ConnectionLost`."""
        self._send()
        self._receive()
        if self._wire.fault is not None:
            raise self._wire.fault

    def take(self, number: int) -> HandleState | None:
        """Return the reply to a request, or None before it is complete; raise `RemoteError`."""
        answer = self._wire.take(number)
        if answer is None:
            return None
        method, _ = self._due.pop(number)
        state: HandleState = decode(method, result_of(answer))
        return state
