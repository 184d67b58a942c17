"""The daemon's place in the queue of the processor: before the programs that it holds.

A handle that runs away must not keep the others waiting. The kernel grants a higher priority to the
superuser, or by RLIMIT_NICE; children get the usual one back at their fork.
"""

from __future__ import annotations

import os

_NICE = -10


def prefer_daemon() -> bool:
    """Raise the priority of this thread, unless a person has chosen one; return whether it was raised."""
    if os.getpriority(os.PRIO_PROCESS, 0) != 0:
        return False
    usual, parameters = os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0)
    try:
        os.sched_setscheduler(0, usual, parameters)
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
    except OSError:
        return False
    if os.getsid(0) == os.getpid():
        # The sessions of handles have groups of their own, among which a nice value inside one does nothing.
        try:
            with open("/proc/self/autogroup", "w", encoding="ascii") as file:
                file.write(str(_NICE))
        except OSError:
            pass  # a kernel without groups for sessions
    return True
