"""Lifecycle of a handle: states with their data, events, and the table of transitions.
The table maps each stage and event to the next stage, to `IGNORED`, or to `ILLEGAL`, which raises
and changes nothing. A requested stop changes no other transition: the execution continues until the
runtime reports the end (docs/protocol.md, "States").
    awaiting approval → starting → running ⇄ waiting → under review → draining → stopped
           ↘ abandoned       ↘ rejected
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum, StrEnum, unique
from types import MappingProxyType
from typing import ClassVar, Final

import msgspec

from haft_protocol.errors import RpcError
from haft_protocol.questions import Question
from haft_protocol.states import EndedBy, Review, ToolError

from .termination import Termination


@unique
class State(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPED = "stopped"


@unique
class Stage(StrEnum):
    AWAITING_APPROVAL = "awaiting approval"
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting for an answer"
    UNDER_REVIEW = "under review"
    ABANDONED = "abandoned before approval"
    STOPPING_UNAPPROVED = "stopping before approval"
    STOPPING_START = "stopping while it starts"
    STOPPING = "stopping"
    STOPPING_WAITING = "stopping while it waits for an answer"
    STOPPING_REVIEW = "stopping under review"
    DRAINING = "draining"
    STOPPED = "stopped"
    REJECTED = "rejected"


@unique
class Event(StrEnum):
    APPROVED = "approved"
    STARTED = "started"
    ASKED = "asked"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    STOP_REQUESTED = "stop requested"
    ABANDONED = "abandoned"
    """No call waits for the start any more."""
    REJECTED = "rejected"
    """Not started: the id was never taken."""
    EXITED = "exited"
    """The execution has ended; its output is still held open."""
    ENDED = "ended"
    """The execution has ended; its output is complete."""
    WITHHELD = "withheld"
    """The execution has ended; a reviewer decides on its result."""
    REVIEWED = "reviewed"
    OUTPUT_COMPLETED = "output completed"
    SURVIVORS_ENDED = "survivors ended"
    """The unkillable processes are gone."""


# -- states


class _Live(msgspec.Struct, frozen=True):
    is_final: ClassVar[bool] = False
    """No more output will come."""


class AwaitingApproval(_Live, frozen=True):
    stage: ClassVar[Stage] = Stage.AWAITING_APPROVAL
    state: ClassVar[State] = State.PENDING


class Starting(_Live, frozen=True):
    stage: ClassVar[Stage] = Stage.STARTING
    state: ClassVar[State] = State.PENDING


class Running(_Live, frozen=True):
    stage: ClassVar[Stage] = Stage.RUNNING
    state: ClassVar[State] = State.RUNNING


class Waiting(_Live, frozen=True):
    stage: ClassVar[Stage] = Stage.WAITING
    state: ClassVar[State] = State.WAITING
    question: Question
    inquiry_id: str


class UnderReview(_Live, frozen=True):
    """The end is withheld."""

    stage: ClassVar[Stage] = Stage.UNDER_REVIEW
    was: Starting | Running
    """State that readers still see."""
    termination: Termination

    @property
    def state(self) -> State:
        return self.was.state


class Stopping(_Live, frozen=True):
    """The end was requested."""

    was: AwaitingApproval | Starting | Running | Waiting | UnderReview
    """State that readers see until the end."""
    by: EndedBy

    @property
    def stage(self) -> Stage:
        return _STOPPING[self.was.stage]

    @property
    def state(self) -> State:
        return self.was.state


class Abandoned(_Live, frozen=True):
    """The calling connection is gone before the approver's decision."""

    stage: ClassVar[Stage] = Stage.ABANDONED
    state: ClassVar[State] = State.PENDING
    by: EndedBy


class _Ended(msgspec.Struct, frozen=True):
    """State after the end."""

    state: ClassVar[State] = State.STOPPED
    termination: Termination
    at: float
    """Monotonic seconds."""
    review: Review | None = None
    """State of the result's review."""
    refusal: RpcError | None = None
    """Error for calls that await a result that was not approved."""


class Draining(_Ended, frozen=True):
    """A remaining process holds the output open."""

    stage: ClassVar[Stage] = Stage.DRAINING
    is_final: ClassVar[bool] = False


class Stopped(_Ended, frozen=True):
    stage: ClassVar[Stage] = Stage.STOPPED
    is_final: ClassVar[bool] = True


class Rejected(msgspec.Struct, frozen=True):
    """Not started; the handle is withdrawn."""

    stage: ClassVar[Stage] = Stage.REJECTED
    state: ClassVar[State] = State.STOPPED
    is_final: ClassVar[bool] = True
    error: RpcError
    at: float
    review: Review | None = None
    refusal: ClassVar[None] = None

    @property
    def termination(self) -> Termination:
        return Termination(failure=ToolError(self.error.message))


Outcome = Draining | Stopped | Rejected

Lifecycle = (
    AwaitingApproval | Starting | Running | Waiting | UnderReview | Stopping | Abandoned | Outcome
)

_STOPPING: Final[Mapping[Stage, Stage]] = MappingProxyType(
    {
        Stage.AWAITING_APPROVAL: Stage.STOPPING_UNAPPROVED,
        Stage.STARTING: Stage.STOPPING_START,
        Stage.RUNNING: Stage.STOPPING,
        Stage.WAITING: Stage.STOPPING_WAITING,
        Stage.UNDER_REVIEW: Stage.STOPPING_REVIEW,
    }
)
"""Stage after a request to stop."""


# --- the table ------------------------------------------------------------------------------


class IllegalTransition(Exception):
    def __init__(self, stage: Stage, event: Event) -> None:
        super().__init__(f"a handle that is {stage} cannot be {event}")
        self.stage = stage
        self.event = event


class NoTransition(Enum):
    IGNORED = "ignored"
    ILLEGAL = "illegal"


_Row = Mapping[Event, "Stage | NoTransition"]

_ENDS: Final[_Row] = {Event.EXITED: Stage.DRAINING, Event.ENDED: Stage.STOPPED}
_LIVE: Final[_Row] = {
    Event.ABANDONED: NoTransition.IGNORED,
    Event.OUTPUT_COMPLETED: NoTransition.IGNORED,
}
_OVER: Final[_Row] = {
    Event.STOP_REQUESTED: NoTransition.IGNORED,
    Event.ABANDONED: NoTransition.IGNORED,
    Event.OUTPUT_COMPLETED: NoTransition.IGNORED,
}

_ROWS: Final[Mapping[Stage, _Row]] = {
    Stage.AWAITING_APPROVAL: {
        **_LIVE,
        Event.APPROVED: Stage.STARTING,
        Event.ABANDONED: Stage.ABANDONED,
        Event.REJECTED: Stage.REJECTED,
        **_ENDS,
    },
    Stage.STARTING: {
        **_LIVE,
        Event.STARTED: Stage.RUNNING,
        Event.REJECTED: Stage.REJECTED,
        **_ENDS,
        Event.WITHHELD: Stage.UNDER_REVIEW,
    },
    Stage.RUNNING: {
        **_LIVE,
        Event.ASKED: Stage.WAITING,
        **_ENDS,
        Event.WITHHELD: Stage.UNDER_REVIEW,
    },
    Stage.WAITING: {
        **_LIVE,
        Event.ANSWERED: Stage.RUNNING,
        Event.WITHDRAWN: Stage.RUNNING,
        **_ENDS,
        Event.WITHHELD: Stage.UNDER_REVIEW,
    },
    Stage.UNDER_REVIEW: {**_LIVE, Event.REVIEWED: Stage.STOPPED},
    Stage.ABANDONED: {
        **_LIVE,
        Event.APPROVED: Stage.STOPPING_START,
        Event.STOP_REQUESTED: NoTransition.IGNORED,
        Event.REJECTED: Stage.REJECTED,
        **_ENDS,
    },
    Stage.DRAINING: {
        **_OVER,
        Event.OUTPUT_COMPLETED: Stage.STOPPED,
        Event.SURVIVORS_ENDED: Stage.DRAINING,
    },
    Stage.STOPPED: {**_OVER, Event.SURVIVORS_ENDED: Stage.STOPPED},
    Stage.REJECTED: _OVER,
}
"""Legal events by stage; the events of stopping stages follow from these."""


def _pairs() -> Iterator[tuple[tuple[Stage, Event], Stage | NoTransition]]:
    for stage, row in _ROWS.items():
        stopping = _STOPPING.get(stage)
        for event in Event:
            following = row.get(event, NoTransition.ILLEGAL)
            if event is Event.STOP_REQUESTED and stopping is not None:
                yield (stage, event), stopping
                yield (stopping, event), NoTransition.IGNORED
                continue
            yield (stage, event), following
            if stopping is None:
                continue
            if event is Event.WITHHELD:
                # A stopped execution's result is not reviewed.
                following = NoTransition.ILLEGAL
            if isinstance(following, Stage):
                following = _STOPPING.get(following, following)
            yield (stopping, event), following


TABLE: Final[Mapping[tuple[Stage, Event], Stage | NoTransition]] = MappingProxyType(dict(_pairs()))
"""The next stage of every stage and event."""


def step(stage: Stage, event: Event) -> Stage | None:
    """Return the next stage, None for an ignored event; raises `IllegalTransition`."""
    following = TABLE[stage, event]
    if following is NoTransition.ILLEGAL:
        raise IllegalTransition(stage, event)
    return following if isinstance(following, Stage) else None
