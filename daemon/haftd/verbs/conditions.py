"""Why a waiting call may answer now: the conditions of `wait`, each a synchronous question.

Rules: a condition looks at the handle and says why, or None. It is asked when the call arrives,
whenever the handle changes, and at the time that it names itself. Section 4 of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import trio

from haft_protocol.methods import Wait
from haft_protocol.states import Waited
from haftd.core.handles import Handle
from haftd.core.lifecycle import State
from haftd.runtimes.base import Wanted
from haftd.uses.use import Use

__all__ = ["Condition", "Reading", "condition_of"]

_PRINTED_S = 0.00015
"""For so long nothing was printed before the kernel is asked: a prompt comes in pieces."""
_FEW_PIECES = 8
_MANY_PRINTED_S = 0.001
"""And for so long where more pieces came close together than a prompt has: no prompt is there yet."""
_LONGEST_PAUSE_S = 0.25
_STILL_S = 0.3
"""For so long at least a program that wakes up again and again has to be still."""
_LONGEST_STILL_S = 1.5
"""And for so long at most: a longer wait is one for input by itself (runtimes/wanting.py)."""
_KNOWN_STILL_S = 0.03
"""And for so long where it is known from earlier prompts that nothing comes of such waits."""
_KNOWN_MS = 50
"""Shorter ones are not known again: who works and looks at the keyboard in between has such, too."""
_BETWEEN_LOOKS_S = 0.04
"""Meanwhile it is looked at evenly: one that works half of the time is soon found at work."""
_SHORTEST_PERIOD_MS = 500
"""A display that is renewed more often than this is taken for one of progress."""
_DRAWING_S = 0.1
"""A display that is renewed is drawn within this; what takes longer is work."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a call waits for, and for how long; found out before the call does anything."""

    wait: Wait
    timeout_s: float
    quiet_s: float
    pattern: str
    announced: bool
    """Whether the caller asked for a wait, so that the reply says how it ended."""


@dataclass(slots=True)
class Condition:
    """Why the call may answer now, or None; and when to look although nothing happens."""

    handle: Handle
    reading: Reading
    since: int
    """From where on output is new."""

    def check(self) -> Waited | None:
        handle, reading = self.handle, self.reading
        stopped = handle.stopped
        match reading.wait:
            case "none":
                return "stopped" if stopped and reading.announced else None
            case "output" if handle.readable_end() > self.since:
                return "output"
            case "output" if handle.state is State.WAITING:
                return "input"  # nothing more will come before its question is answered
            case "quiet" if not stopped and self.is_quiet():
                return "quiet"
            case _:
                return "stopped" if stopped else None

    def is_quiet(self) -> bool:
        return trio.current_time() >= self.quiet_at()

    def quiet_at(self) -> float:
        return self.handle.last_activity + self.reading.quiet_s

    def look_again(self) -> float:
        return self.quiet_at() if self.reading.wait == "quiet" else inf

    def found(self) -> Wanted | None:
        """What the program was found to wait for, if the call may answer for that and nothing has
        happened since."""
        return None


@dataclass(slots=True)
class _Evidence:
    """Of a program whose waits soon end by themselves: how long it has done nothing else.

    It is believed to wait for input when the end of each wait has come and nothing came of it. What
    has ended once may come again; a wait of another length has to end as well, as it may be what
    is left of a longer one. From `since` on each look saw it wait and nothing was printed. What
    came of the end of a wait is known at the program's next prompt, of what is left of it as well."""

    since: float
    known_ms: int
    until: float = 0.0
    still_s: float = _KNOWN_STILL_S
    longest_ms: int = 0
    """Of those whose end has to come."""
    lengths_ms: list[int] = field(default_factory=list)

    def see(self, within_ms: int, now: float) -> bool:
        """Take note of a wait that was seen; say whether none of such a length was."""
        if any(abs(within_ms - known) <= known / 10 + 5 for known in self.lengths_ms):
            return False
        self.lengths_ms.append(within_ms)
        if not _KNOWN_MS <= within_ms <= self.known_ms * 1.1:
            self.still_s = _STILL_S
            self.longest_ms = max(self.longest_ms, within_ms)
            self.until = max(self.until, now + within_ms / 1000 + _BETWEEN_LOOKS_S)
        return True

    def enough_at(self) -> float:
        return min(max(self.until, self.since + self.still_s), self.since + _LONGEST_STILL_S)

    def teach(self, use: Use) -> None:
        """All the waits have ended, and nothing came of it."""
        use.routine_ms = max(use.routine_ms, self.longest_ms)


@dataclass(slots=True)
class _Renewal:
    """Of a program whose waits for a key end in output, each time anew: a display (`top -d 1`).

    It is never still, and is believed to wait for input once it came back to the very same wait twice,
    and has drawn in a moment in between."""

    period_ms: int
    began: float
    returns: int = 0
    busy_since: float = inf

    def come_back(self, within_ms: int) -> bool:
        """Take note of a wait after output; say whether it is the same one."""
        if abs(within_ms - self.period_ms) > self.period_ms / 10:
            return False
        self.returns += 1
        return True

    def is_one(self, now: float) -> bool:
        return self.returns >= 2 and now - self.began >= 2 * self.period_ms / 1000


@dataclass(slots=True)
class _InputCondition(Condition):
    """The program waits for input. Asked of the kernel once its output has settled, and again in
    doubling pauses for as long as the call waits; where the kernel cannot tell, quiet decides."""

    use: Use | None
    _pause: float = _PRINTED_S
    _due: float = 0.0
    _activity: float = -1.0
    _pieces: int = 0
    _evidence: _Evidence | None = None
    _renewal: _Renewal | None = None
    _found: Wanted | None = None

    def check(self) -> Waited | None:
        if self.handle.stopped or self.use is None:
            return "stopped"
        if self.handle.state is State.WAITING:
            return "input"
        now = trio.current_time()
        self._found = None
        if self._activity != self.handle.last_activity:
            is_dense = self.handle.last_activity - self._activity < _MANY_PRINTED_S
            self._pieces = self._pieces + 1 if is_dense else 0
            self._activity = self.handle.last_activity
            self._evidence = None
            self._pause = _PRINTED_S if self._pieces <= _FEW_PIECES else _MANY_PRINTED_S
            self._due = self._activity + self._pause
        if now < self._due or self.handle.state is not State.RUNNING:
            return None
        wanted = self.use.wanted()
        if wanted.state == "reads":
            self._found = wanted
            return self._believe(wanted, now)
        self._evidence = None
        self._doubt_renewal(now)
        if wanted.state == "unknown" and self.is_quiet():
            return "quiet"
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S)
        self._due = now + self._pause
        if wanted.state == "unknown":
            self._due = min(self._due, self.quiet_at())
        return None

    def _believe(self, wanted: Wanted, now: float) -> Waited | None:
        """Whether a wait that may end by itself is one for input."""
        within_ms = wanted.within_ms
        if self.use is None:
            raise AssertionError("who is asked whether it reads is in use")
        if within_ms is None:
            if self._evidence is not None:
                self._evidence.teach(self.use)
            return "input"
        if self._evidence is None:
            # Who has said nothing to what it was given may be about to end.
            has_answered = self.handle.readable_end() > self.since
            self._evidence = _Evidence(now, self.use.routine_ms if has_answered else 0)
            if self._is_renewed(wanted, within_ms, now):
                return "input"
        is_new = self._evidence.see(within_ms, now)
        if wanted.at_work:
            self._evidence.still_s = _STILL_S
        enough_at = self._evidence.enough_at()
        if now >= enough_at:
            if now >= self._evidence.until:
                self._evidence.teach(self.use)
            return "input"
        # What comes of a wait of a new length is seen at its end: often one that does not end (node).
        pause = min(_BETWEEN_LOOKS_S, within_ms / 1000 + _PRINTED_S) if is_new else _BETWEEN_LOOKS_S
        self._due = min(now + pause, enough_at)
        return None

    def _is_renewed(self, wanted: Wanted, within_ms: int, now: float) -> bool:
        """Whether this wait, the first since the last output, is that of a display."""
        renewal = self._renewal
        if wanted.kind != "key" or within_ms < _SHORTEST_PERIOD_MS:
            self._renewal = None
        elif renewal is None or not renewal.come_back(within_ms):
            self._renewal = _Renewal(within_ms, now)
        else:
            renewal.busy_since = inf
            return renewal.is_one(now)
        return False

    def _doubt_renewal(self, now: float) -> None:
        """Take note that the program was seen at something else."""
        if self._renewal is not None:
            self._renewal.busy_since = min(self._renewal.busy_since, now)
            if now - self._renewal.busy_since > _DRAWING_S:
                self._renewal = None

    def found(self) -> Wanted | None:
        return self._found if self._activity == self.handle.last_activity else None

    def look_again(self) -> float:
        return self._due if self.handle.state is State.RUNNING else inf


def condition_of(handle: Handle, use: Use | None, reading: Reading, since: int) -> Condition:
    """The condition of a reading that waits for anything but a pattern."""
    if reading.wait == "input":
        return _InputCondition(handle, reading, since, use)
    return Condition(handle, reading, since)
