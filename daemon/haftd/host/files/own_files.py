"""Which of haft's own files a folder gives access to, under any name: links and bind mounts included.

A path counts together with each link that leads to it: replacing the link replaces the file. Mounts are compared by
device and place on the device (proc_pid_mountinfo(5)); a hard link cannot be seen from the other name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from haftd.ownership import steps

_MAX_FOLDERS = 1000
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """`root` is the folder of the device that appears at `point`."""

    device: str
    root: str
    point: str


def mounts(mountinfo: str | None = None) -> tuple[Mount, ...]:
    """Return the mounts of this process, later ones over earlier ones."""
    if mountinfo is None:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mountinfo = file.read()
    lines = (line.split(" ", 5) for line in mountinfo.splitlines())
    return tuple(Mount(line[2], _unescaped(line[3]), _unescaped(line[4])) for line in lines)


def own_file_in(
    folder: str, own_paths: Iterable[str], linked: str = "", table: tuple[Mount, ...] | None = None
) -> str:
    """Return one of the own paths that `folder` holds, or that holds `folder`; empty without.

    `linked` is an own folder with files that may be links.
    """
    table = mounts() if table is None else table
    granted = set(_places(os.path.realpath(folder), table))
    for own in chain(own_paths, _links_in(linked) if linked else ()):
        for path in _ways(own):
            places = set(_places(path, table))
            if any(_overlap(one, other) for one in granted for other in places):
                return path
    return ""


def _ways(path: str) -> Iterator[str]:
    """Yield each link on the way to a path, and the path itself without links."""
    try:
        for step, _ in steps(path):
            if os.path.islink(step):  # noqa: PTH114
                yield step
    except OSError:
        pass  # nothing there yet
    yield os.path.realpath(path)


def _links_in(folder: str) -> Iterator[str]:
    seen: set[tuple[int, int]] = set()
    for path, folders, files in os.walk(folder, followlinks=True):
        facts = os.stat(path)  # noqa: PTH116
        if (facts.st_dev, facts.st_ino) in seen or len(seen) > _MAX_FOLDERS:
            folders.clear()
            continue
        seen.add((facts.st_dev, facts.st_ino))
        for name in (*folders, *files):
            if os.path.islink(entry := f"{path}/{name}"):  # noqa: PTH114
                yield entry


def _places(path: str, table: tuple[Mount, ...]) -> Iterator[tuple[str, str]]:
    """Yield the place of a path on a device, and those of the mounts below the path."""
    above = Mount("", "/", "/")
    for mount in table:
        if is_within(path, mount.point) and len(mount.point) >= len(above.point):
            above = mount
        elif is_within(mount.point, path):
            yield mount.device, mount.root
    rest = path[len(above.point.rstrip("/")) :]
    yield above.device, (above.root.rstrip("/") + rest) or "/"


def _overlap(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return one[0] == other[0] and (is_within(one[1], other[1]) or is_within(other[1], one[1]))


def is_within(path: str, folder: str) -> bool:
    """Return whether an absolute path is the folder or below."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
