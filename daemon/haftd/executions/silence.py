"""Silence of a process with an unknown input state.

A process that begins or ends between readings ends the silence.
"""

from __future__ import annotations

from math import inf

from haftd.runtimes.base import Wanted


class Silence:
    __slots__ = ("_processes", "since")

    def __init__(self) -> None:
        self.since = inf
        """Beginning by `record`'s clock; infinite after a known reading."""
        self._processes: object = None

    def record(self, wanted: Wanted, now: float) -> None:
        if wanted.state != "unknown":
            self.since = inf
        elif self.since == inf or wanted.processes != self._processes:
            self.since = now
        self._processes = wanted.processes
