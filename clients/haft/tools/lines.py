"""Messages between haftd and a tool's process, a line each.

Input is signalled (SIGIO), never read blocking: haftd would take that for a wait for input.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from typing import Any


class Lines:
    """The protocol's messages, on private copies of standard input and output."""

    def __init__(self) -> None:
        self._input = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        self._output = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        self._buffer = bytearray()
        self.is_closed = False

    def first(self) -> dict[str, Any]:
        while b"\n" not in self._buffer and (data := os.read(self._input, 65536)):
            self._buffer += data
        return next(self._messages(), {})

    def arm(self) -> None:
        """Request a signal when input is readable."""
        os.set_blocking(self._input, False)
        fcntl.fcntl(self._input, fcntl.F_SETOWN, os.getpid())
        flags = fcntl.fcntl(self._input, fcntl.F_GETFL)
        fcntl.fcntl(self._input, fcntl.F_SETFL, flags | os.O_ASYNC)

    def disarm(self) -> None:
        """Stop the signal, as its default action would end the process."""
        flags = fcntl.fcntl(self._input, fcntl.F_GETFL)
        fcntl.fcntl(self._input, fcntl.F_SETFL, flags & ~os.O_ASYNC)

    def receive(self) -> list[dict[str, Any]]:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._input, 65536):
                self._buffer += data
            self.is_closed = True
        return list(self._messages())

    def _messages(self) -> Iterator[dict[str, Any]]:
        while b"\n" in self._buffer:
            line, _, rest = self._buffer.partition(b"\n")
            self._buffer = rest
            yield json.loads(line)

    def send(self, state: dict[str, Any]) -> None:
        data = memoryview(json.dumps(state).encode() + b"\n")
        while data:
            data = data[os.write(self._output, data) :]
