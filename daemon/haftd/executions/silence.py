"""Silence of a program with an unknown input state.

Silence begins with the first unknown reading. The end is a known reading, or a process that has
begun or ended between two readings: a shell that runs one command after the other is never silent,
although both readings may find no foreground process. Output is the handle's matter.
"""

from __future__ import annotations

from math import inf

from haftd.runtimes.base import Wanted


class Silence:
    """The unknown readings of one program."""

    __slots__ = ("_processes", "since")

    def __init__(self) -> None:
        self.since = inf
        """The beginning, by the clock of `see`; infinite after a known reading."""
        self._processes: object = None

    def see(self, wanted: Wanted, now: float) -> None:
        """Record a reading."""
        if wanted.state != "unknown":
            self.since = inf
        elif self.since == inf or wanted.processes != self._processes:
            self.since = now
        self._processes = wanted.processes
