"""Resources that a set of processes uses: processor time and memory.

Rules:

- Only /proc counts; a process that has ended or cannot be read uses nothing.
- The processor time of an ended process is known only when it is reaped. Where this process reaps it, the
  time is added up by the rlimit tag of the handle, for handles that are counted.
- Memory is private and shared data. Pages that several processes share, as after a fork, count once. That
  takes long to read, so it is read only where the quick sum, which counts such pages for each process,
  exceeds the bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

_TICKS = os.sysconf("SC_CLK_TCK")
_QUICK = (b"RssAnon:", b"RssShmem:")
_EXACT = (b"Pss_Anon:", b"Pss_Shmem:")


ended: Final[dict[int, float]] = {}
"""Processor seconds of reaped children, by counted rlimit tag; a counter adds and removes the
entry. Global, as the kernel's table of children."""


def count_end(brand: int | None, seconds: float) -> None:
    """Add the processor seconds of a child that was reaped."""
    if brand in ended:
        ended[brand] += seconds


def cpu_s(pids: Iterable[int]) -> float:
    """Return the processor seconds of the processes and of the children that they have reaped."""
    ticks = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            fields = _read(pid, "stat").rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def memory(pids: Iterable[int], bound: float) -> int:
    """Return the bytes of data that the processes have in memory; exact where the sum exceeds `bound`."""
    quick = {pid: _kibibytes(pid, "status", _QUICK) for pid in pids}
    most = sum(size or 0 for size in quick.values()) * 1024
    if most <= bound:
        return most
    exact = 0
    for pid in quick:
        own = _kibibytes(pid, "smaps_rollup", _EXACT)
        # Unreadable for a process of another user, and for one that has ended since: the latter uses nothing by now.
        exact += (_kibibytes(pid, "status", _QUICK) or 0) if own is None else own
    return exact * 1024


def _kibibytes(pid: int, file: str, fields: tuple[bytes, ...]) -> int | None:
    """Return the sum of these fields; None where none of them is there."""
    with suppress(OSError, ValueError, IndexError):
        lines = [line for line in _read(pid, file).splitlines() if line.startswith(fields)]
        return sum(int(line.split()[1]) for line in lines) if lines else None
    return None


def _read(pid: int, file: str) -> bytes:
    with open(f"/proc/{pid}/{file}", "rb") as opened:
        return opened.read()
