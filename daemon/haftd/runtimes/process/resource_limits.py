"""Limits of a handle, and the limit that ended the handle.

Rlimits are of each process, and do not bind the superuser. A `LimitGroup` has the kernel count;
other sums are polled, rarely when far off. With status 0 no limit is passed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from haftd.host.launch.launched_process import Exit
from haftd.host.limit_group import LimitGroup
from haftd.host.process import rlimit_tag, usage
from haftd.lazy_pattern import lazy_pattern

_TAIL = 4096
FIRST_PAUSE_S = 0.02
"""Pause until the first poll, and after a growth."""
_LONGEST_PAUSE_S = (0.5, 4.0)
"""Longest pause between polls of a sum near a limit; and of a far one, or of sleeping processes."""
_MEMORY_RATE = 1 << 30
"""Approximate maximum of bytes a second that processes take: pages are cleared first."""
_SUMS = frozenset({"processes", "cpu_s", "memory"})
_NONE: frozenset[str] = frozenset()
_SPENT = ("XCPU", 128 + 24)
_NO_MEMORY = lazy_pattern(
    rb"MemoryError|[Oo]ut of memory|[Cc](?:annot|ould not|an't) allocate memory|bad_alloc"
    rb"|[Mm]emory exhausted|needs more memory than its limit|[Ee]rror allocating|[Mm]emory allocation (?:of \d+ bytes )?failed"
)
_NO_FUEL = lazy_pattern(rb"the module has used up its fuel of ")
_NO_PROCESS = lazy_pattern(
    rb"Resource temporarily unavailable|[Cc](?:annot|ould not|an't) (?:fork|start new thread)"
    rb"|fork: retry|BlockingIOError: \[Errno 11\]|EAGAIN"
)


class ResourceLimits:
    __slots__ = (
        "_is_growing",
        "_limits",
        "_looked",
        "_most_tasks",
        "_polled",
        "_printed",
        "_tag",
        "_tail",
        "_used_s",
        "group",
        "longest_pause_s",
        "wall_left",
    )

    def __init__(self, limits: Mapping[str, float]) -> None:
        self._limits = limits
        self._printed = 0
        self._tail = b""
        self._tag: int | None = None
        self._used_s = 0.0
        self._polled = frozenset(limits.keys() & _SUMS) if limits else _NONE
        self.group: LimitGroup | None = None
        self._looked: tuple[Sequence[int], float] = (), 0.0
        self._most_tasks = 1
        self._is_growing = False
        self.longest_pause_s = _LONGEST_PAUSE_S[0]
        """Longest pause until the next poll."""
        self.wall_left: float | None = limits.get("wall_s")
        """Remaining seconds of wall clock."""

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

    def follow(self, mark: str, group: LimitGroup | None = None) -> None:
        """Count ended processes' use by this tag until `unfollow`; `group` counts the rest."""
        self.group = group
        if group is not None:
            self._polled = self._polled - group.limits.keys()
        if mark and "cpu_s" in self._limits:
            self._tag = rlimit_tag.encode(mark)
            usage.ended[self._tag] = self._used_s

    def unfollow(self) -> None:
        if self._tag is not None:
            self._used_s = usage.ended.pop(self._tag, 0.0)
            self._tag = None

    @property
    def are_polled(self) -> bool:
        return bool(self._polled)

    @property
    def counts_processes(self) -> bool:
        """True if no group counts the processes for a limit."""
        return "processes" in self._polled

    def passed_count(self, pids: Sequence[int]) -> str | None:
        """Return `processes` if the handle has more than its limit, unless the kernel counts."""
        self._is_growing = False
        if not self.counts_processes:
            return None
        count = usage.count_threads(pids)
        self._is_growing, self._most_tasks = count > self._most_tasks, max(count, self._most_tasks)
        return "processes" if count > self._limits["processes"] else None

    @property
    def reads_may_wait(self) -> bool:
        """True if `passed_sum` reads files that wait for a lock of a process."""
        return not self._polled.isdisjoint(("cpu_s", "memory"))

    def passed_sum(self, pids: Sequence[int]) -> str | None:
        """Return the other limit passed by the processes together; set the pause until the next
        poll."""
        shortest, pause = _LONGEST_PAUSE_S
        before, self._looked = self._looked, (pids, usage.read_clocks_s(pids))
        if self.counts_processes and os.geteuid() == 0:
            pause = shortest  # no rlimit bounds the starts until the next poll
        if "cpu_s" in self._polled:
            ended_s = usage.ended.get(self._tag, 0.0) if self._tag else 0.0
            left_s = self._limits["cpu_s"] - usage.read_cpu_s(pids) - ended_s
            if left_s < 0:
                return "cpu_s"
            pause = min(pause, left_s / (os.cpu_count() or 1))
        if "memory" in self._polled:
            most = self._limits["memory"]
            used = usage.measure_memory(pids, most)
            if used > most:
                return "memory"
            pause = min(pause, (most - used) / _MEMORY_RATE)
        self.longest_pause_s = (
            _LONGEST_PAUSE_S[1] if before == self._looked else max(shortest, pause)
        )
        return None

    def next_pause_s(self, pause_s: float) -> float:
        """Return the pause until the next poll after one of `pause_s`.

        After the highest count so far it is short: forks that double are counted while they are
        few.
        """
        if self._is_growing:
            return FIRST_PAUSE_S
        return min(pause_s * 2, self.longest_pause_s)

    def exceeded(self, exit: Exit) -> str | None:
        """Return the rlimit that ended a process, by status and last output."""
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
