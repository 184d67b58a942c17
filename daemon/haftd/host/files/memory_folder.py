"""A private folder whose files are in memory, for what must never be stored."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from errno import EPERM, EROFS
from pathlib import Path

_IN_MEMORY = ("tmpfs", "ramfs")


def open_memory_folder(candidates: Iterable[Path]) -> Path:
    """Make the first of these folders whose parent folder is in memory, and return its path.

    Raises OSError if there is none, or if the folder is not this user's or open to others.
    """
    for folder in candidates:
        if not is_in_memory(folder.parent):
            continue
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            pass
        facts = folder.lstat()
        is_private = facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
        if not stat.S_ISDIR(facts.st_mode) or not is_private:
            raise OSError(EPERM, "it is not a folder of this user alone", str(folder))
        return folder
    raise OSError(EROFS, "no file system in memory (tmpfs) is mounted at /dev/shm")


def is_in_memory(path: Path) -> bool:
    """True if the path exists on a tmpfs or ramfs, see the fields of proc_pid_mountinfo(5)."""
    try:
        device = path.stat().st_dev
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}".encode()
    with open("/proc/self/mountinfo", "rb") as file:
        mounts = (line.split(b" - ", 1) for line in file)
        return any(
            head.split(b" ", 3)[2] == number and rest.split(b" ", 1)[0].decode() in _IN_MEMORY
            for head, rest in mounts
        )
