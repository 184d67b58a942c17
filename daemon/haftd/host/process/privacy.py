"""Keep the daemon's memory and environment from other processes of its user: undumpable (prctl(2)),
which leaves no core and ends at an exec.

As that hides the daemon's tag from recovery, the process name carries the instance.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_DUMPABLE = 4  # linux/prctl.h
_PR_SET_NAME = 15
_NAME = b"haftd-"
LENGTH = 9
"""Digits of an instance in a name: the kernel keeps 15 bytes."""


def become_private(instance: str) -> None:
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, _NAME + instance[:LENGTH].encode(), 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def read_instance(pid: int) -> str | None:
    """Return the instance's first digits in a process's name; None for another name or no process."""
    # Unbuffered, in half of the time: recovery reads every process.
    try:
        fd = os.open(f"/proc/{pid}/comm", os.O_RDONLY)
    except OSError:
        return None
    try:
        name = os.read(fd, 64).rstrip(b"\n")
    except OSError:
        return None
    finally:
        os.close(fd)
    instance = name.removeprefix(_NAME).decode("ascii", "replace")
    return instance if name.startswith(_NAME) and len(instance) == LENGTH else None
