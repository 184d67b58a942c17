"""How an end reads: one sentence that says who ended a handle, and how its process went.

Rules: pure, and the only place that words an end. A failure that a tool or the supervisor put into
words is passed on as it is. Section 3, `error`.
"""

from __future__ import annotations

from msgspec import UNSET

from haft_protocol.states import By, EndedBy, Exit, ToolError

__all__ = ["failure_of", "how_it_went"]

_WHO: dict[By, str] = {
    "exit": "It ended",
    "abort": "It was aborted",
    "turn_end": "It was ended because its turn ended",
    "disconnect": "It was ended because the last connection of its session closed",
    "shutdown": "It was ended because haftd was shut down",
    "limit": "It was ended because it passed one of its limits",
    "lost": "haftd itself ended while this ran",
}


def how_it_went(exit: Exit | None) -> str:
    """Say how the process ended, as the end of a sentence; empty if there was none."""
    if exit is None:
        return ""
    if exit.signal is not UNSET:
        return f"signal {exit.signal} ended the process"
    return f"the process exited with code {exit.code}"


def failure_of(
    by: EndedBy, exit: Exit | None, failure: ToolError | None, *, raw: bool
) -> ToolError | None:
    """Return the failure that a handle ended with, None if it succeeded."""
    if failure is not None:
        return failure
    if by.by == "exit":
        if not raw or exit is None or exit.code == 0:
            return None
        if exit.signal is not UNSET:
            return ToolError(message=f"The process was ended by signal {exit.signal}.")
        return ToolError(message=f"The process exited with code {exit.code}.")
    if by.by == "lost":
        return ToolError(
            message="haftd itself ended while this ran; what it had started was ended at the next "
            "start, and its output is lost. Spawn it again if it is still wanted.",
            transient=True,
        )
    sentence = _WHO[by.by]
    if by.client is not UNSET:
        sentence += f" by {by.client}"
    went = how_it_went(exit)
    return ToolError(message=f"{sentence}{'; ' if went else ''}{went}.")
