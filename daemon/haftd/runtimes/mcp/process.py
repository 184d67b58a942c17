"""The stdio transport: a server process on pipes.

A stop closes the input, then sends TERM, then KILL. Lines without a message count as standard
error.
"""

from __future__ import annotations

from collections.abc import Callable

import trio
from msgspec import UNSET

from haftd.core.termination import Termination
from haftd.host import pump
from haftd.host.launch.launched_process import Exit
from haftd.runtimes.process.child import Child, Output
from haftd.runtimes.process.helper import ContextWithoutHandle
from haftd.runtimes.process.interpreter import ToolResult
from haftd.runtimes.process.resource_limits import ResourceLimits
from haftd.tools.definitions.server_tools import ServedTool

from ..base import Call
from .peer import Disconnected, Peer, Pending

MAX_MESSAGE = 64 << 20
"""Bytes of one message; a longer one ends the server."""
_MAX_WAITING = 64 << 20
_CLOSING_S = 0.5
"""Seconds from the end of standard output to the end of the process: a server may be exiting."""
_MAX_STDERR = 8192
_MAX_LINES = 10
_MAX_LINE = 400


class StderrTail:
    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = bytearray()

    def append(self, data: bytes) -> None:
        self._tail += data[-_MAX_STDERR:]
        del self._tail[:-_MAX_STDERR]

    def lines(self) -> tuple[str, ...]:
        text = bytes(self._tail).decode(errors="replace")
        lines = ["".join(c if c.isprintable() else " " for c in line) for line in text.splitlines()]
        kept = [line.rstrip()[-_MAX_LINE:] for line in lines if line.strip()]
        return tuple(kept[-_MAX_LINES:])


class _Context(ContextWithoutHandle):
    def __init__(self, grace_s: float, on_end: Callable[[Termination], None]) -> None:
        super().__init__(grace_s)
        self._on_end = on_end

    def ended(self, termination: Termination, *, complete: bool = True) -> None:
        self._on_end(termination)


class ServerProcess:
    def __init__(self, call: Call, grace_s: float) -> None:
        self.peer = Peer(self)
        self.stderr = StderrTail()
        self.unconfirmed: tuple[int, ...] = ()
        self._call = call
        # `Child` waits half of this grace after the end of the input.
        self._context = _Context(grace_s * 2 / 3, self._ended)
        self._child: Child | None = None
        self._writer: pump.Writer | None = None
        self._line = bytearray()
        self._closed = trio.Event()
        self._scope = trio.CancelScope()

    async def start(self) -> None:
        """Start the server, to be followed by `run` at once. Raises `StartFailed`."""
        self._child = await Child.start(self._call, self._context, ResourceLimits({}))
        stdin = self._child.launched.stdin
        if stdin is None:
            raise AssertionError("the server was launched without a pipe for its input")
        self._writer = pump.Writer(
            stdin, on_end=self._child.launched.close_stdin, limit=_MAX_WAITING
        )

    async def run(self) -> None:
        """Supervise until no process of the server is left."""
        child, writer = self._child, self._writer
        if child is None or writer is None:
            raise AssertionError("`run` was called before `start`")
        async with child:
            outputs = [
                Output(child.stdout, self._feed, on_end=self._closed.set),
                Output(child.stderr, self.stderr.append),
            ]
            with self._scope:
                await child.run(outputs, self, (writer.run, self._watch_output))

    def stop(self, reason: str) -> None:
        self.peer.lose(Disconnected(reason, self.stderr.lines()))
        self._scope.cancel()

    def admit(self, tools: tuple[ServedTool, ...]) -> tuple[ServedTool, ...]:
        return tools

    # -- the transport

    def send(self, message: bytes, pending: Pending | None = None) -> None:
        if self._writer is None:
            raise AssertionError("`send` was called before `start`")
        try:
            self._writer.put(message + b"\n")
        except pump.Closed:
            raise Disconnected("does not read any more input", self.stderr.lines()) from None
        except pump.InputFull:
            raise Disconnected("does not read its input", self.stderr.lines()) from None

    def cancel(self, pending: Pending) -> bool:
        return False

    def _feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            whole, self._line = bytes(self._line), bytearray()
            self._read(whole)
        self._line += rest
        if len(self._line) > MAX_MESSAGE:
            self._line.clear()
            self.stop(f"sent a message of more than {MAX_MESSAGE >> 20} MiB")

    def _read(self, line: bytes) -> None:
        line = line.strip()
        if line and not self.peer.receive(line):
            self.stderr.append(line + b"\n")

    # -- its end

    async def _watch_output(self) -> None:
        await self._closed.wait()
        await trio.sleep(_CLOSING_S)
        self.stop("closed its standard output")

    def _ended(self, termination: Termination) -> None:
        self.unconfirmed = termination.unconfirmed
        self._read(bytes(self._line))
        self._line.clear()
        status = termination.exit
        if status is None:
            how = "has ended"
        elif status.signal is not UNSET:
            how = f"was killed by SIG{status.signal}"
        else:
            how = f"exited with status {status.code}"
        self.stop(how)

    def finish(self, exit: Exit) -> ToolResult:
        return ToolResult()

    def finish_killed(self) -> ToolResult:
        return ToolResult()

    def request_stop(self) -> bool:
        if self._writer is None or self._writer.closed:
            return False
        self._writer.end()
        return True
