"""The two sides of one launch: the child's descriptors, and ours.

Rules:

- Every descriptor is close-on-exec and numbered above those that the child uses, so that putting
  them in their places in the child cannot overwrite one another, whatever the daemon has closed.
- Ours do not block, the child's do: they are different ends of a pipe.
- Until the launch is a success both sides are closed by `close`.
"""

from __future__ import annotations

import fcntl
import os

from haftd.host.launch.gate import REPORT_FD

__all__ = ["Action", "Ends"]

Action = tuple[int, int, int] | tuple[int, int, str, int, int]


class Ends:
    """The descriptors of one launch: those of the child, and ours until it is a success."""

    __slots__ = ("actions", "ours", "theirs")

    def __init__(self) -> None:
        self.ours: list[int] = []
        self.theirs: list[int] = []
        self.actions: list[Action] = []

    def own(self, fd: int) -> int:
        """Take care of a descriptor of ours; it stays clear of the numbers the child uses."""
        self.ours.append(fd)
        if fd <= REPORT_FD:
            high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, REPORT_FD + 1)
            os.close(fd)
            self.ours[-1] = fd = high
        return fd

    def take(self, *targets: int) -> int:
        """A pipe that the child writes to as `targets`; returns our end, which does not block."""
        ours, theirs = self._pipe()
        self._give(theirs, targets)
        os.set_blocking(ours, False)
        return ours

    def feed(self, target: int) -> int:
        """A pipe that the child reads from as `target`; returns our end, which does not block."""
        theirs, ours = self._pipe()
        self._give(theirs, (target,))
        os.set_blocking(ours, False)
        return ours

    def open(self, target: int, path: str, flags: int) -> None:
        """Let the child itself open `path` as `target`."""
        self.actions.append((os.POSIX_SPAWN_OPEN, target, path, flags, 0))

    def copy(self, source: int, target: int) -> None:
        self.actions.append((os.POSIX_SPAWN_DUP2, source, target))

    def drop(self, fd: int) -> None:
        self.ours.remove(fd)
        os.close(fd)

    def close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())

    def close(self) -> None:
        self.close_theirs()
        while self.ours:
            os.close(self.ours.pop())

    def _pipe(self) -> tuple[int, int]:
        read, write = os.pipe2(os.O_CLOEXEC)
        self.ours += (read, write)
        if read > REPORT_FD and write > REPORT_FD:
            return read, write
        del self.ours[-2:]
        try:
            read = self.own(read)
        finally:
            write = self.own(write)
        return read, write

    def _give(self, fd: int, targets: tuple[int, ...]) -> None:
        self.ours.remove(fd)
        self.theirs.append(fd)
        for target in targets:
            self.copy(fd, target)
