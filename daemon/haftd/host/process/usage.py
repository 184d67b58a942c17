"""Processor time and memory of processes, from /proc.

An ended process's time is added up by rlimit tag. Memory is private and shared data; shared pages
count for each process, unless the sum exceeds the bound, as their exact count is slow.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

_PROCESS_CLOCK = 2
"""The kernel's CPUCLOCK_SCHED, of a whole process: see clock_getcpuclockid(3)."""
_TICKS = os.sysconf("SC_CLK_TCK")
_QUICK = (b"RssAnon:", b"RssShmem:")
_EXACT = (b"Pss_Anon:", b"Pss_Shmem:")


ended: Final[dict[int, float]] = {}
"""Processor seconds of reaped children, by counted rlimit tag; a counter adds and removes the
entry. Global, as the kernel's table of children."""


def count_end(tag: int | None, seconds: float) -> None:
    """Add an ended process's seconds to its tag, if that is counted."""
    if tag in ended:
        ended[tag] += seconds


def count_threads(pids: Iterable[int]) -> int:
    """Return the processes' number of threads, the kernel's unit of limits."""
    count = 0
    for pid in pids:
        with suppress(OSError):
            # Two links of the folder, and one a thread.
            count += os.stat(f"/proc/{pid}/task").st_nlink - 2  # noqa: PTH116 - half the time
    return count


def read_clocks_s(pids: Iterable[int]) -> float:
    """Return the processor seconds of the processes without their children, by their clocks, which
    wait for no lock. Ended processes count as 0."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            total += time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    return total


def read_cpu_s(pids: Iterable[int]) -> float:
    """Return the processor seconds of the processes and their reaped children, in steps of a tick
    (10 ms). Processes that have been reaped count as 0."""
    ticks = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            fields = _read(pid, "stat").rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def measure_memory(pids: Iterable[int], bound: float) -> int:
    """Return the bytes of the processes' data in memory; exact where the quick sum exceeds `bound`."""
    quick = {pid: _read_kibibytes(pid, "status", _QUICK) for pid in pids}
    most = sum(size or 0 for size in quick.values()) * 1024
    if most <= bound:
        return most
    exact = 0
    for pid in quick:
        own = _read_kibibytes(pid, "smaps_rollup", _EXACT)
        # Unreadable for another user's process, and an ended one.
        exact += (_read_kibibytes(pid, "status", _QUICK) or 0) if own is None else own
    return exact * 1024


def _read_kibibytes(pid: int, file: str, fields: tuple[bytes, ...]) -> int | None:
    """Return the sum of these fields; None if the file has none or cannot be read."""
    with suppress(OSError, ValueError, IndexError):
        lines = [line for line in _read(pid, file).splitlines() if line.startswith(fields)]
        return sum(int(line.split()[1]) for line in lines) if lines else None
    return None


def _read(pid: int, file: str) -> bytes:
    with open(f"/proc/{pid}/{file}", "rb") as opened:
        return opened.read()
