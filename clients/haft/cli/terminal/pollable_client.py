"""A connection of the blocking client that is waited on beside a keyboard and signals.

Rules: nothing here waits; requests are started, and their replies taken when they are there.
"""

from __future__ import annotations

from haft.client import Haft
from haft.requests import decode
from haft.wire import result_of
from haft_protocol.states import HandleState


class PollableClient(Haft):
    """A connection that can be waited on beside other things."""

    @property
    def is_full(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._wire.to_send)

    def advance(self) -> None:
        """Send what goes and take in what is there; does not wait. Raises `ConnectionLost`."""
        self._send()
        self._receive()
        if self._wire.fault is not None:
            raise self._wire.fault

    def take(self, number: int) -> HandleState | None:
        """Return the reply to a request if it is there; raises `RemoteError`."""
        answer = self._wire.take(number)
        if answer is None:
            return None
        method, _ = self._due.pop(number)
        state: HandleState = decode(method, result_of(answer))
        return state
