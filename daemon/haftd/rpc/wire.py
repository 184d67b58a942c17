"""The seam between a connection and its transport: whole messages in, whole messages out.

Rules: a wire knows bytes and frames, nothing of JSON-RPC; a connection knows messages, nothing of
sockets. Whatever a transport raises when its peer is gone is `Gone` here. A wire is closed by the
connection that uses it, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from haft_protocol.errors import RpcError


class Gone(Exception):
    """The peer cannot be talked to any more; the argument says why, for the log."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a connection may dawdle, in seconds; each is a deadline only while it is at it."""

    stalled: float = 10.0
    """Nothing of what is queued for it was taken."""
    partial: float = 30.0
    """A message was begun and is not whole."""
    handshake: float = 5.0
    """A WebSocket was not yet asked for, rightly."""
    ping: float = 20.0
    """Between two pings on a WebSocket, and for its pong."""
    farewell: float = 1.0
    """What a peer still sends after its last reply is thrown away for this long."""


class Wire(Protocol):
    """One connected transport."""

    transport: Literal["unix", "websocket"]

    @property
    def fault(self) -> RpcError | None:
        """Why nothing more is read from this peer, if it broke the framing or a limit of it."""

    async def receive(self) -> list[bytes] | None:
        """Wait for what arrives; the messages that are whole now, `None` after the last one.

        One at a time where frames must not be joined in one write. May return without a checkpoint, but not for ever. Raises `Gone`. Cancelling loses nothing.
        """

    def frame(self, message: bytes) -> bytes:
        """The message as this peer reads it."""

    def write(self, data: bytes | memoryview) -> int:
        """Write what can be written at once and say how much that was; raises `Gone`."""

    async def send(self, data: bytes | memoryview) -> int:
        """Wait until something, or all, of one frame is written; say how much. Raises `Gone` when
        the peer is gone or takes nothing for `Pace.stalled` seconds. After a cancellation nothing
        more may be sent."""

    async def writable(self) -> None:
        """Wait until the peer has taken most of what was written, where that can be known; also
        while somebody sends. Nothing that then is written has to wait, unless it is large."""

    async def hung_up(self) -> None:
        """Wait until the peer has gone altogether, not only stopped sending."""

    async def close(self, *, polite: bool) -> None:
        """Close; `polite` when the peer may still have to read its last reply. Never raises."""
