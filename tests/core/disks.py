"""Files for spools: real ones without a name, and disks that fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from haftd.core.spool import Budget, Spool


def open_memory() -> int:
    """Open a file that has no name and needs no folder."""
    return os.memfd_create("spool")


def open_full() -> int:
    """Open a device that takes nothing."""
    return os.open("/dev/full", os.O_RDWR)


def open_nothing() -> int:
    """Fail as a full table of descriptors does."""
    raise OSError(errno.EMFILE, "too many open files")


def make(
    memory: int = 1 << 20,
    disk: int = 0,
    open_file: Callable[[], int] | None = open_memory,
    total: int = 1 << 40,
) -> Spool:
    """Return a spool with its own budget."""
    return Spool(memory, disk, None if open_file is None else Nameless(open_file), Budget(total))


class Nameless:
    """A folder of files that get no name."""

    def __init__(self, open_file: Callable[[], int] = open_memory) -> None:
        self.open = open_file

    def link(self, fd: int, suffix: str = "") -> str:
        raise OSError(errno.EOPNOTSUPP, "no names here")

    def unlink(self, path: str) -> None:
        raise AssertionError("nothing has a name")


class Disk:
    """Takes the place of os.pwrite: fails at chosen calls, writes short at others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failing: set[int] = set()
        self.short = 0
        self.full_at: int | None = None
        self.calls = 0
        self._pwrite = os.pwrite
        monkeypatch.setattr("haftd.core.spool.os.pwrite", self._write)

    def _write(self, fd: int, data: memoryview, place: int) -> int:
        self.calls += 1
        if self.calls in self.failing:
            raise OSError(errno.EIO, "a bad block")
        if self.full_at is not None and place + len(data) > self.full_at:
            if place >= self.full_at:
                raise OSError(errno.ENOSPC, "no space left")
            data = data[: self.full_at - place]
        if self.short:
            data = data[: self.short]
        return self._pwrite(fd, data, place)
