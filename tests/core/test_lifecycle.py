from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haft_protocol.errors import spawn_failed
from haft_protocol.questions import Boolean, Question
from haft_protocol.states import EndedBy
from haftd.core.handles import Handle, HandleSettings
from haftd.core.lifecycle import (
    TABLE,
    Event,
    IllegalTransition,
    NoTransition,
    Stage,
    State,
    Stopping,
    step,
)
from haftd.core.termination import Termination
from tests.core.disks import make

QUESTION = Question(id="q", text="Go on?", answer_type=Boolean())
ENDING = Termination(by=EndedBy("exit"))
ABORT = EndedBy("abort", "vim")

EVENTS: dict[Event, Callable[[Handle], None]] = {
    Event.APPROVED: lambda handle: handle.approve(terminal=True),
    Event.STARTED: lambda handle: handle.start(2.0),
    Event.ASKED: lambda handle: handle.ask(QUESTION, 2.0),
    Event.ANSWERED: lambda handle: handle.answer(2.0),
    Event.WITHDRAWN: lambda handle: handle.withdraw(2.0),
    Event.STOP_REQUESTED: lambda handle: handle.request_stop(ABORT),
    Event.ABANDONED: lambda handle: handle.abandon(ABORT),
    Event.REJECTED: lambda handle: handle.reject(spawn_failed("no", reason="program"), 2.0),
    Event.EXITED: lambda handle: handle.end(ENDING, 2.0, complete=False),
    Event.ENDED: lambda handle: handle.end(ENDING, 2.0),
    Event.WITHHELD: lambda handle: handle.withhold(ENDING, 2.0),
    Event.REVIEWED: lambda handle: handle.release(ENDING, 2.0, review="allowed"),
    Event.OUTPUT_COMPLETED: lambda handle: handle.complete_output(2.0),
    Event.SURVIVORS_ENDED: lambda handle: handle.end_survivors(),
}

WAYS: dict[Stage, tuple[Event, ...]] = {
    Stage.AWAITING_APPROVAL: (),
    Stage.STARTING: (Event.APPROVED,),
    Stage.RUNNING: (Event.APPROVED, Event.STARTED),
    Stage.WAITING: (Event.APPROVED, Event.STARTED, Event.ASKED),
    Stage.UNDER_REVIEW: (Event.APPROVED, Event.STARTED, Event.WITHHELD),
    Stage.ABANDONED: (Event.ABANDONED,),
    Stage.STOPPING_UNAPPROVED: (Event.STOP_REQUESTED,),
    Stage.STOPPING_START: (Event.APPROVED, Event.STOP_REQUESTED),
    Stage.STOPPING: (Event.APPROVED, Event.STARTED, Event.STOP_REQUESTED),
    Stage.STOPPING_WAITING: (Event.APPROVED, Event.STARTED, Event.ASKED, Event.STOP_REQUESTED),
    Stage.STOPPING_REVIEW: (Event.APPROVED, Event.STARTED, Event.WITHHELD, Event.STOP_REQUESTED),
    Stage.DRAINING: (Event.APPROVED, Event.EXITED),
    Stage.STOPPED: (Event.ENDED,),
    Stage.REJECTED: (Event.REJECTED,),
}
"""Events that lead a handle to each stage."""

WIRE = {
    Stage.AWAITING_APPROVAL: State.PENDING,
    Stage.STARTING: State.PENDING,
    Stage.RUNNING: State.RUNNING,
    Stage.WAITING: State.WAITING,
    Stage.UNDER_REVIEW: State.RUNNING,
    Stage.ABANDONED: State.PENDING,
    Stage.STOPPING_UNAPPROVED: State.PENDING,
    Stage.STOPPING_START: State.PENDING,
    Stage.STOPPING: State.RUNNING,
    Stage.STOPPING_WAITING: State.WAITING,
    Stage.STOPPING_REVIEW: State.RUNNING,
    Stage.DRAINING: State.STOPPED,
    Stage.STOPPED: State.STOPPED,
    Stage.REJECTED: State.STOPPED,
}
"""The state on the wire that a handle in each stage has."""


IGNORED, ENDS = "-", {"exited": "draining", "ended": "stopped"}

EXPECTED: dict[str, dict[str, str]] = {
    "awaiting approval": {
        "approved": "starting",
        "stop requested": "stopping before approval",
        "abandoned": "abandoned before approval",
        "rejected": "rejected",
        "output completed": IGNORED,
        **ENDS,
    },
    "starting": {
        "started": "running",
        "stop requested": "stopping while it starts",
        "abandoned": IGNORED,
        "rejected": "rejected",
        "withheld": "under review",
        "output completed": IGNORED,
        **ENDS,
    },
    "running": {
        "asked": "waiting for an answer",
        "stop requested": "stopping",
        "abandoned": IGNORED,
        "withheld": "under review",
        "output completed": IGNORED,
        **ENDS,
    },
    "waiting for an answer": {
        "answered": "running",
        "withdrawn": "running",
        "stop requested": "stopping while it waits for an answer",
        "abandoned": IGNORED,
        "withheld": "under review",
        "output completed": IGNORED,
        **ENDS,
    },
    "under review": {
        "stop requested": "stopping under review",
        "abandoned": IGNORED,
        "reviewed": "stopped",
        "output completed": IGNORED,
    },
    "abandoned before approval": {
        "approved": "stopping while it starts",
        "stop requested": IGNORED,
        "abandoned": IGNORED,
        "rejected": "rejected",
        "output completed": IGNORED,
        **ENDS,
    },
    "stopping before approval": {
        "approved": "stopping while it starts",
        "stop requested": IGNORED,
        "abandoned": "abandoned before approval",
        "rejected": "rejected",
        "output completed": IGNORED,
        **ENDS,
    },
    "stopping while it starts": {
        "started": "stopping",
        "stop requested": IGNORED,
        "abandoned": IGNORED,
        "rejected": "rejected",
        "output completed": IGNORED,
        **ENDS,
    },
    "stopping": {
        "asked": "stopping while it waits for an answer",
        "stop requested": IGNORED,
        "abandoned": IGNORED,
        "output completed": IGNORED,
        **ENDS,
    },
    "stopping while it waits for an answer": {
        "answered": "stopping",
        "withdrawn": "stopping",
        "stop requested": IGNORED,
        "abandoned": IGNORED,
        "output completed": IGNORED,
        **ENDS,
    },
    "stopping under review": {
        "stop requested": IGNORED,
        "abandoned": IGNORED,
        "reviewed": "stopped",
        "output completed": IGNORED,
    },
    "draining": {
        "stop requested": IGNORED,
        "abandoned": IGNORED,
        "output completed": "stopped",
        "survivors ended": "draining",
    },
    "stopped": {
        "stop requested": IGNORED,
        "abandoned": IGNORED,
        "output completed": IGNORED,
        "survivors ended": "stopped",
    },
    "rejected": {"stop requested": IGNORED, "abandoned": IGNORED, "output completed": IGNORED},
}
"""The legal events of each stage, with the stage that follows."""


def handle_in(stage: Stage) -> Handle:
    handle = Handle(
        id="h",
        tool="run",
        session="s",
        generation=1,
        spool=make(),
        now=1.0,
        needs_approval=True,
        settings=HandleSettings(is_reviewed=True),
    )
    for event in WAYS[stage]:
        EVENTS[event](handle)
    return handle


def test_the_table_has_every_pair_and_cannot_be_changed() -> None:
    assert set(TABLE) == set(itertools.product(Stage, Event)) and set(EVENTS) == set(Event)
    assert not hasattr(TABLE, "__setitem__")


@pytest.mark.parametrize(("stage", "event"), list(itertools.product(Stage, Event)))
def test_every_pair_is_a_step_of_the_lifecycle_or_none(stage: Stage, event: Event) -> None:
    expected: Stage | NoTransition = NoTransition.ILLEGAL
    if (name := EXPECTED[stage].get(event)) is not None:
        expected = NoTransition.IGNORED if name == IGNORED else Stage(name)
    assert TABLE[stage, event] is expected


@pytest.mark.parametrize("stage", Stage)
def test_a_handle_in_each_stage_has_the_state_of_the_wire(stage: Stage) -> None:
    handle = handle_in(stage)
    assert handle.lifecycle.stage is stage
    assert handle.state is WIRE[stage]
    assert handle.stopped == (WIRE[stage] is State.STOPPED) == (handle.termination is not None)
    assert (handle.question is None) == (handle.state is not State.WAITING)


@pytest.mark.parametrize(("stage", "event"), list(itertools.product(Stage, Event)))
def test_every_event_in_every_stage_follows_the_table(stage: Stage, event: Event) -> None:
    handle = handle_in(stage)
    calls: list[Stage] = []
    handle.listen(lambda: calls.append(handle.lifecycle.stage))
    before = {slot: getattr(handle, slot) for slot in Handle.__slots__}
    following = TABLE[stage, event]
    if following is NoTransition.ILLEGAL:
        with pytest.raises(IllegalTransition, match=f"{stage} cannot be {event}"):
            EVENTS[event](handle)
    else:
        EVENTS[event](handle)
    if isinstance(following, Stage):
        assert handle.lifecycle.stage is following
        assert set(calls) <= {following}
    else:
        assert {slot: getattr(handle, slot) for slot in Handle.__slots__} == before
        assert calls == []


@settings(deadline=None)
@given(st.lists(st.sampled_from(list(Event))))
def test_any_order_of_events_ends_in_a_known_stage_and_an_end_is_final(events: list[Event]) -> None:
    stage, has_ended = Stage.AWAITING_APPROVAL, False
    for event in events:
        try:
            following = step(stage, event)
        except IllegalTransition as illegal:
            assert (illegal.stage, illegal.event) == (stage, event)
            continue
        if following is not None:
            stage = following
        assert not has_ended or WIRE[stage] is State.STOPPED
        has_ended = WIRE[stage] is State.STOPPED


@pytest.mark.parametrize("stage", Stage)
def test_every_live_stage_has_a_way_to_an_end(stage: Stage) -> None:
    ends = {Event.REJECTED, Event.ENDED, Event.REVIEWED}
    has_end = any(isinstance(TABLE[stage, event], Stage) for event in ends)
    assert has_end == (WIRE[stage] is not State.STOPPED)


def test_the_first_request_to_stop_is_the_cause_of_the_end() -> None:
    handle = handle_in(Stage.RUNNING)
    handle.request_stop(ABORT)
    handle.request_stop(EndedBy("shutdown"))
    handle.ask(QUESTION, 3.0)
    assert handle.stop_requested_by == ABORT and handle.question == QUESTION
    handle.answer(4.0)
    assert isinstance(handle.lifecycle, Stopping) and handle.lifecycle.by == ABORT


def test_an_ended_and_then_abandoned_start_has_the_first_cause() -> None:
    handle = handle_in(Stage.STOPPING_UNAPPROVED)
    handle.abandon(EndedBy("shutdown"))
    assert handle.lifecycle.stage is Stage.ABANDONED and handle.stop_requested_by == ABORT
