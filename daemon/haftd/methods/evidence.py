"""Heuristics for timed waits: an idle prompt or a periodic redraw.

Pure values, fed with observations and their times by `conditions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

BETWEEN_LOOKS_S = 0.04
"""Interval of readings, even: a program that works half the time is soon seen."""
SHORTEST_PERIOD_MS = 500
"""A display with a shorter period shows progress."""

_STILL_S = 0.3
"""Minimum idle time of a program that wakes up repeatedly."""
_MAX_STILL_S = 1.5
"""A longer wait is always one for input (runtimes/process/input_state.py)."""
_KNOWN_STILL_S = 0.03
"""Idle time if earlier prompts had waits of this length."""
_KNOWN_MS = 50
"""Shorter waits are not learned: programs also poll while they work."""
_DRAWING_S = 0.1
"""A longer redraw is work."""


@dataclass(slots=True)
class Stillness:
    """Idle evidence of a program with short timed waits, since `since`.

    The program waits for input once every seen wait has ended without effect. A length that has
    ended may recur; another must end too, as it may be the rest of a longer wait. Earlier prompts
    ended lengths up to `known_ms`.
    """

    since: float
    known_ms: int
    until: float = 0.0
    """End of the last wait to observe."""
    longest_ms: int = 0
    """Longest wait to observe."""
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
        """Forget known lengths: the program works."""
        self._still_s = _STILL_S

    def enough_at(self) -> float:
        """Time at which the evidence suffices."""
        return min(max(self.until, self.since + self._still_s), self.since + _MAX_STILL_S)


@dataclass(slots=True)
class Renewal:
    """Evidence of a periodic redraw: each wait for a key ends in output (`top -d 1`).

    Such a program is never idle; it waits for input after two returns to the same wait, with little
    drawing between.
    """

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
