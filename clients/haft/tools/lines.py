"""Messages between haftd and a tool's process, a line each.

Input is signalled (SIGIO), never read blocking: haftd would take that for a wait for input.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
from _thread import get_ident
from collections.abc import Iterator
from typing import Any, ClassVar


class Lines:
    """The protocol's messages, on private copies of standard input and output."""

    current: ClassVar[Lines | None] = None
    """The messages of this process, once it runs a tool."""

    def __init__(self) -> None:
        Lines.current = self
        self._input = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        self._output = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        self._buffer = bytearray()
        self._replies: dict[int, dict[str, Any]] = {}
        self._held: list[dict[str, Any]] = []
        """Queue of messages that arrived during a request."""
        self._count = 0
        self._thread = get_ident()
        self.host_methods: frozenset[str] = frozenset()
        """Host calls that the daemon answers."""
        self.is_closed = False

    def first(self) -> dict[str, Any]:
        while b"\n" not in self._buffer and (data := os.read(self._input, 65536)):
            self._buffer += data
        message = next(self._messages(), {})
        host = message.get("params", {}).get("host", {})
        self.host_methods = frozenset(host.get("methods", ()))
        return message

    def arm(self) -> None:
        os.set_blocking(self._input, False)
        fcntl.fcntl(self._input, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(self._input, fcntl.F_GETFL)
        fcntl.fcntl(self._input, fcntl.F_SETFL, flags | os.O_ASYNC)

    def disarm(self) -> None:
        """Stop the signal, as its default action would end the process."""
        flags = fcntl.fcntl(self._input, fcntl.F_GETFL)
        fcntl.fcntl(self._input, fcntl.F_SETFL, flags & ~os.O_ASYNC)

    def receive(self) -> list[dict[str, Any]]:
        self._fill()
        held, self._held = self._held, []
        return [*held, *self._messages()]

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Send a request and return the reply; None once the input is closed.

        Raises `KeyboardInterrupt` when the call is cancelled.
        """
        if get_ident() != self._thread:
            raise RuntimeError("host calls are made from the main thread")
        sys.stdout.flush()
        self._count += 1
        number = self._count
        # The handler of the signal would take the reply.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
        try:
            self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            while number not in self._replies and not self.is_closed:
                select.select([self._input], [], [])
                self._fill()
                self._held += self._messages()
                if any(message.get("method") == "cancel" for message in self._held):
                    raise KeyboardInterrupt
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return self._replies.pop(number, None)

    def _fill(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._input, 65536):
                self._buffer += data
            self.is_closed = True

    def _messages(self) -> Iterator[dict[str, Any]]:
        while b"\n" in self._buffer:
            line, _, rest = self._buffer.partition(b"\n")
            self._buffer = rest
            message = json.loads(line)
            if "method" in message:
                yield message
            else:
                self._replies[message["id"]] = message

    def send(self, state: dict[str, Any]) -> None:
        data = memoryview(json.dumps(state).encode() + b"\n")
        while data:
            data = data[os.write(self._output, data) :]
