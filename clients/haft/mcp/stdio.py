"""Transport of the bridge: standard input and output, and the daemon's socket, in one thread by
`poll`.

While `MAX_UNREAD` bytes wait for the host, nothing is read from it. The end of the input ends the
process: it sends the replies that are ready and cancels the other requests, not the handles.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping

from msgspec import Raw

from haft_protocol.constants import PROTOCOL

from .. import __version__
from ..connection import loss_of
from ..daemon_socket import Socket
from ..errors import HaftError
from ..wire import Conversation
from .bridge import Bridge

MAX_LINE = 16 << 20
"""Bytes of one message from the host."""
MAX_UNREAD = 4 << 20
"""Bytes queued for the host at which reading from it stops."""
MAX_LAST_WAIT_S = 1.0
"""Wait for a host that has closed the input and does not read: hosts kill a server that does not
exit soon."""

_CHUNK = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some hosts on Windows write one before a message, with haft in WSL."""


class DaemonLink:
    """A bridge's connection to the daemon, for hosts on stdio and on HTTP. It is made on demand by
    `open_daemon`, which may start a daemon."""

    def __init__(self, open_daemon: Callable[[], Socket]) -> None:
        self._open = open_daemon
        self._socket: Socket | None = None
        self._daemon: Conversation | None = None
        self.hear: Callable[[str, Raw], None] | None = None
        """Called with the daemon's notifications; set before the first `connect`. The bridge needs this link
        to be made."""

    def connect(self) -> Conversation:
        connected = self._open()
        connected.setblocking(False)
        self._socket = connected
        self._daemon = Conversation(self.hear)
        client = {"name": "haft mcp", "version": __version__}
        self._daemon.greet({"client": client, "protocol": PROTOCOL})
        return self._daemon

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def register(self, poll: select.poll) -> None:
        if self._socket is not None and self._daemon is not None:
            sending = select.POLLOUT if self._daemon.to_send else 0
            poll.register(self._socket, select.POLLIN | sending)

    def receive_ready(self, ready: Mapping[int, int], bridge: Bridge) -> None:
        if self._socket is not None and ready.get(self._socket.fileno()):
            self._receive(bridge)

    def send(self) -> None:
        if self._socket is None or self._daemon is None or not self._daemon.to_send:
            return
        try:
            del self._daemon.to_send[: self._socket.send(self._daemon.to_send)]
        except BlockingIOError:
            pass
        except OSError:
            # The daemon's last messages may still be in the socket, and `_receive` notices the end.
            self._daemon.to_send.clear()

    def _receive(self, bridge: Bridge) -> None:
        if self._socket is None or self._daemon is None:
            raise AssertionError("the socket is ready without a connection")
        self.send()
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        fault: HaftError | None = None
        try:
            if data:
                bridge.arrived(self._daemon.feed(data))
                return
        except HaftError as broken:
            fault = broken
        fault = (
            fault
            or self._daemon.fault
            or loss_of(self._socket, "haftd ended while this call was under way")
        )
        self._socket.close()
        self._socket = self._daemon = None
        bridge.lost(fault)


class StdioTransport:
    """Reads the host's lines from the descriptor `source` and writes to `sink`; both may be blocking."""

    def __init__(self, source: int, sink: int, link: DaemonLink) -> None:
        self._source = source
        self._sink = sink
        self._link = link
        self._partial = bytearray()
        self._is_skipping = False
        """A line was too long: its rest is skipped."""

    def serve(self, bridge: Bridge) -> None:
        """Serve until the host closes the input; raise `BrokenPipeError` if it closes the output."""
        try:
            while self._poll_once(bridge):
                pass
            self._flush(bridge)
        finally:
            self._link.close()

    def _poll_once(self, bridge: Bridge) -> bool:
        ready = self._wait(bridge)
        if ready.get(self._sink, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            raise BrokenPipeError
        self._link.receive_ready(ready, bridge)
        if ready.get(self._source) and not self._read(bridge):
            return False
        bridge.tick(time.monotonic())
        self._link.send()
        if ready.get(self._sink) or bridge.to_host:
            self._write(bridge)
        return True

    def _wait(self, bridge: Bridge) -> dict[int, int]:
        poll = select.poll()
        if len(bridge.to_host) < MAX_UNREAD:
            poll.register(self._source, select.POLLIN)
        self._link.register(poll)
        poll.register(self._sink, select.POLLOUT if bridge.to_host else 0)
        due = bridge.next_due()
        left_ms = None if due is None else max(0.0, due - time.monotonic()) * 1000
        return dict(poll.poll(left_ms))

    def _read(self, bridge: Bridge) -> bool:
        try:
            data = os.read(self._source, _CHUNK)
        except OSError:
            data = b""
        if not data:
            return False
        *lines, rest = data.split(b"\n")
        if self._is_skipping:
            if not lines:
                return True
            self._is_skipping = False
            del lines[0]
        elif lines:
            lines[0] = bytes(self._partial) + lines[0]
            self._partial.clear()
        self._partial += rest
        now = time.monotonic()
        for line in lines:
            if message := line.strip().removeprefix(_BYTE_ORDER_MARK):
                bridge.receive(message, now)
        if len(self._partial) > MAX_LINE:
            self._partial.clear()
            self._is_skipping = True
            bridge.refuse_line(f"A message may have {MAX_LINE >> 20} MiB at most.")
        return True

    def _flush(self, bridge: Bridge) -> None:
        """Write the queued output while the host reads, with at most `MAX_LAST_WAIT_S` between reads."""
        poll = select.poll()
        poll.register(self._sink, select.POLLOUT)
        while bridge.to_host and (events := poll.poll(MAX_LAST_WAIT_S * 1000)):
            if not events[0][1] & select.POLLOUT:
                raise BrokenPipeError
            self._write(bridge)

    def _write(self, bridge: Bridge) -> None:
        """Write as much as a ready pipe takes without blocking: `PIPE_BUF` bytes after each poll."""
        poll = select.poll()
        poll.register(self._sink, select.POLLOUT)
        while bridge.to_host and any(event & select.POLLOUT for _, event in poll.poll(0)):
            try:
                written = os.write(self._sink, bridge.to_host[: select.PIPE_BUF])
            except BlockingIOError:
                return
            del bridge.to_host[:written]
