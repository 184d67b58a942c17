"""Interface between `Child` and a parser of its output: raw, outcome, or events."""

from __future__ import annotations

from typing import Protocol

import msgspec

from haft_protocol.outcome import Malformed
from haft_protocol.states import Exit as ExitState
from haftd.host.launch.launched_process import Exit
from haftd.runtimes.base import ToolFailed


class ToolResult(msgspec.Struct, frozen=True):
    """Result or failure; with neither, the output is the result."""

    result: str | None = None
    failure: ToolFailed | None = None


def exit_state(exit: Exit) -> ExitState | None:
    if exit.signal is not None:
        return ExitState(signal=exit.signal)
    return None if exit.code is None else ExitState(code=exit.code)


def malformed_failure(outcome: Malformed) -> ToolFailed:
    """Return the failure for a malformed outcome or event."""
    return ToolFailed(
        f"The tool printed {outcome.message}. A tool that prints plain text needs "
        '`output = "raw"` in its definition.',
        shows_output=True,
    )


class Interpreter(Protocol):
    """Parser of output; never blocks.

    Output goes through `Child.emit`, which counts it for limits.
    """

    def finish(self, exit: Exit) -> ToolResult | None:
        """Return the result of an exited process, after its last byte; None if the process asked a
        question by exiting: it is run again with the answer."""

    def finish_killed(self) -> ToolResult:
        """Emit held output; return the result of a process that haft ended, which counts only after
        `Child.terminate`."""

    def request_stop(self) -> bool:
        """Ask the process to exit, by its protocol, before TERM. Return True if asked: TERM then
        waits up to half the grace."""


class Plain:
    def finish(self, exit: Exit) -> ToolResult:
        return ToolResult()

    def finish_killed(self) -> ToolResult:
        return ToolResult()

    def request_stop(self) -> bool:
        return False
