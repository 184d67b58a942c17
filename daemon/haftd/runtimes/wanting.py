"""What the kernel's word on who reads means for who wants to give input.

Rules:

- A wait without an end is a wait for input. So is one for nothing but the input that gives up
  after `_PATIENT_MS` or more: a question with a time limit, a display that is renewed now and
  then (vim, top).
- A shorter one is routine, and is passed on as such: the rest of an escape sequence, an event
  loop with a timer. Its end shows what comes of it.
- A long one for other things as well is not understood: who waits for a timer works, and
  listens to the keyboard all the same. Nor is one that passes on what is typed.
"""

from __future__ import annotations

from haftd.host.reads import Reading

from .base import Wanted

__all__ = ["wanted"]

_PATIENT_MS = 1500


def wanted(told: Reading) -> Wanted:
    """Translate it."""
    if told.state != "reads":
        certain = told.state == "busy" and told.certain
        return Wanted("busy" if certain else "unknown", told.kind)
    if told.relays:
        return Wanted("unknown", told.kind)
    if told.within_ms is None:
        return Wanted("reads", told.kind)
    if told.within_ms < _PATIENT_MS:
        return Wanted("reads", told.kind, told.within_ms)
    return Wanted("reads" if told.alone else "unknown", told.kind)
