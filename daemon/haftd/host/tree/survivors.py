"""Unkillable processes of a handle: in uninterruptible sleep, or now another user's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

import trio

from haftd.host.launch.launched_process import leaders
from haftd.host.process import rlimit_tag
from haftd.host.process.handle_tag import HandleTag
from haftd.host.process.identity import has_ended, send_signal
from haftd.host.tree.process_tree import read_commands


class Survivors:
    """Open a pidfd for each of `pids` that still runs and has the tag `mark`; `close` them."""

    __slots__ = ("_pidfds",)

    def __init__(self, pids: Iterable[int], mark: str) -> None:
        self._pidfds: dict[int, int] = {}
        for pid in pids:
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                continue
            if _carries(pid, mark) and not has_ended(pidfd):
                self._pidfds[pid] = pidfd
            else:
                os.close(pidfd)

    def find_living(self) -> dict[int, str]:
        """Return the living processes' command lines by pid."""
        return read_commands([pid for pid, pidfd in self._pidfds.items() if not has_ended(pidfd)])

    def kill(self) -> None:
        """Send KILL again: a process may be this user's by now."""
        for pidfd in self._pidfds.values():
            with suppress(PermissionError):
                send_signal(pidfd, signal.SIGKILL)

    async def wait_ended(self) -> None:
        """Wait until none lives, in one task at a time."""
        for pidfd in self._pidfds.values():
            if not has_ended(pidfd):
                await trio.lowlevel.wait_readable(pidfd)

    def close(self) -> None:
        while self._pidfds:
            os.close(self._pidfds.popitem()[1])


def _carries(pid: int, mark: str) -> bool:
    if (leader := leaders.get(pid)) is not None:
        return leader.mark == mark
    tag = HandleTag(mark)
    # The rlimit first: reading a hanging process's environment may block.
    return tag.is_in_limit(rlimit_tag.read_tag(pid)) or tag.is_in_environ(pid)
