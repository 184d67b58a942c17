"""Evidence that a process wants input despite a timeout: an idle prompt or a periodic redraw.

`within_ms` is the timeout of a wait in `poll` or the like; times are trio's.
"""

from __future__ import annotations

from math import inf

import msgspec

READING_INTERVAL_S = 0.04
"""Short enough to meet a program that works half of the time."""
MIN_PERIOD_MS = 500
"""Minimum period of a display that takes keys; faster redraws show progress."""

_MIN_IDLE_S = 0.3
"""Minimum time without output or work before a program with unlearned waits is idle."""
_MAX_IDLE_S = 1.5
"""Sufficient idle time: a longer wait is for input (`runtimes/process/control`)."""
_MIN_LEARNED_IDLE_S = 0.03
"""Minimum idle time if all waits were learned at earlier prompts."""
_MIN_LEARNED_MS = 50
"""Minimum learned wait: programs also poll while they work."""
_MAX_DRAWING_S = 0.1
"""Maximum duration of a redraw; more is work."""


class IdleEvidence(msgspec.Struct):
    """Idle evidence of a process with short timed waits, without output since `since`.

    The process waits for input once a wait of each recorded length has ended without output and
    work: a new length may be the rest of a longer wait, an equal one proves nothing new. Waits from
    `_MIN_LEARNED_MS` to `known_poll_ms` were learned at earlier prompts and need not end.
    """

    since: float
    known_poll_ms: int
    until: float = 0.0
    """Time at which all recorded waits have ended."""
    longest_ms: int = 0
    """Longest wait whose end must be observed for the caller to learn."""
    _idle_s: float = _MIN_LEARNED_IDLE_S
    _lengths_ms: list[int] = msgspec.field(default_factory=list)

    def record_wait(self, within_ms: int, now: float) -> bool:
        """Record a wait of at most `within_ms` from now; return True for a new length."""
        if any(abs(within_ms - length) <= length / 10 + 5 for length in self._lengths_ms):
            return False
        self._lengths_ms.append(within_ms)
        if not _MIN_LEARNED_MS <= within_ms <= self.known_poll_ms * 1.1:
            self._idle_s = _MIN_IDLE_S
            self.longest_ms = max(self.longest_ms, within_ms)
            self.until = max(self.until, now + within_ms / 1000 + READING_INTERVAL_S)
        return True

    def require_longer_idle(self) -> None:
        self._idle_s = _MIN_IDLE_S

    def enough_at(self) -> float:
        return min(max(self.until, self.since + self._idle_s), self.since + _MAX_IDLE_S)


class PeriodicRedraw(msgspec.Struct):
    """Evidence of a periodic redraw (`top -d 1`): each wait for a key ends in output.

    Such a process is never idle; it waits for input once it has returned twice to a wait of this
    period, after redraws only.
    """

    period_ms: int
    began: float
    _returns: int = 0
    _busy_since: float = inf

    def record_return(self, within_ms: int) -> bool:
        """Record a wait after output; return True if its length is the period."""
        if abs(within_ms - self.period_ms) > self.period_ms / 10:
            return False
        self._returns += 1
        self._busy_since = inf
        return True

    def record_rest(self) -> None:
        """Record a reading of the wait, which ends work."""
        self._busy_since = inf

    def record_work(self, now: float) -> bool:
        """Record a reading of work; return False if too long for a redraw."""
        self._busy_since = min(self._busy_since, now)
        return now - self._busy_since <= _MAX_DRAWING_S

    def is_display(self, now: float) -> bool:
        """True once the redraw has recurred for two periods."""
        return self._returns >= 2 and now - self.began >= 2 * self.period_ms / 1000
