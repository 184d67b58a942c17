"""How what a process says is understood: the seam between a child and what it speaks.

Rules: an interpreter decides at once. It hears of the end when everything that was said is in, and says
what the tool's own result is; output goes through the child, never around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from haft_protocol.outcome import Malformed
from haft_protocol.states import Exit as ExitState
from haftd.host.launch.spawn import Exit
from haftd.runtimes.base import ToolFailed


@dataclass(frozen=True, slots=True)
class Said:
    """What a structured tool said at its end; both None for a raw one."""

    result: str | None = None
    failure: ToolFailed | None = None


def exit_state(exit: Exit) -> ExitState | None:
    """Return the exit status as the wire has it; None where it is not known."""
    if exit.signal is not None:
        return ExitState(signal=exit.signal)
    return None if exit.code is None else ExitState(code=exit.code)


def malformed(outcome: Malformed) -> ToolFailed:
    """Return the failure of a tool that has printed a malformed outcome."""
    return ToolFailed(
        f"The tool printed {outcome.message}. If what it prints is no outcome, its definition needs "
        '`output = "raw"`.',
        shows_output=True,
    )


class Interpreter(Protocol):
    """How what a process says is understood."""

    def finish(self, exit: Exit) -> Said | None:
        """The process has ended and all it said is in. None: the handle goes on without it."""

    def give_up(self) -> Said:
        """The process was ended: let out what was held back; say what it had said by then."""

    def part(self) -> bool:
        """The process is about to be ended: tell it; whether it was told and may leave itself."""


class Plain:
    """Raw output: nothing in it is understood."""

    def finish(self, exit: Exit) -> Said:
        return Said()

    def give_up(self) -> Said:
        return Said()

    def part(self) -> bool:
        return False
