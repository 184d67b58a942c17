"""Input states from the kernel's wait states."""

from __future__ import annotations

from haftd.host.input_state.read_state import ReadState
from haftd.runtimes.base import Wanted

_PATIENT_MS = 1500


def translate(wait: ReadState) -> Wanted:
    """Return the input state of a wait state.

    A wait without timeout, or of `_PATIENT_MS` or more, is for input: a question with a time limit,
    a redraw (vim, top), a garbage collection (node). A shorter wait is routine: the rest of an
    escape, a poll of the keyboard. Unknown are relays of input, and event loops that work beside,
    or have a timer while the terminal is canonical: it may be in the loop's set from an earlier
    question.
    """
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
