"""Processor time and memory of processes, by psutil: await `load_psutil`, a slow and rarely needed
import, first."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable

import msgspec
import trio


class ProcessMetrics(msgspec.Struct, frozen=True):
    cpu_s: float
    memory: int
    """Resident bytes."""
    descriptors: int
    threads: int


def is_psutil_loaded() -> bool:
    return "psutil" in sys.modules


async def load_psutil() -> None:
    if not is_psutil_loaded():
        await trio.to_thread.run_sync(importlib.import_module, "psutil")


def read_own_metrics() -> ProcessMetrics:
    """Return the metrics of this process."""
    import psutil

    process = psutil.Process()
    with process.oneshot():
        times = process.cpu_times()
        return ProcessMetrics(
            cpu_s=round(times.user + times.system, 2),
            memory=process.memory_info().rss,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
        )


def sum_usage(pids: Iterable[int]) -> tuple[float, int]:
    """Sum processor seconds and resident bytes; ended processes count 0."""
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
