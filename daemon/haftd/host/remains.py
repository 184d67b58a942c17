"""Processes of a handle that could not be ended: in an uninterruptible sleep, or another user's by now.

Rules: each is held by a pidfd that was opened while it was known to be the handle's, so that its number
stays its own. Nothing is polled: a pidfd tells the end.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

import trio

from haftd.host.group import Survivor, command_of
from haftd.host.identity import has_ended, send

__all__ = ["Remains"]


class Remains:
    """What is left of one handle after its end. `close` it when it is gone or not wanted any more."""

    __slots__ = ("_pidfds",)

    def __init__(self, pids: Iterable[int]) -> None:
        self._pidfds: dict[int, int] = {}
        for pid in pids:
            with suppress(OSError):
                self._pidfds[pid] = os.pidfd_open(pid)

    def living(self) -> tuple[Survivor, ...]:
        """What of it lives, as of now."""
        return tuple(
            Survivor(pid, command_of(pid))
            for pid, pidfd in self._pidfds.items()
            if not has_ended(pidfd)
        )

    def kill(self) -> None:
        """Signal all of it with KILL."""
        for pidfd in self._pidfds.values():
            with suppress(PermissionError):
                send(pidfd, signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until nothing of it lives. One task at a time."""
        for pidfd in self._pidfds.values():
            if not has_ended(pidfd):
                await trio.lowlevel.wait_readable(pidfd)

    def close(self) -> None:
        """Give the descriptors back."""
        while self._pidfds:
            os.close(self._pidfds.popitem()[1])
