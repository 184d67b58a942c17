"""The lifecycle: whatever happens in whatever order, only the table's steps are taken."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haftd.core.lifecycle import TABLE, Event, IllegalTransition, State, step

LEGAL = {
    ("pending", "started"): "running",
    ("pending", "ended"): "stopped",
    ("running", "asked"): "waiting",
    ("running", "ended"): "stopped",
    ("waiting", "answered"): "running",
    ("waiting", "withdrawn"): "running",
    ("waiting", "ended"): "stopped",
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_pair_is_a_step_of_the_protocol_or_raises(state: State, event: Event) -> None:
    expected = LEGAL.get((state.value, event.value))
    if expected is None:
        with pytest.raises(IllegalTransition, match=f"{state} cannot be {event}"):
            step(state, event)
    else:
        assert step(state, event) == expected


@settings(deadline=None)
@given(st.lists(st.sampled_from(list(Event))))
def test_any_order_of_events_ends_in_a_known_state_and_stopped_is_terminal(
    events: list[Event],
) -> None:
    state = State.PENDING
    for event in events:
        try:
            following = step(state, event)
        except IllegalTransition as illegal:
            assert (illegal.state, illegal.event) == (state, event)
            continue
        assert state is not State.STOPPED
        state = following
    assert (state is State.STOPPED) == (Event.ENDED in events)


def test_every_state_can_be_reached_and_the_table_cannot_be_changed() -> None:
    assert set(TABLE.values()) | {State.PENDING} == set(State)
    assert not hasattr(TABLE, "__setitem__")
