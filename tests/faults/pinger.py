"""Ping a daemon until stdin ends; print the longest wait in ms, and the number of pings.

A process of its own, before the others in the queue of the processor where that is permitted:
what it waits for is the daemon, not a test that holds the interpreter's lock.

    python -m tests.faults.pinger SOCKET
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from pathlib import Path

from tests.wire import Wire

_NICE = -15
_PAUSE_S = 0.005


def main(socket: str) -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        # The session is a group of its own in the queue, outside of which the value above does nothing.
        Path("/proc/self/autogroup").write_text(str(_NICE))
    longest, count = 0.0, 0
    with Wire(socket) as wire:
        while not select.select([sys.stdin], [], [], _PAUSE_S)[0]:
            before = time.perf_counter()
            wire.call("ping")
            longest = max(longest, time.perf_counter() - before)
            count += 1
    print(f"{longest * 1000:.0f} {count}")


if __name__ == "__main__":
    main(*sys.argv[1:])
