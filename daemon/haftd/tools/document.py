"""A TOML file as data, with the lines its keys stand on.

Rules: reading never raises anything but `Unreadable`; a line is a help, not a promise (None where
it is not known). Settings and definitions are both read here. What stands in such a file is run, so one that
another user could have written, or could put another in the place of, is not read: it, and every folder and link
on the way to it, belong to this user or to root, and are not open to everybody. It is looked at through the
descriptor that it is read from.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import UNSET

from haft_protocol.methods import Problem
from haftd.ownership import foreign_owner, why_replaceable

LARGEST_FILE = 4 * 1024 * 1024
"""A configuration file above this is not read: it is surely not one."""

_MAX_DEPTH = 64
"""Tables and lists in each other: what goes on with them goes as deep as they do."""

_MAX_DOTS = 64
_MAX_FOLDERS = 1_000
_NOT_REGULAR = "it is no regular file"
_TOO_LONG = f"it is larger than {LARGEST_FILE} bytes"
_TOO_DEEP = "it is nested too deeply"
_TOO_LARGE = "a number in it is larger than TOML has: 64 bits"
_AT = re.compile(r" \(at line (\d+), column \d+\)$")
_TRIPLE = re.compile(r'"""|\'\'\'')


class Unreadable(Exception):
    """The file cannot be read or is no TOML; `line` is the place if it is known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says. `lines` maps key paths to line numbers from 1."""

    file: str
    data: dict[str, Any]
    lines: dict[tuple[str, ...], int] = field(repr=False)

    def line(self, path: Sequence[str]) -> int | None:
        """The line of the key, or of the nearest table around it; None when neither is known."""
        for length in range(len(path), 0, -1):
            if (found := self.lines.get(tuple(path[:length]))) is not None:
                return found
        return None

    def problem(self, path: Sequence[str], message: str) -> Problem:
        """Say what is wrong with a key of this file."""
        return problem(self.file, ".".join(path), message, self.line(path))


def definition_files(folder: Path) -> list[Path]:
    """Return the `*.toml` and `*.py` in a folder and its subfolders, by their paths in it, part by part. Links to
    folders are followed, each folder once; one whose name begins with a dot is passed over, and so is
    one that cannot be listed. Raises `Unreadable` where there are too many folders."""
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()
    for path, folders, names in os.walk(folder, followlinks=True):
        facts = os.stat(path)  # noqa: PTH116
        if (facts.st_dev, facts.st_ino) in seen:
            folders.clear()
            continue
        seen.add((facts.st_dev, facts.st_ino))
        if len(seen) > _MAX_FOLDERS:
            raise Unreadable(f"it has more than {_MAX_FOLDERS} folders in it")
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(path, name) for name in names if name.endswith((".toml", ".py"))]
    return sorted(found, key=lambda one: one.relative_to(folder).parts)


def problem(file: str, key: str, message: str, line: int | None = None) -> Problem:
    """A problem with its line, if there is one."""
    return Problem(file=file, key=key, message=message, line=UNSET if line is None else line)


def read(path: Path) -> Document:
    """Read a TOML file; raises `Unreadable`."""
    return parse(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Read a file of definitions that only this user and root can write; raises `Unreadable`."""
    try:
        with os.fdopen(_open(path), "rb") as file:
            if why := _fault(path, os.fstat(file.fileno())):
                raise Unreadable(why)
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise Unreadable(_TOO_LONG)
        return data.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8 (byte {error.start})") from None
    except FileNotFoundError:
        raise Unreadable("there is no such file") from None
    except OSError as error:
        raise Unreadable(error.strerror or "it cannot be read") from None


def _open(path: Path) -> int:
    """Open what is there; a pipe of that name must not make us wait, nor a device do anything."""
    if path.exists() and not path.is_file():
        raise Unreadable(_NOT_REGULAR)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _fault(path: Path, found: os.stat_result) -> str:
    """Why what was opened is not to be read; empty where it is."""
    if not stat.S_ISREG(found.st_mode):
        return _NOT_REGULAR
    if found.st_size > LARGEST_FILE:
        return _TOO_LONG
    # Who owns a name chooses what it leads to, and who writes to the folder gives the names.
    return (
        _others(found, "it")
        or _others(path.lstat(), "it")
        or _others(path.parent.stat(), "its folder")
        or _on_the_way(path)
    )


def _on_the_way(path: Path) -> str:
    """Why another user could lead the path elsewhere; empty where none could."""
    why = why_replaceable(str(path))
    return f"{why}, so it is not read" if why else ""


def _others(found: os.stat_result, what: str) -> str:
    """Why another user could have written what is there; empty where none could."""
    if foreign_owner(found):
        return f"{what} belongs to the user with the number {found.st_uid}, so it is not read"
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if found.st_mode & stat.S_IWOTH and not sticky and not stat.S_ISLNK(found.st_mode):
        return f"{what} can be written by everybody, so it is not read; `chmod o-w` {what}"
    return ""


def parse(text: str, file: str) -> Document:
    """Read TOML text that came from `file`; raises `Unreadable`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        found = _AT.search(said)
        line = int(found[1]) if found else None
        raise Unreadable(f"it is not TOML: {_AT.sub('', said)}", line) from None
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None
    except ValueError:
        raise Unreadable(_TOO_LARGE) from None
    for one, depth in _values(data):
        if depth > _MAX_DEPTH:
            raise Unreadable(_TOO_DEEP)
        if type(one) is int and one.bit_length() > 63:
            raise Unreadable(_TOO_LARGE)
    return Document(file, data, dict(_places(text)))


def _values(data: object) -> Iterator[tuple[object, int]]:
    """All values in it, and in how many others each is."""
    waiting = [(data, 0)]
    while waiting:
        one, depth = waiting.pop()
        yield one, depth
        if isinstance(one, dict | list):
            inner = one.values() if isinstance(one, dict) else one
            waiting.extend((each, depth + 1) for each in inner)


def _path_of(text: str) -> tuple[str, ...] | None:
    """The key path that a table header or the left side of an assignment names."""
    if text.count(".") > _MAX_DOTS:
        return None  # it may be no key at all, and reading one takes the square of its length
    try:
        tree: Any = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
    path: list[str] = []
    while True:
        if isinstance(tree, list) and len(tree) == 1:
            tree = tree[0]
        if not isinstance(tree, dict) or len(tree) != 1:
            return tuple(path)
        ((key, tree),) = tree.items()
        path.append(key)


def _places(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    table: tuple[str, ...] = ()
    inside = ""  # the delimiter of a text over several lines that we are in
    for number, line in enumerate(text.splitlines(), 1):
        quotes = _TRIPLE.findall(line)
        was_inside = bool(inside)
        for quote in quotes:
            inside = quote if not inside else ("" if quote == inside else inside)
        stripped = line.strip()
        if was_inside or not stripped or stripped.startswith("#"):
            continue
        if stripped.startswith("["):
            path = _path_of(stripped)
            if path:
                table = path
                yield path, number
        elif "=" in stripped:
            left = stripped.partition("=")[0]
            if path := _path_of(f"{left} = 0"):
                yield (*table, *path), number
