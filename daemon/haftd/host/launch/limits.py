"""Resource limits of a child, set at the gate.

Hard limits equal the soft limits, except for CPU time, two seconds above for the soft one's signal, for
open files, the daemon's, and for the rlimit tag, which leaves the hard one as it is.
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
    """Return the child's limits, (soft, hard) by resource, none above the daemon's hard one. `nofile`
    is the soft limit of open files."""
    bounds: dict[int, tuple[int, int]] = {}

    def bound(which: int, soft: int, hard: int) -> None:
        own = resource.getrlimit(which)[1]
        most = sys.maxsize if own == resource.RLIM_INFINITY else own
        bounds[which] = min(soft, most), min(hard, most)

    if mark and (tag_limits := rlimit_tag.limits_for(mark)) is not None:
        bounds[rlimit_tag.RESOURCE] = tag_limits
    if nofile is not None:
        bounds[resource.RLIMIT_NOFILE] = nofile, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if "memory" in limits:
        # Data instead of address space: runtimes reserve far more than they use.
        memory = int(limits["memory"])
        bound(resource.RLIMIT_DATA, memory, memory)
    if "cpu_s" in limits:
        seconds = max(1, math.ceil(limits["cpu_s"]))
        bound(resource.RLIMIT_CPU, seconds, seconds + 2)
    if "processes" in limits:
        # The kernel counts all tasks of the user.
        tasks = _tasks_of_user() + int(limits["processes"])
        bound(resource.RLIMIT_NPROC, tasks, tasks)
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
