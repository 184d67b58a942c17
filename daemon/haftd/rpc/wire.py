"""Interface between a connection and its transport: whole messages in and out."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from haft_protocol.errors import RpcError


class Disconnected(Exception):
    """The peer is gone; the argument is the reason for the log."""


class Timeouts(msgspec.Struct, frozen=True):
    """Deadlines in seconds."""

    stalled: float = 10.0
    """Queued output, none taken."""
    partial: float = 30.0
    """Incomplete message."""
    handshake: float = 5.0
    """Handshake of a WebSocket."""
    ping: float = 20.0
    """Interval of pings, and deadline of a pong."""
    close_grace: float = 1.0
    """Draining of input after the last reply."""


class Wire(Protocol):
    """Connected transport, closed once by the connection."""

    transport: Literal["unix", "websocket"]

    @property
    def fault(self) -> RpcError | None:
        """The error if the peer broke the framing or a limit."""

    async def receive(self) -> list[bytes] | None:
        """Wait for input; return the complete messages, None after the last. Raises `Disconnected`.

        One message at a time where frames may not share a write. May omit a checkpoint, not for
        ever. A cancellation loses nothing.
        """

    def frame(self, message: bytes, *more: bytes) -> bytes:
        """Return the frame of a message, which may be in parts."""

    def write(self, data: bytes | memoryview) -> int:
        """Write without blocking; return the count of bytes. Raises `Disconnected`."""

    async def send(self, data: bytes | memoryview) -> int:
        """Write part of one frame; return the count of bytes. A cancelled call must be the last.

        Raises `Disconnected`, also if the peer takes nothing for `Timeouts.stalled` seconds.
        """

    async def writable(self) -> None:
        """Wait until the peer has read most output, where observable, also during a `send`."""

    async def hung_up(self) -> None:
        """Wait until the peer has closed both directions."""

    async def discard_input(self) -> None:
        """Discard input until the end: a peer that is writing may read its replies only then."""

    async def close(self, *, graceful: bool) -> None:
        """Close, also when cancelled; `graceful` if the peer may still read its last reply. Never
        raises."""
