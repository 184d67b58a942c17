"""Since when a program that nobody can look into has done nothing that could be seen.

Rules: silence counts from the first look that could not tell. A look that could tell ends it, and so
does a process that has begun or ended between two looks: a shell that runs one command after the
other is silent at none of them, although nobody is in the foreground between two. What the program
prints is the handle's affair.
"""

from __future__ import annotations

from math import inf

from haftd.runtimes.base import Wanted


class Silence:
    """The looks at one program, as far as they could not tell."""

    __slots__ = ("_processes", "since")

    def __init__(self) -> None:
        self.since = inf
        """When it began, by the clock of `see`; infinite while the last look could tell."""
        self._processes: object = None

    def see(self, wanted: Wanted, now: float) -> None:
        """Take note of a look."""
        if wanted.state != "unknown":
            self.since = inf
        elif self.since == inf or wanted.processes != self._processes:
            self.since = now
        self._processes = wanted.processes
