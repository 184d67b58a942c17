"""Clock of the daemon's trio run: CLOCK_MONOTONIC itself.

trio's own clock adds an offset, in two Python functions for each reading, and the loop reads it
twice a pass.
"""

from __future__ import annotations

import time

import trio


class MonotonicClock(trio.abc.Clock):
    current_time = staticmethod(time.monotonic)

    def start_clock(self) -> None:
        """Do nothing: the kernel's clock runs."""

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - time.monotonic()
