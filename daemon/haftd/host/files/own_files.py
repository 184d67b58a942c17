"""Access of a folder to haft's own files, under any name: links and bind mounts included.

Mounts are compared by device and place (proc_pid_mountinfo(5)); hard links cannot be seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import chain

from haftd.launch_spec import is_within
from haftd.lazy_pattern import lazy_pattern
from haftd.named_tuple import NamedTuple
from haftd.ownership import steps

_MAX_FOLDERS = 1000
"""Folders searched for links below one: a start waits meanwhile."""
_ESCAPE = lazy_pattern(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """`root` is the folder of the device (major:minor) shown at `point`."""

    device: str
    root: str
    point: str


def read_mounts(mountinfo: str | None = None) -> tuple[Mount, ...]:
    """Return this process's mounts in their order: a later one may hide an earlier one."""
    if mountinfo is None:
        with open("/proc/self/mountinfo", "rb") as file:
            mountinfo = os.fsdecode(file.read())
    # Not splitlines(): of the ends of lines the kernel escapes `\n` alone, a name may hold others.
    lines = (line.split(" ", 5) for line in mountinfo.split("\n") if line)
    return tuple(Mount(line[2], _unescape(line[3]), _unescape(line[4])) for line in lines)


def find_own_file(
    folder: str,
    own_paths: Iterable[str],
    linked: str = "",
    *,
    installed: Iterable[str] = (),
    table: tuple[Mount, ...] | None = None,
) -> str:
    """Return a path of haft's own that lies in `folder` or contains it, the empty string if there is
    none. Reads the file system; raises OSError if a link is exchanged meanwhile.

    `linked` is an own folder of files that may be links; `installed` are own paths that the caller
    has passed through `list_ways` already.
    """
    granted = os.path.realpath(folder)
    own = [
        path
        for path in chain(own_paths, _list_links(linked) if linked else ())
        for path in list_ways(path)
    ]
    own += installed
    for path in own:
        if is_within(path, granted) or is_within(granted, path):
            return path
    table = read_mounts() if table is None else table
    places = set(_list_places(granted, table))
    shared = _find_shared_devices(table)
    if all(device not in shared for device, _ in places):
        return ""
    for path in own:
        own_places = set(_list_places(path, table))
        if any(_overlap(place, other) for place in places for other in own_places):
            return path
    return ""


def list_ways(path: str) -> tuple[str, ...]:
    """Return each link on the way to a path, and the path without links."""
    real = os.path.realpath(path)
    if real == path:
        return (path,)
    links = []
    try:
        links += [step for step, facts in steps(path) if stat.S_ISLNK(facts.st_mode)]
    except OSError:
        pass  # a part of the path does not exist
    return (*links, real)


def _find_shared_devices(table: tuple[Mount, ...]) -> frozenset[str]:
    """Return the devices whose files may be reached by several paths."""
    seen: set[str] = set()
    shared: set[str] = set()
    for mount in table:
        if mount.device in seen or mount.root != "/":
            shared.add(mount.device)
        seen.add(mount.device)
    return frozenset(shared)


def _list_links(folder: str) -> Iterator[str]:
    folders, seen = [folder], set[tuple[int, int]]()
    while folders and len(seen) < _MAX_FOLDERS:
        path = folders.pop()
        try:
            facts = os.stat(path)  # noqa: PTH116
            if (facts.st_dev, facts.st_ino) in seen:
                continue
            seen.add((facts.st_dev, facts.st_ino))
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        yield entry.path
                    if entry.is_dir():
                        folders.append(entry.path)
        except OSError:
            continue


def _list_places(path: str, table: tuple[Mount, ...]) -> Iterator[tuple[str, str]]:
    """Yield device, and path on it, of a path and of each mount below it."""
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


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
