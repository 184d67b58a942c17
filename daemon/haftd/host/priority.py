"""Priority of the daemon above the processes of its handles, which a fork resets.

The kernel grants it to the superuser, or by RLIMIT_NICE.
"""

from __future__ import annotations

import os

_NICE = -10
"""Enough to precede processes of the default 0; RLIMIT_NICE must be 30 or more (getrlimit(2))."""
_DEFERRED = 19
"""Nice value of processes that no cgroup counts: forks that double themselves must not outrun the
count. Only the processes, not their session (`autogroup`): of a deferred session even a killed
process would not end in time."""


def prefer_daemon() -> bool:
    """Raise this thread's priority, unless a person has chosen one; return True if raised."""
    if os.getpriority(os.PRIO_PROCESS, 0) != 0:
        return False
    usual, parameters = os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0)
    try:
        os.sched_setscheduler(0, usual, parameters)
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    except OSError:
        return False
    if os.getsid(0) == os.getpid():
        # Handles' sessions are groups, within which alone a nice value counts.
        try:
            with open("/proc/self/autogroup", "w", encoding="ascii") as file:
                file.write(str(_NICE))
        except OSError:
            pass  # a kernel without groups for sessions
    return True


def defer_process(pid: int) -> None:
    """Put a process, and those that it will start, at the end of the queue."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, _DEFERRED)
    except OSError:
        pass  # It has ended.
