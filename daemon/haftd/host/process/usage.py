"""What some processes use, all together: how many they are, processor time, memory.

Rules:

- Only what is read in /proc counts; who has ended, or cannot be read, uses nothing.
- The time of a process that has ended is known to whoever takes its end. Where this process does, it is kept by
  the brand of the handle, for handles that count it.
- Memory is what they have made, for themselves or to share it: pages that several have, as a fork
  that has not copied them yet, count once. That takes long to read, so it is read only where the quick
  sum, which counts such pages for each, passes the bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

__all__ = ["count_end", "cpu_s", "ended", "memory"]

_TICKS = os.sysconf("SC_CLK_TCK")
_QUICK = (b"RssAnon:", b"RssShmem:")
_EXACT = (b"Pss_Anon:", b"Pss_Shmem:")


ended: Final[dict[int, float]] = {}
"""Processor seconds of the children of this process that have ended, by the brands that are counted. Who counts
one puts it in and takes it out: as the kernel's table of children is one for a process, so is this one."""


def count_end(brand: int | None, seconds: float) -> None:
    """Add what a child has used whose end was taken."""
    if brand in ended:
        ended[brand] += seconds


def cpu_s(pids: Iterable[int]) -> float:
    """Processor seconds of the processes, and of their children whose ends they have taken."""
    ticks = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            fields = _read(pid, "stat").rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def memory(pids: Iterable[int], bound: float) -> int:
    """Bytes of data that the processes have in memory; exact where they pass `bound`."""
    quick = {pid: _kibibytes(pid, "status", _QUICK) for pid in pids}
    most = sum(one or 0 for one in quick.values()) * 1024
    if most <= bound:
        return most
    exact = 0
    for pid, rough in quick.items():
        own = _kibibytes(pid, "smaps_rollup", _EXACT)
        exact += (rough or 0) if own is None else own
    return exact * 1024


def _kibibytes(pid: int, file: str, fields: tuple[bytes, ...]) -> int | None:
    """The sum of these fields; None where there is none of them."""
    with suppress(OSError, ValueError, IndexError):
        lines = [line for line in _read(pid, file).splitlines() if line.startswith(fields)]
        return sum(int(line.split()[1]) for line in lines) if lines else None
    return None


def _read(pid: int, file: str) -> bytes:
    with open(f"/proc/{pid}/{file}", "rb") as opened:
        return opened.read()
