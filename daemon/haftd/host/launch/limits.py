"""Resource limits of a child, set at the gate, so the program never runs without them.

Hard limits stay the daemon's, except for CPU time: two seconds above the soft limit.
"""

from __future__ import annotations

import math
import os
import resource
import sys
from collections.abc import Mapping

from haftd.host.process import rlimit_tag
from haftd.host.process.identity import every_pid


def limits_of(
    limits: Mapping[str, float], nofile: int | None, mark: str
) -> dict[int, tuple[int, int]]:
    """Return the limits to set on the child: resource -> (soft, hard)."""
    bounds: dict[int, tuple[int, int]] = {}

    def bound(which: int, soft: int, spare: int = 0) -> None:
        hard = resource.getrlimit(which)[1]
        most = sys.maxsize if hard == resource.RLIM_INFINITY else hard
        bounds[which] = (min(soft, most), min(soft + spare, most) if spare else hard)

    if mark and (tag_limits := rlimit_tag.limits_for(mark)) is not None:
        bounds[rlimit_tag.RESOURCE] = tag_limits
    if nofile is not None:
        bound(resource.RLIMIT_NOFILE, nofile)
    if "memory" in limits:
        # Data rather than address space: runtimes reserve much more than they use.
        bound(resource.RLIMIT_DATA, int(limits["memory"]))
    if "cpu_s" in limits:
        bound(resource.RLIMIT_CPU, max(1, math.ceil(limits["cpu_s"])), spare=2)
    if "processes" in limits:
        # The kernel counts all tasks of the user, not those of one child.
        bound(resource.RLIMIT_NPROC, _tasks_of_user() + int(limits["processes"]))
    return bounds


def _tasks_of_user() -> int:
    uid, count = os.getuid(), 0
    for pid in every_pid():
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:  # noqa: PTH116
                count += len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
        except OSError:
            continue
    return count
