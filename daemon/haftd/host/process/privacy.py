"""Keep what this process has in memory from other processes of its user.

Rules: the environment of a process stays readable in /proc for as long as it runs, whatever the process takes
out of its own. A process that is not dumpable (prctl(2), PR_SET_DUMPABLE) shows neither that nor its memory and
its descriptors to processes without CAP_SYS_PTRACE, and leaves no core file. An execution ends it, so children
are as they would be. Its tag is in its environment, too, so that a recovery no longer finds a daemon that lives:
the name of the process, which stays readable, tells the daemon's instance instead.
"""

from __future__ import annotations

import ctypes

_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_NAME = b"haftd-"
LENGTH = 9
"""Digits of an instance in a name: the kernel keeps 15 bytes."""


def become_private(instance: str) -> None:
    """Close this process's memory and environment to other processes of the user, and name the process after
    its instance.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, _NAME + instance[:LENGTH].encode(), 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def named_instance(pid: int) -> str | None:
    """Return the first digits of the instance in a process's name; None for another name."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            name = file.read().rstrip(b"\n")
    except OSError:
        return None
    instance = name.removeprefix(_NAME).decode("ascii", "replace")
    return instance if name.startswith(_NAME) and len(instance) == LENGTH else None
