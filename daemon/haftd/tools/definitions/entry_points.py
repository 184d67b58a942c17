"""Entry points of packages ("Entry points specification", Python Packaging User Guide), without the
slow `importlib.metadata`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

_MAX_BYTES = 1 << 20
"""Characters read of one file; the rest is ignored."""


class EntryPoint(msgspec.Struct, frozen=True):
    """Named object of a package."""

    name: str
    module: str
    object: str
    file: str
    """The package's metadata."""
    folder: str
    """The package's folder."""
    line: int


def find_entry_points(group: str, folders: Iterable[str]) -> list[EntryPoint]:
    """Return the entry points of a group in these folders; the first of a name wins. An unreadable file
    is skipped."""
    entries: dict[str, EntryPoint] = {}
    for folder in dict.fromkeys(folders):
        for file in _list_metadata(folder):
            for entry in _read(group, file, folder):
                entries.setdefault(entry.name, entry)
    return list(entries.values())


def _list_metadata(folder: str) -> list[str]:
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208
    except OSError:
        return []
    return [
        f"{folder}/{name}/entry_points.txt"
        for name in sorted(names)
        if name.endswith((".dist-info", ".egg-info"))
    ]


def _read(group: str, file: str, folder: str) -> Iterator[EntryPoint]:
    try:
        facts = os.stat(file)  # noqa: PTH116
        lines = _read_lines(file, facts.st_ino, facts.st_mtime_ns, facts.st_size)
    except (OSError, UnicodeDecodeError):
        return
    for section, line, number in lines:
        if section == group:
            name, _, reference = line.partition("=")
            module, _, object_ = reference.partition("[")[0].partition(":")
            yield EntryPoint(name.strip(), module.strip(), object_.strip(), file, folder, number)


@lru_cache(maxsize=1024)
def _read_lines(
    file: str, _inode: int, _time_ns: int, _size: int
) -> tuple[tuple[str, str, int], ...]:
    """Return the section, text and number of each entry's line; a start asks for three groups."""
    with open(file, encoding="utf-8") as opened:
        text = opened.read(_MAX_BYTES)
    entries = []
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif "=" in line and not line.startswith(("#", ";")):
            entries.append((section, line, number))
    return tuple(entries)
