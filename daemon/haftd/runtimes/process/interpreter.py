"""Interface between a child and the format of its output."""

from __future__ import annotations

from typing import Protocol

import msgspec

from haft_protocol.outcome import Malformed
from haft_protocol.states import Exit as ExitState
from haftd.host.launch.spawn import Exit
from haftd.runtimes.base import ToolFailed


class ToolResult(msgspec.Struct, frozen=True):
    """Result of a structured tool; both fields are None for a raw one."""

    result: str | None = None
    failure: ToolFailed | None = None


def exit_state(exit: Exit) -> ExitState | None:
    """Return the exit status for the wire; None if unknown."""
    if exit.signal is not None:
        return ExitState(signal=exit.signal)
    return None if exit.code is None else ExitState(code=exit.code)


def malformed(outcome: Malformed) -> ToolFailed:
    return ToolFailed(
        f"The tool printed {outcome.message}. If what it prints is no outcome, its definition needs "
        '`output = "raw"`.',
        shows_output=True,
    )


class Interpreter(Protocol):
    """Parser of a process's output; never blocks, and emits through the child only."""

    def finish(self, exit: Exit) -> ToolResult | None:
        """Return the result after the last byte; None if the handle continues without this process."""

    def finish_killed(self) -> ToolResult:
        """Emit held output and return the result of a killed process."""

    def request_stop(self) -> bool:
        """Request the end of the process; return True if it may exit by itself."""


class Plain:
    def finish(self, exit: Exit) -> ToolResult:
        return ToolResult()

    def finish_killed(self) -> ToolResult:
        return ToolResult()

    def request_stop(self) -> bool:
        return False
