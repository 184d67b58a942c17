"""Translate the kernel's wait state into an input state.

Rules:

- A wait without timeout is a wait for input. So is one of `_PATIENT_MS` or more: a question with a
time limit, a display with a periodic redraw (vim, top), an event loop whose runtime collects
garbage now and then (node).
- A shorter wait is routine, and is reported as such: the rest of an escape sequence, a pause of a
program that polls the keyboard. Its end is the evidence.
- Unknown are programs that relay input or wait for another's work as well; also an event loop that
works beside, or waits for a timer while the terminal is canonical: the terminal may be in the
loop's set from an earlier question.
"""

from __future__ import annotations

from haftd.host.input_state.read_state import ReadState
from haftd.runtimes.base import Wanted

_PATIENT_MS = 1500


def translate(wait: ReadState) -> Wanted:
    """Return the input state of a wait state."""
    unknown = Wanted("unknown", wait.kind, processes=wait.processes, is_settled=wait.is_settled)
    if wait.state != "reads":
        return Wanted("busy", wait.kind) if wait.state == "busy" and wait.certain else unknown
    passes = wait.within_ms is not None and wait.within_ms < _PATIENT_MS
    lingers = wait.within_ms is not None and not passes and wait.kind != "key"
    if wait.relays or (wait.loops and (wait.at_work or lingers)):
        return unknown
    if not passes:
        return Wanted("reads", wait.kind)
    return Wanted("reads", wait.kind, wait.within_ms, wait.at_work)
