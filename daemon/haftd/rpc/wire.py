"""Interface between a connection and its transport: whole messages in and out.

A wire knows bytes and frames, a connection messages. Transport errors of a lost peer become `Disconnected`.
The connection closes its wire, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from haft_protocol.errors import RpcError


class Disconnected(Exception):
    """The peer has disconnected; the argument is the reason for the log."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Deadlines of a connection in seconds, each only in its phase."""

    stalled: float = 10.0
    """Queued output, of which nothing was taken."""
    partial: float = 30.0
    """Incomplete message."""
    handshake: float = 5.0
    """Valid request for a WebSocket."""
    ping: float = 20.0
    """Interval of WebSocket pings, and deadline of a pong."""
    close_grace: float = 1.0
    """Discarding input after the last reply."""


class Wire(Protocol):
    """One connected transport."""

    transport: Literal["unix", "websocket"]

    @property
    def fault(self) -> RpcError | None:
        """Error if the peer broke the framing or a limit."""

    async def receive(self) -> list[bytes] | None:
        """Wait for input; return the complete messages, None after the last.

        One at a time where frames must not be joined in one write. May return without a checkpoint,
        but not for ever. Raises `Disconnected`. Cancelling loses nothing.
        """

    def frame(self, message: bytes) -> bytes:
        """Frame a message."""

    def write(self, data: bytes | memoryview) -> int:
        """Write without blocking; return the count of bytes. Raises `Disconnected`."""

    async def send(self, data: bytes | memoryview) -> int:
        """Wait until part of one frame is written; return the count. Raises `Disconnected` if the
        peer is gone, or takes nothing for `Timeouts.stalled` seconds. Nothing may be sent after a
        cancellation."""

    async def writable(self) -> None:
        """Wait until the peer has read most of the output, where observable; also during a `send`.
        Small writes then do not block."""

    async def hung_up(self) -> None:
        """Wait until the peer has closed both directions."""

    async def close(self, *, graceful: bool) -> None:
        """Close; `graceful` if the peer may still have to read its last reply. Never raises."""
