"""Keep what this process has in memory from other processes of its user.

Rules: the environment of a process stays readable in /proc for as long as it runs, whatever the process takes
out of its own. A process that is not dumpable (prctl(2), PR_SET_DUMPABLE) shows neither that nor its memory and
its descriptors to processes without CAP_SYS_PTRACE, and leaves no core file. An execution ends it, so children
are as they would be.
"""

from __future__ import annotations

import ctypes

__all__ = ["become_private"]

_PR_SET_DUMPABLE = 4


def become_private() -> None:
    """Keep other processes of the user out, from now on."""
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
