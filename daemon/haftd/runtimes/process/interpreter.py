"""Interface between `Child` and the parser of its output: raw, an outcome, or events."""

from __future__ import annotations

from typing import Protocol

import msgspec

from haft_protocol.outcome import Malformed
from haft_protocol.states import Exit as ExitState
from haftd.host.launch.spawn import Exit
from haftd.runtimes.base import ToolFailed


class ToolResult(msgspec.Struct, frozen=True):
    """Result or failure of a tool; with neither, the output is the result."""

    result: str | None = None
    failure: ToolFailed | None = None


def exit_state(exit: Exit) -> ExitState | None:
    """Convert to the wire's type; None if neither code nor signal is known."""
    if exit.signal is not None:
        return ExitState(signal=exit.signal)
    return None if exit.code is None else ExitState(code=exit.code)


def malformed(outcome: Malformed) -> ToolFailed:
    """Return the failure of a tool that printed a malformed outcome or event."""
    return ToolFailed(
        f"The tool printed {outcome.message}. If what it prints is no outcome, its definition needs "
        '`output = "raw"`.',
        shows_output=True,
    )


class Interpreter(Protocol):
    """Parser of a process's output. Never blocks.

    Output goes through `Child.emit`, never directly to the context: the child counts it for the
    tool's limits.
    """

    def finish(self, exit: Exit) -> ToolResult | None:
        """Return the result of a process that has exited, after the last byte of its output.

        None if the process has asked by exiting: the tool is then run again with the answer.
        """

    def finish_killed(self) -> ToolResult:
        """Emit held output and return the result of a process that haft has ended.

        The result counts only after `Child.terminate`, not after an abort or a limit.
        """

    def request_stop(self) -> bool:
        """Ask the process to exit, by its protocol and not by a signal, before TERM is sent.

        Return True if the process was asked: TERM then waits for up to half the grace.
        """


class Plain:
    """Interpreter of raw output, which is itself the result."""

    def finish(self, exit: Exit) -> ToolResult:
        return ToolResult()

    def finish_killed(self) -> ToolResult:
        return ToolResult()

    def request_stop(self) -> bool:
        return False
