"""Translate the kernel's wait state into an input state.

Rules:

- A wait without an end is a wait for input. So is one that lasts `_PATIENT_MS` or more: a question
  with a time limit, a display that is renewed now and then (vim, top), an event loop whose
  language clears its memory in a while (node).
- A shorter one is routine, and is passed on as such: the rest of an escape sequence, a pause in a
  program that listens to the keyboard all the while. Its end shows what comes of it.
- Of one that passes on what is typed, or waits for another's work as well, nobody can tell. Nor of
  an event loop that works beside, or that waits for a timer while the terminal reads by the line:
  the terminal may be in its set from an earlier question.
"""

from __future__ import annotations

from haftd.host.input_state.read_state import ReadState
from haftd.runtimes.base import Wanted

_PATIENT_MS = 1500


def wanted(told: ReadState) -> Wanted:
    """Return the input state that a wait state means."""
    unknown = Wanted("unknown", told.kind, processes=told.processes, is_settled=told.is_settled)
    if told.state != "reads":
        return Wanted("busy", told.kind) if told.state == "busy" and told.certain else unknown
    passes = told.within_ms is not None and told.within_ms < _PATIENT_MS
    lingers = told.within_ms is not None and not passes and told.kind != "key"
    if told.relays or (told.loops and (told.at_work or lingers)):
        return unknown
    if not passes:
        return Wanted("reads", told.kind)
    return Wanted("reads", told.kind, told.within_ms, told.at_work)
