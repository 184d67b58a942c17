"""The lifecycle of a handle: states, events, one table.

Rules: no other module decides which state follows; an event that the table lacks raises and changes nothing;
`stopped` is terminal. Section 3 of the protocol.
"""

from __future__ import annotations

from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

__all__ = ["TABLE", "Event", "IllegalTransition", "State", "step"]


@unique
class State(StrEnum):
    """State of a handle, as on the wire."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    STOPPED = "stopped"


@unique
class Event(StrEnum):
    """Event in the life of a handle."""

    STARTED = "started"
    ASKED = "asked"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"
    ENDED = "ended"


class IllegalTransition(Exception):
    """Raised for an event that is illegal in this state; the state is unchanged."""

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
"""Every legal transition; a missing pair is illegal."""


def step(state: State, event: Event) -> State:
    """Return the next state; raises `IllegalTransition`."""
    following = TABLE.get((state, event))
    if following is None:
        raise IllegalTransition(state, event)
    return following
