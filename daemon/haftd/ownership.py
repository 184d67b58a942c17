"""Files that other users could replace.

Each folder and link of a path must be this user's or root's, a world-writable folder sticky. Group
write is accepted: many homes have a group per user.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from functools import cache

_MAX_LINKS = 40
"""Links on the way, as the kernel follows (path_resolution(7))."""


def why_replaceable(path: str) -> str:
    """Return the reason if another user could replace the file, else the empty string. Raises OSError."""
    for step, facts in steps(path):
        if has_foreign_owner(facts) and facts.st_uid != _read_unmapped_uid():
            return f"{step} belongs to the user with uid {facts.st_uid}"
        is_open = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_IWOTH
        if is_open and not facts.st_mode & stat.S_ISVTX:
            return f"{step} is writable by everybody (`chmod o-w {step}`)"
    return ""


def has_foreign_owner(facts: os.stat_result) -> bool:
    return facts.st_uid not in (0, os.geteuid())


def steps(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each folder and link of a path from the root, then the file, with their `os.lstat`. Raises
    OSError, for too many links ELOOP."""
    names = [name for name in os.path.abspath(path).split("/")[::-1] if name]  # noqa: PTH100
    at = "/"
    links = 0
    yield at, os.lstat(at)
    while names:
        name = names.pop()
        if name == "..":
            at = os.path.dirname(at)  # noqa: PTH120
            continue
        step = os.path.join(at, name)  # noqa: PTH118
        facts = os.lstat(step)
        yield step, facts
        if not stat.S_ISLNK(facts.st_mode):
            at = step
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(step)  # noqa: PTH115
        names += [name for name in target.split("/")[::-1] if name not in ("", ".")]
        if target.startswith("/"):
            at = "/"


@cache
def _read_unmapped_uid() -> int:
    """Return the uid that stands for root in a user namespace without root, else -1."""
    try:
        with open("/proc/self/uid_map", "rb") as file:
            mapped = [int(line.split()[2]) for line in file]
        if sum(mapped) >= 0xFFFF_FFFF:
            return -1
        with open("/proc/sys/kernel/overflowuid", "rb") as file:
            return int(file.read())
    except (OSError, ValueError, IndexError):
        return -1
