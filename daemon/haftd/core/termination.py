"""Termination of an execution: reported by a runtime, changed by a review, shown to readers, a
failure as an error of cause and exit status (docs/protocol.md, "ToolError")."""

from __future__ import annotations

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from haft_protocol.states import By, EndedBy, Exit, ToolError

EXIT = EndedBy("exit")
LIMIT = EndedBy("limit")
LOST = EndedBy("lost")


class Termination(msgspec.Struct, frozen=True, kw_only=True):
    """Cause and result of an execution's end; without `result` and `failure` the output is the
    result."""

    by: EndedBy = EXIT
    """`LOST` from a runtime that ends an execution on request: it does not know the requester."""
    result: str | None = None
    failure: ToolError | None = None
    shows_output: bool = False
    """The output is returned beside the tool's `failure`."""
    exit: Exit | None = None
    limit: str | None = None
    limit_argument: str | None = None
    """Argument of the call that is the limit's value."""
    unconfirmed: tuple[int, ...] = ()
    """Pids that survived KILL."""
    hint: str = ""
    """Sentence on a failure's probable cause."""

    @property
    def is_raw(self) -> bool:
        return self.shows_output or (self.result is None and self.failure is None)

    @property
    def is_output(self) -> bool:
        """True if readers get the printed output instead of a built result."""
        return self.is_raw or self.by.by != "exit"

    def with_cause(self, requested_by: EndedBy | None) -> Termination:
        """Replace the cause `LOST` by `requested_by`, else by the tool's own failure or an internal
        error."""
        if self.by != LOST:
            return self
        if requested_by is not None:
            return replace(self, by=requested_by)
        if self.failure is not None:
            return replace(self, by=EXIT)
        failure = ToolError(internal_failure(), transient=True)
        return replace(self, failure=failure, shows_output=True)


def internal_failure(incident: str | None = None) -> str:
    under = "" if incident is None else f" under {incident}"
    return f"haftd failed while it ran this tool, and ended it; its log has the details{under}."


_SENTENCES: dict[By, str] = {
    "exit": "It ended",
    "abort": "It was aborted",
    "turn_end": "It was ended because its turn ended",
    "disconnect": "It was ended because the last connection of its session closed",
    "shutdown": "It was ended because haftd was shut down",
    "limit": "It was ended because it exceeded one of its limits",
    "lost": "haftd itself ended while this ran; the tool's processes were ended as well, and its output is "
    "lost; start it again if it is still needed",
}


def failure_of(termination: Termination) -> ToolError | None:
    """Return the error of an end; None after a success.

    If the output is the result, the exit status decides.
    """
    if termination.failure is not None:
        return _with_hint(termination.failure, termination.hint)
    by, exit, limit = termination.by, termination.exit, termination.limit
    went = exit_clause(exit)
    if by.by == "exit":
        if not termination.is_raw or exit is None or exit.code == 0:
            return None
        return _with_hint(ToolError(f"{went[0].upper()}{went[1:]}."), termination.hint)
    if by.by == "lost":
        return ToolError(f"{_SENTENCES['lost']}.", transient=True)
    sentence = _SENTENCES[by.by]
    if by.by == "limit" and limit is not None:
        sentence = f"It was ended because it exceeded its limit `{limit}`"
        if (argument := termination.limit_argument) is not None:
            sentence += f", the argument `{argument}`"
    if by.client is not UNSET:
        sentence += f" by {by.client}"
    return ToolError(f"{sentence}; {went}." if went else f"{sentence}.")


def _with_hint(error: ToolError, hint: str) -> ToolError:
    return replace(error, message=f"{error.message} {hint}") if hint else error


def exit_clause(exit: Exit | None) -> str:
    if exit is None:
        return ""
    if exit.signal is not UNSET:
        return f"the process was ended by signal {exit.signal}"
    return f"the process exited with code {exit.code}"
