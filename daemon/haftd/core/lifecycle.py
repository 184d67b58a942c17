"""The lifecycle of a handle: states, events, one table.

Rules: nothing else in the house decides what may follow what; an event that the table does not
know raises and changes nothing; `stopped` is terminal. Section 3 of the protocol.
"""

from __future__ import annotations

from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

__all__ = ["TABLE", "Event", "IllegalTransition", "State", "step"]


@unique
class State(StrEnum):
    """Where a handle is."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPED = "stopped"


@unique
class Event(StrEnum):
    """What happened to it."""

    STARTED = "started"
    ASKED = "asked"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    ENDED = "ended"


class IllegalTransition(Exception):
    """The event cannot happen in this state; the state is as it was."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"a handle that is {state} cannot be {event}")
        self.state = state
        self.event = event


TABLE: Final = MappingProxyType(
    {
        (State.PENDING, Event.STARTED): State.RUNNING,
        (State.PENDING, Event.ENDED): State.STOPPED,
        (State.RUNNING, Event.ASKED): State.WAITING,
        (State.RUNNING, Event.ENDED): State.STOPPED,
        (State.WAITING, Event.ANSWERED): State.RUNNING,
        (State.WAITING, Event.WITHDRAWN): State.RUNNING,
        (State.WAITING, Event.ENDED): State.STOPPED,
    }
)
"""Every legal transition; a pair that is not here is illegal."""


def step(state: State, event: Event) -> State:
    """Return the state that follows; raises `IllegalTransition`."""
    following = TABLE.get((state, event))
    if following is None:
        raise IllegalTransition(state, event)
    return following
