"""The part of a handle's state for readers that its events alone change: all but text, offset, elapsed
time of a live handle, and the reply's own fields (docs/protocol.md, "The handle state")."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from haft_protocol.states import HandleState, Needs, Pending, Review, Running, Stopped, Waiting

from . import lifecycle
from .lifecycle import Abandoned, AwaitingApproval, Lifecycle, Outcome, State, Stopping
from .termination import failure_of


def base_state(
    stage: Lifecycle,
    review: Review | None,
    *,
    id: str,
    tool: str,
    session: str,
    generation: int,
    created_at: float,
) -> HandleState:
    """Return the state in a lifecycle's stage, without text: its offset is 0, and so is the elapsed
    time of a live handle."""
    if isinstance(stage, Outcome):
        termination, exit = stage.termination, stage.termination.exit
        return Stopped(
            id=id,
            tool=tool,
            session=session,
            cursor=0,
            generation=generation,
            elapsed_ms=int((stage.at - created_at) * 1000),
            review=stage.review or UNSET,
            ended_by=termination.by,
            error=failure_of(termination) or UNSET,
            exit=UNSET if exit is None else exit,
            output_complete=UNSET if exit is None and stage.is_final else stage.is_final,
            unconfirmed=termination.unconfirmed or UNSET,
        )
    phase = stage.was if isinstance(stage, Stopping) else stage
    common: dict[str, Any] = {
        "id": id,
        "tool": tool,
        "session": session,
        "cursor": 0,
        "generation": generation,
        "elapsed_ms": 0,
        "review": review or UNSET,
        "needs": _needs(stage, review),
        "content": "",
    }
    if isinstance(phase, lifecycle.Waiting):
        return Waiting(question=phase.question, inquiry_id=phase.inquiry_id or UNSET, **common)
    return Running(**common) if phase.state is State.RUNNING else Pending(**common)


def _needs(stage: Lifecycle, review: Review | None) -> Needs:
    """Return the act that a live handle waits for, apart from its process's input."""
    if isinstance(stage, Stopping | Abandoned):
        return "nothing"
    if isinstance(stage, AwaitingApproval) or review == "waits":
        return "decision"
    return "answer" if isinstance(stage, lifecycle.Waiting) else "nothing"
