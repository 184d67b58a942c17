"""Descriptors of one launch: the child's side and the daemon's.

All are close-on-exec and numbered above the child's, or dup2 calls in the child could overwrite one
another.
"""

from __future__ import annotations

import fcntl
import os

from haftd.host.launch.gate import MAX_CHILD_FD

Action = tuple[int, int, int]


class SpawnFds:
    __slots__ = ("child_side", "parent_side")

    def __init__(self) -> None:
        self.parent_side: list[int] = []
        self.child_side: dict[int, int] = {}
        """The daemon's descriptors for the child, by the child's numbers."""

    @property
    def actions(self) -> list[Action]:
        return [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in self.child_side.items()]

    @property
    def highest(self) -> int:
        return max(*self.parent_side, *self.child_side.values())

    def adopt(self, fd: int) -> int:
        """Own a descriptor of the daemon; return the number, moved above the child's."""
        self.parent_side.append(fd)
        if fd <= MAX_CHILD_FD:
            high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, MAX_CHILD_FD + 1)
            os.close(fd)
            self.parent_side[-1] = fd = high
        return fd

    def pipe_from_child(self, *targets: int) -> int:
        """Make a pipe that the child writes to as `targets`; return the daemon's non-blocking end."""
        ours, theirs = self._pipe()
        self._give(theirs, targets)
        os.set_blocking(ours, False)
        return ours

    def pipe_to_child(self, target: int) -> int:
        theirs, ours = self._pipe()
        self._give(theirs, (target,))
        os.set_blocking(ours, False)
        return ours

    def open_for_child(self, path: str, flags: int, *targets: int) -> None:
        """Open `path` for the child; a terminal does not become the daemon's."""
        fd = os.open(path, flags | os.O_NOCTTY)
        self._give(self.adopt(fd), targets)

    def give(self, fd: int, target: int) -> None:
        self._give(fd, (target,))

    def close_one(self, fd: int) -> None:
        self.parent_side.remove(fd)
        os.close(fd)

    def close_child_side(self) -> None:
        for fd in set(self.child_side.values()):
            os.close(fd)
        self.child_side.clear()

    def release_child_side(self) -> dict[int, int]:
        """Return the child's side, which the caller closes."""
        released, self.child_side = self.child_side, {}
        return released

    def close(self) -> None:
        self.close_child_side()
        while self.parent_side:
            os.close(self.parent_side.pop())

    def _pipe(self) -> tuple[int, int]:
        read, write = os.pipe()
        self.parent_side += (read, write)
        if read > MAX_CHILD_FD and write > MAX_CHILD_FD:
            return read, write
        del self.parent_side[-2:]
        try:
            read = self.adopt(read)
        finally:
            write = self.adopt(write)
        return read, write

    def _give(self, fd: int, targets: tuple[int, ...]) -> None:
        self.parent_side.remove(fd)
        self.child_side.update(dict.fromkeys(targets, fd))
