"""Transport of the bridge: standard input and output, and the daemon's socket, in one thread by
`poll`.

A host that does not read is not read from. The end of the input ends the process, not the handles.
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
"""Unread output at which reading from the host stops."""

_CHUNK = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some hosts on Windows write one first."""


class DaemonLink:
    """Connection to the daemon, made on demand by `open_daemon`, which may start a daemon."""

    def __init__(self, open_daemon: Callable[[], Socket]) -> None:
        self._open = open_daemon
        self._socket: Socket | None = None
        self._daemon: Conversation | None = None
        self.hear: Callable[[str, Raw], None] | None = None
        """Called with the daemon's notifications."""

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
            self._daemon.to_send.clear()  # Messages from before the end are still to be read.

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
    def __init__(self, source: int, sink: int, link: DaemonLink) -> None:
        self._source = source
        self._sink = sink
        self._link = link
        self._partial = bytearray()
        self._is_too_long = False

    def serve(self, bridge: Bridge) -> None:
        """Serve until the host closes the input; raise `BrokenPipeError` if the host stops reading."""
        try:
            while self._poll_once(bridge):
                pass
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
        if self._is_too_long:
            if not lines:
                return True
            self._is_too_long = False
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
            self._is_too_long = True
            bridge.refuse_line(f"A message may have {MAX_LINE >> 20} MiB at most.")
        return True

    def _write(self, bridge: Bridge) -> None:
        """Write as much as a ready pipe takes without blocking."""
        poll = select.poll()
        poll.register(self._sink, select.POLLOUT)
        while bridge.to_host and any(event & select.POLLOUT for _, event in poll.poll(0)):
            try:
                written = os.write(self._sink, bridge.to_host[: select.PIPE_BUF])
            except BlockingIOError:
                return
            del bridge.to_host[:written]
