"""The end of an execution as an error: cause and exit status (docs/protocol.md, "ToolError")."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from haft_protocol.states import By, Exit, ToolError

from .termination import Termination

_SENTENCES: dict[By, str] = {
    "exit": "It ended",
    "abort": "It was aborted",
    "turn_end": "It was ended because its turn ended",
    "disconnect": "It was ended because the last connection of its session closed",
    "shutdown": "It was ended because haftd was shut down",
    "limit": "It was ended because it passed one of its limits",
    "lost": "haftd itself ended while this ran; what it had started was ended at the next start, and "
    "its output is lost. Start it again if it is still wanted",
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
        sentence = f"It was ended because it passed its limit `{limit}`"
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
