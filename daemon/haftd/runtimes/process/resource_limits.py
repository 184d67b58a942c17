"""Limits of a handle, and the one that ended it.

`cpu_s`, `memory` and `processes` become rlimits of each process before exec; rlimits know no sum
over a handle and do not bind the superuser, so sums are polled as well. A process with status 0 has
passed no limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from haftd.host.launch.spawn import Exit
from haftd.host.process import rlimit_tag, usage

_TAIL = 4096
_SPENT = ("XCPU", 128 + 24)
_NO_MEMORY = re.compile(
    rb"MemoryError|[Oo]ut of memory|[Cc](?:annot|ould not|an't) allocate memory|bad_alloc"
    rb"|[Mm]emory exhausted|needs more memory than its limit|[Ee]rror allocating|[Mm]emory allocation (?:of \d+ bytes )?failed"
)
_NO_FUEL = re.compile(rb"the module has used up its fuel of ")
_NO_PROCESS = re.compile(
    rb"Resource temporarily unavailable|[Cc](?:annot|ould not|an't) (?:fork|start new thread)"
    rb"|fork: retry|BlockingIOError: \[Errno 11\]|EAGAIN"
)


class ResourceLimits:
    """Limits of one handle, over all its processes."""

    __slots__ = ("_limits", "_printed", "_tag", "_tail", "_used_s", "wall_left")

    def __init__(self, limits: Mapping[str, float]) -> None:
        self._limits = limits
        self._printed = 0
        self._tail = b""
        self._tag: int | None = None
        self._used_s = 0.0
        self.wall_left: float | None = limits.get("wall_s")
        """Remaining seconds of wall clock, None without a limit."""

    def count(self, data: bytes) -> tuple[bytes, bool]:
        """Count output; return the part within the limit, and True beyond it."""
        if not self._limits.keys().isdisjoint(("memory", "processes", "fuel")):
            self._tail = (self._tail + data)[-_TAIL:]
        most = self._limits.get("output")
        self._printed += len(data)
        if most is None or self._printed <= most:
            return data, False
        return data[: max(0, len(data) - (self._printed - int(most)))], True

    def spent(self, seconds: float) -> None:
        if self.wall_left is not None:
            self.wall_left = max(0.0, self.wall_left - seconds)

    def follow(self, mark: str) -> None:
        """Count the use of ended processes with this tag, until `unfollow`."""
        if mark and "cpu_s" in self._limits:
            self._tag = rlimit_tag.encode(mark)
            usage.ended[self._tag] = self._used_s

    def unfollow(self) -> None:
        if self._tag is not None:
            self._used_s = usage.ended.pop(self._tag, 0.0)
            self._tag = None

    @property
    def are_summed(self) -> bool:
        return not self._limits.keys().isdisjoint(("processes", "cpu_s", "memory"))

    def passed(self, pids: Sequence[int]) -> str | None:
        """Return the limit that all processes of the handle have passed together."""
        if len(pids) > self._limits.get("processes", math.inf):
            return "processes"
        if "cpu_s" in self._limits:
            used_s = usage.cpu_s(pids) + (usage.ended[self._tag] if self._tag else 0.0)
            if used_s > self._limits["cpu_s"]:
                return "cpu_s"
        if "memory" in self._limits:
            most = self._limits["memory"]
            if usage.memory(pids, most) > most:
                return "memory"
        return None

    def exceeded(self, exit: Exit) -> str | None:
        """Return the rlimit that ended a process, by its status and last output."""
        if exit.code == 0:
            return None
        if "cpu_s" in self._limits and (exit.signal in _SPENT or exit.code in _SPENT):
            return "cpu_s"
        if "memory" in self._limits and _NO_MEMORY.search(self._tail):
            return "memory"
        if "fuel" in self._limits and _NO_FUEL.search(self._tail):
            return "fuel"
        if "processes" in self._limits and _NO_PROCESS.search(self._tail):
            return "processes"
        return None
