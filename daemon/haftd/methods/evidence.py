"""Evidence that a program in timed waits wants input: an idle prompt or a periodic redraw.

Pure values; `conditions` feeds them with readings and their times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

READING_INTERVAL_S = 0.04
"""Interval of readings; a program that works half of the time is soon seen at work."""
MIN_PERIOD_MS = 500
"""Minimum period of a display; a faster redraw shows progress."""

_MIN_IDLE_S = 0.3
"""Minimum idle time of a program that wakes up repeatedly."""
_MAX_IDLE_S = 1.5
"""Idle time that suffices: a longer wait is one for input by itself (`runtimes/process/input_state`)."""
_KNOWN_IDLE_S = 0.03
"""Minimum idle time if earlier prompts had waits of this length."""
_KNOWN_MS = 50
"""Shorter waits are not learned: programs also poll while they work."""
_DRAWING_S = 0.1
"""Maximum time of a redraw; longer is work."""


@dataclass(slots=True)
class IdleEvidence:
    """Idle evidence of a program with short timed waits, without output since `since`.

    The program waits for input once every wait seen has ended without effect. A length seen may recur; a
    new length must end as well, as it may be the rest of a longer wait. Waits up to `known_poll_ms` ended
    without effect at earlier prompts.
    """

    since: float
    known_poll_ms: int
    until: float = 0.0
    """End of the last wait that has to end."""
    longest_ms: int = 0
    """The longest wait that has to end."""
    _idle_s: float = _KNOWN_IDLE_S
    _lengths_ms: list[int] = field(default_factory=list)

    def see(self, within_ms: int, now: float) -> bool:
        """Record a wait; return True for a new length."""
        if any(abs(within_ms - length) <= length / 10 + 5 for length in self._lengths_ms):
            return False
        self._lengths_ms.append(within_ms)
        if not _KNOWN_MS <= within_ms <= self.known_poll_ms * 1.1:
            self._idle_s = _MIN_IDLE_S
            self.longest_ms = max(self.longest_ms, within_ms)
            self.until = max(self.until, now + within_ms / 1000 + READING_INTERVAL_S)
        return True

    def doubt(self) -> None:
        """Require a longer idle time: the program was seen at work."""
        self._idle_s = _MIN_IDLE_S

    def enough_at(self) -> float:
        """Return the time at which the evidence suffices."""
        return min(max(self.until, self.since + self._idle_s), self.since + _MAX_IDLE_S)


@dataclass(slots=True)
class PeriodicRedraw:
    """Evidence of a periodic redraw: each wait for a key ends in output (`top -d 1`).

    Such a program is never idle. It waits for input after two returns to the same wait, with little
    drawing in between.
    """

    period_ms: int
    began: float
    _returns: int = 0
    _busy_since: float = inf

    def come_back(self, within_ms: int) -> bool:
        """Record a wait after output; return True if its length is the period."""
        if abs(within_ms - self.period_ms) > self.period_ms / 10:
            return False
        self._returns += 1
        self._busy_since = inf
        return True

    def rests(self) -> None:
        """Record a reading of the wait, without work."""
        self._busy_since = inf

    def draws(self, now: float) -> bool:
        """Record a reading of work; return True while that may be drawing."""
        self._busy_since = min(self._busy_since, now)
        return now - self._busy_since <= _DRAWING_S

    def is_display(self, now: float) -> bool:
        """Return True once the redraw has recurred for two periods."""
        return self._returns >= 2 and now - self.began >= 2 * self.period_ms / 1000
