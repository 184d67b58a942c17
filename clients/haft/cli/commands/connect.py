"""`haft connect`: the daemon's protocol over standard input and output.

Bytes pass unchanged. The end of the input closes only the socket's sending side: pending replies
still come. A closed stdout ends the command.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import sys
from contextlib import closing

from ...connection import loss_of
from ...daemon_socket import Socket
from ..options import UsageError, chosen_address, open_address
from ..show import OutputFailed
from ..statuses import Status

EPILOG = """\
Write requests to its standard input, and read the replies from its standard output, as at the daemon's
socket: JSON lines, or Content-Length blocks as language servers use them. A daemon is started when none
answers. It ends when the daemon closes the connection: with status 0 when the input has ended and every
reply is written, else with status 3. With --host or HAFT_HOST it connects to the daemon of another machine,
so an editor only has to start `haft connect`.

examples:
  echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | haft connect
  ssh box haft connect
  docker exec -i box haft connect
"""

_CHUNK = 1 << 16


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-start", action="store_true", help="start no daemon")
    parser.add_argument(
        "--announce",
        action="store_true",
        help="first print a line of JSON with the versions, when a daemon answers",
    )


def run(options: argparse.Namespace) -> int:
    for name in ("json", "session", "root"):
        if getattr(options, name):
            raise UsageError(
                f"connect has no --{name}: requests go to the daemon as they are written"
            )
    if sys.stdin is None or sys.stdout is None:
        raise UsageError("connect needs an open standard input and output")
    may_start = not getattr(options, "no_start", False)
    connected = open_address(chosen_address(options), start=may_start)
    sink = sys.stdout.fileno()
    if getattr(options, "announce", False):
        from ... import __version__
        from ...tunnel import announcement

        os.write(sink, announcement(__version__))
    join(sys.stdin.fileno(), sink, connected)
    return Status.DONE


def join(source: int, sink: int, connected: Socket) -> None:
    """Copy bytes between descriptors and socket until the daemon closes the connection; close the
    socket.

    Raises `ConnectionLost` if the daemon closes before the input ends, `BrokenPipeError` if `sink`
    has no reader, `OutputFailed` if it cannot be written.
    """
    with closing(connected):
        connected.setblocking(False)
        _Streams(source, sink, connected).copy()


class _Streams:
    def __init__(self, source: int, sink: int, connected: Socket) -> None:
        self._source = source
        self._sink = sink
        self._socket = connected
        self._requests = b""
        self._replies = b""
        self._input_ended = False
        self._sending = True
        self._receiving = True

    def copy(self) -> None:
        while self._receiving or self._replies:
            ready = self._wait()
            if ready.get(self._sink, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                raise BrokenPipeError
            if ready.get(self._source):
                self._read()
            if ready.get(self._socket.fileno()):
                self._send()
                self._receive()
            if ready.get(self._sink):
                self._write()
        if not self._input_ended:
            raise loss_of(
                self._socket,
                "haftd closed the connection before the input ended; its last reply or its log has the reason",
            )

    def _wait(self) -> dict[int, int]:
        poll = select.poll()
        if not self._requests and not self._input_ended:
            poll.register(self._source, select.POLLIN)
        events = select.POLLIN if self._receiving and not self._replies else 0
        if self._requests:
            events |= select.POLLOUT
        if events:
            poll.register(self._socket, events)
        poll.register(self._sink, select.POLLOUT if self._replies else 0)
        return dict(poll.poll())

    def _read(self) -> None:
        try:
            self._requests = os.read(self._source, _CHUNK)
        except OSError:
            self._requests = b""  # A terminal that has hung up.
        if not self._requests:
            self._input_ended = True
            self._close_sending()
        elif not self._sending:
            self._requests = b""

    def _send(self) -> None:
        if not self._requests:
            return
        try:
            self._requests = self._requests[self._socket.send(self._requests) :]
        except BlockingIOError:
            pass
        except OSError:
            # The daemon reads no more; its last replies remain to read.
            self._requests = b""
            self._sending = False

    def _close_sending(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # Closed already, which the read reports.

    def _receive(self) -> None:
        if not self._receiving or self._replies:
            return
        try:
            self._replies = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._replies = b""
        self._receiving = bool(self._replies)

    def _write(self) -> None:
        if not self._replies:
            return
        try:
            # A ready pipe takes this much without blocking; its flags are its owner's.
            written = os.write(self._sink, self._replies[: select.PIPE_BUF])
        except BlockingIOError:
            return
        except BrokenPipeError:
            raise
        except OSError as fault:
            why = os.strerror(fault.errno or 0)
            raise OutputFailed(f"the output cannot be written: {why}") from fault
        self._replies = self._replies[written:]
