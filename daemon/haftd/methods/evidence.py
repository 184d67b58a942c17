"""Heuristics for timed waits: an idle prompt or a periodic redraw.

Pure values fed with observations and their times. They inspect no program and decide nothing about
a call; `conditions` evaluates the readings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

BETWEEN_LOOKS_S = 0.04
"""Even interval of readings of a program that wakes up: half-time work is soon found."""
SHORTEST_PERIOD_MS = 500
"""A display with a shorter period is taken for progress."""

_STILL_S = 0.3
"""Minimum idle time of a program that wakes up repeatedly."""
_MAX_STILL_S = 1.5
"""Maximum idle time: a longer wait is one for input by itself (runtimes/process/input_state.py)."""
_KNOWN_STILL_S = 0.03
"""Idle time if waits of this length are known from earlier prompts."""
_KNOWN_MS = 50
"""Shorter waits are not learned: a program that works and polls the keyboard has them, too."""
_DRAWING_S = 0.1
"""A periodic redraw takes at most this; longer is work."""


@dataclass(slots=True)
class Stillness:
    """Idle evidence of a program with short timed waits. It counts as waiting for input when every
    seen wait has ended without effect. A length that has ended once may recur; another length has
    to end as well, as it may be the rest of a longer wait. Since `since` every reading saw a wait,
    without output. The effect of a wait is known at the program's next prompt: lengths up to
    `known_ms`."""

    since: float
    known_ms: int
    until: float = 0.0
    """The end of the last wait that has to end."""
    longest_ms: int = 0
    """The longest wait that has to end."""
    _still_s: float = _KNOWN_STILL_S
    _lengths_ms: list[int] = field(default_factory=list)

    def see(self, within_ms: int, now: float) -> bool:
        """Record a wait; return True for a new length."""
        if any(abs(within_ms - length) <= length / 10 + 5 for length in self._lengths_ms):
            return False
        self._lengths_ms.append(within_ms)
        if not _KNOWN_MS <= within_ms <= self.known_ms * 1.1:
            self._still_s = _STILL_S
            self.longest_ms = max(self.longest_ms, within_ms)
            self.until = max(self.until, now + within_ms / 1000 + BETWEEN_LOOKS_S)
        return True

    def doubt(self) -> None:
        """Forget known lengths: the program works beside."""
        self._still_s = _STILL_S

    def enough_at(self) -> float:
        """Return the time at which the evidence suffices."""
        return min(max(self.until, self.since + self._still_s), self.since + _MAX_STILL_S)


@dataclass(slots=True)
class Renewal:
    """Evidence of a periodic redraw: each wait for a key ends in output (`top -d 1`). Such a
    program is never idle, and counts as waiting for input after two returns to the same wait, with
    short drawing in between."""

    period_ms: int
    began: float
    _returns: int = 0
    _busy_since: float = inf

    def come_back(self, within_ms: int) -> bool:
        """Record a wait after output; return True for the same wait."""
        if abs(within_ms - self.period_ms) > self.period_ms / 10:
            return False
        self._returns += 1
        self._busy_since = inf
        return True

    def rests(self) -> None:
        """Record an undisturbed wait."""
        self._busy_since = inf

    def draws(self, now: float) -> bool:
        """Record work; return True while it may be drawing."""
        self._busy_since = min(self._busy_since, now)
        return now - self._busy_since <= _DRAWING_S

    def is_one(self, now: float) -> bool:
        """Return True for a display."""
        return self._returns >= 2 and now - self.began >= 2 * self.period_ms / 1000
