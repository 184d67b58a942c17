"""What speaks for a wait that ends by itself being one for input: it came to nothing, or it is a display's.

Rules: values that are told what was seen, and when. They look at no program, know no clock, and decide
nothing about a call: what a look finds is asked in `conditions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

BETWEEN_LOOKS_S = 0.04
"""A program that wakes up is looked at evenly: one that works half of the time is soon found at work."""
SHORTEST_PERIOD_MS = 500
"""A display that is renewed more often than this is taken for one of progress."""

_STILL_S = 0.3
"""For so long at least a program that wakes up again and again has to be still."""
_MAX_STILL_S = 1.5
"""And for so long at most: a longer wait is one for input by itself (runtimes/process/input_wanted.py)."""
_KNOWN_STILL_S = 0.03
"""And for so long where it is known from earlier prompts that nothing comes of such waits."""
_KNOWN_MS = 50
"""Shorter ones are not known again: who works and looks at the keyboard in between has such, too."""
_DRAWING_S = 0.1
"""A display that is renewed is drawn within this; what takes longer is work."""


@dataclass(slots=True)
class Stillness:
    """Of a program whose waits soon end by themselves: how long it has done nothing else.

    It is believed to wait for input when the end of each wait has come and nothing came of it. What
    has ended once may come again; a wait of another length has to end as well, as it may be what
    is left of a longer one. From `since` on each look saw it wait and nothing was printed. What
    came of the end of a wait is known at the program's next prompt, of what is left of it as well:
    waits of up to `known_ms`."""

    since: float
    known_ms: int
    until: float = 0.0
    """When the last of those that have to end has ended."""
    longest_ms: int = 0
    """Of those whose end has to come."""
    _still_s: float = _KNOWN_STILL_S
    _lengths_ms: list[int] = field(default_factory=list)

    def see(self, within_ms: int, now: float) -> bool:
        """Take note of a wait that was seen; say whether none of such a length was."""
        if any(abs(within_ms - known) <= known / 10 + 5 for known in self._lengths_ms):
            return False
        self._lengths_ms.append(within_ms)
        if not _KNOWN_MS <= within_ms <= self.known_ms * 1.1:
            self._still_s = _STILL_S
            self.longest_ms = max(self.longest_ms, within_ms)
            self.until = max(self.until, now + within_ms / 1000 + BETWEEN_LOOKS_S)
        return True

    def doubt(self) -> None:
        """It works beside: that nothing came of such waits before says nothing."""
        self._still_s = _STILL_S

    def enough_at(self) -> float:
        """From when on it is believed, if nothing else is seen."""
        return min(max(self.until, self.since + self._still_s), self.since + _MAX_STILL_S)


@dataclass(slots=True)
class Renewal:
    """Of a program whose waits for a key end in output, each time anew: a display (`top -d 1`).

    It is never still, and is believed to wait for input once it came back to the very same wait twice,
    and has drawn in a moment in between."""

    period_ms: int
    began: float
    _returns: int = 0
    _busy_since: float = inf

    def come_back(self, within_ms: int) -> bool:
        """Take note of a wait after output; say whether it is the same one."""
        if abs(within_ms - self.period_ms) > self.period_ms / 10:
            return False
        self._returns += 1
        self._busy_since = inf
        return True

    def rests(self) -> None:
        """Take note that it waits, and does nothing beside."""
        self._busy_since = inf

    def draws(self, now: float) -> bool:
        """Take note that it does not wait, or works beside; say whether it may still be drawing."""
        self._busy_since = min(self._busy_since, now)
        return now - self._busy_since <= _DRAWING_S

    def is_one(self, now: float) -> bool:
        """Whether it is a display."""
        return self._returns >= 2 and now - self.began >= 2 * self.period_ms / 1000
