"""What processes use, by psutil.

Rules: psutil is loaded when figures are first asked for, in a thread: it takes as long as a tenth of the
daemon's start, and most daemons are never asked. Whoever wants figures awaits `open_figures` first.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import trio

__all__ = ["Figures", "figures_are_open", "of_all", "of_this", "open_figures"]


@dataclass(frozen=True, slots=True)
class Figures:
    """One process: processor seconds, resident bytes, what it holds."""

    cpu_s: float
    memory: int
    descriptors: int
    threads: int


def figures_are_open() -> bool:
    """Whether there is nothing to wait for."""
    return "psutil" in sys.modules


async def open_figures() -> None:
    """Return when figures can be asked for."""
    if not figures_are_open():
        await trio.to_thread.run_sync(importlib.import_module, "psutil")


def of_this() -> Figures:
    """Of this process itself."""
    import psutil

    process = psutil.Process()
    with process.oneshot():
        times = process.cpu_times()
        return Figures(
            cpu_s=round(times.user + times.system, 2),
            memory=process.memory_info().rss,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
        )


def of_all(pids: Iterable[int]) -> tuple[float, int]:
    """Processor seconds and resident bytes of the processes; those that just ended count 0."""
    import psutil

    cpu_s, memory = 0.0, 0
    for pid in pids:
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                times = process.cpu_times()
                cpu_s += times.user + times.system
                memory += process.memory_info().rss
        except psutil.Error:
            continue
    return round(cpu_s, 2), memory
