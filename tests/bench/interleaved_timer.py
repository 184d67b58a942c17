"""Interleaved timing in random order, so that machine load hits every case alike. Every case
runs in every round; the median of the ratios within rounds is reported. A server's CPU time
is read from the kernel, because wall time is less steady on a busy machine."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Case:
    """A timed case: `step` runs once, `after` clears up untimed. `rounds` holds the durations in
    seconds; `cpu` the CPU seconds of `pid`."""

    name: str
    step: Callable[[], object]
    pid: int | None = None
    per_round: int = 1
    after: Callable[[], object] | None = None
    rounds: list[list[float]] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def durations(self) -> list[float]:
        """All of them."""
        return [one for times in self.rounds for one in times]

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.durations)

    @property
    def p99(self) -> float:
        """Seconds."""
        return percentile(self.durations, 0.99)

    @property
    def cpu_per_step(self) -> float:
        """CPU seconds of `pid` per step."""
        return self.cpu / max(1, len(self.durations))

    def run(self) -> None:
        """Run one round."""
        step, clock = self.step, time.perf_counter
        times = []
        began = cpu_s(self.pid)
        for _ in range(self.per_round):
            at = clock()
            step()
            times.append(clock() - at)
            if self.after is not None:
                self.after()
        self.cpu += cpu_s(self.pid) - began
        self.rounds.append(times)


def interleave(cases: Sequence[Case], *, rounds: int, seconds: float) -> None:
    """Run every case in every round, at least three and at most so many rounds, for about so
    long; with no seconds, each step once a round."""
    for case in cases:
        if seconds == 0:
            case.per_round = 1
        case.step()
        if case.after is not None:
            case.after()
    end = time.monotonic() + seconds
    order = list(cases)
    for number in range(rounds):
        if number >= 3 and time.monotonic() > end:
            break
        random.shuffle(order)
        for case in order:
            case.run()


def ratio(case: Case, baseline: Case) -> float:
    """Return the median over rounds of the ratio to the baseline."""
    pairs = zip(case.rounds, baseline.rounds, strict=True)
    return statistics.median(
        statistics.median(times) / statistics.median(base) for times, base in pairs
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not pass."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def cpu_s(pid: int | None) -> float:
    """Return a process's CPU seconds, to the nanosecond; 0 where unknown."""
    if pid is None:
        return 0.0
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
