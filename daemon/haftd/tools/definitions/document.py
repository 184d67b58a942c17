"""TOML file as data, with line numbers of its keys.

Content is executed: file, folders and links of its path must be this user's or root's and not
world-writable.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from msgspec import UNSET

from haft_protocol.methods import Problem
from haftd.lazy_pattern import lazy_pattern
from haftd.ownership import has_foreign_owner, why_replaceable
from haftd.redaction import Redacted

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
"""Greatest size of a file: a larger one is no configuration."""

_MAX_DEPTH = 64
"""Nesting of tables and lists; later stages recurse."""

_MAX_DOTS = 64
"""Dots of a key whose line is found."""
_MAX_FOLDERS = 1_000
"""Folders searched for definitions: a start waits meanwhile."""
_NOT_REGULAR = "it is not a regular file"
_TOO_LONG = f"it is larger than {MAX_DOCUMENT_BYTES} bytes"
_TOO_DEEP = "it is nested too deeply"
_TOO_LARGE = "a number in it is larger than 64 bits, TOML's limit"
_AT = lazy_pattern(r" \(at line (\d+), column \d+\)$")
_KEY = r"([\w-]+(?:\.[\w-]+)*)"
_PLAIN = lazy_pattern(rf"\[{_KEY}\]|\[\[{_KEY}\]\]|{_KEY} *= 0", re.ASCII)
"""Most headers and left sides, for which tomllib takes thirty times as long."""

_SET_TWICE = lazy_pattern(r"Cannot (?:overwrite a value|declare|redefine|mutate)|Duplicate ")
_ONCE = "; a key or a table can be set only once, either as `key = …` or as `[table]`: remove one, or put both in one"
_TRIPLE = lazy_pattern(r'"""|\'\'\'')


class UnreadableFile(Exception):
    """Unreadable or malformed file; `line` if known.

    `is_kept`: modes or owners keep the file from being read, for example by a sandboxed tool.
    """

    def __init__(self, message: str, line: int | None = None, *, is_kept: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.is_kept = is_kept


class MissingFile(UnreadableFile):
    """No file."""


class Document(Redacted, frozen=True):
    """Parsed file."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("lines",)

    file: str
    data: dict[str, Any]
    lines: dict[tuple[str, ...], int]
    """Line numbers, from 1, by key path."""

    def line(self, path: Sequence[str]) -> int | None:
        """Return the line of the key, else of the nearest table around; None if neither is found."""
        for length in range(len(path), 0, -1):
            if (number := self.lines.get(tuple(path[:length]))) is not None:
                return number
        return None

    def problem(self, path: Sequence[str], message: str) -> Problem:
        return problem(self.file, ".".join(path), message, self.line(path))


def list_definition_files(
    folder: Path, on_error: Callable[[OSError], None] | None = None
) -> list[Path]:
    """Return the `*.toml` and `*.py` in a folder and subfolders, sorted by the parts of their
    paths.

    Links to folders are followed once each; hidden folders are skipped, and unlistable folders,
    which `on_error` gets. Raises `UnreadableFile` for too many folders, and OSError.
    """
    files: list[Path] = []
    seen: set[tuple[int, int]] = set()
    for path, folders, names in os.walk(folder, onerror=on_error, followlinks=True):
        facts = os.stat(path)  # noqa: PTH116
        if (facts.st_dev, facts.st_ino) in seen:
            folders.clear()
            continue
        seen.add((facts.st_dev, facts.st_ino))
        if len(seen) > _MAX_FOLDERS:
            raise UnreadableFile(f"it has more than {_MAX_FOLDERS} folders in it")
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(path, name) for name in names if name.endswith((".toml", ".py"))]
    return sorted(files, key=lambda file: file.relative_to(folder).parts)


def problem(file: str, key: str, message: str, line: int | None = None) -> Problem:
    return Problem(file=file, key=key, message=message, line=UNSET if line is None else line)


def read(path: Path) -> Document:
    """Read a TOML file; raises `UnreadableFile`."""
    return parse(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Read a file that is this user's or root's and not writable by everybody, in a folder that is, too.
    Raises `UnreadableFile`, `MissingFile`."""
    try:
        with os.fdopen(_open(path), "rb") as file:
            status = os.fstat(file.fileno())
            if why := _find_kind_fault(status):
                raise UnreadableFile(why)
            if why := _find_rights_fault(path, status):
                raise UnreadableFile(why, is_kept=True)
            data = file.read(MAX_DOCUMENT_BYTES + 1)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise UnreadableFile(_TOO_LONG)
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableFile(f"it is not UTF-8 (byte {error.start})") from None
    except FileNotFoundError:
        raise MissingFile("there is no such file") from None
    except OSError as error:
        is_kept = isinstance(error, PermissionError)
        raise UnreadableFile(error.strerror or "it cannot be read", is_kept=is_kept) from None


def _open(path: Path) -> int:
    """Open without blocking on a pipe or an effect on a device."""
    if path.exists() and not path.is_file():
        raise UnreadableFile(_NOT_REGULAR)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)


def _find_kind_fault(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return _NOT_REGULAR
    if status.st_size > MAX_DOCUMENT_BYTES:
        return _TOO_LONG
    return ""


def _find_rights_fault(path: Path, status: os.stat_result) -> str:
    # A link's owner chooses its target, the folder's writers the names.
    return (
        _find_foreign_write_fault(status, "it")
        or _find_foreign_write_fault(path.lstat(), "it")
        or _find_foreign_write_fault(path.parent.stat(), "its folder")
        or _find_redirection_fault(path)
    )


def _find_redirection_fault(path: Path) -> str:
    why = why_replaceable(str(path))
    return f"{why}, so it is not read" if why else ""


def _find_foreign_write_fault(status: os.stat_result, subject: str) -> str:
    if has_foreign_owner(status):
        return f"{subject} belongs to the user with uid {status.st_uid}, so it is not read"
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & stat.S_IWOTH and not sticky and not stat.S_ISLNK(status.st_mode):
        return f"{subject} is writable by everybody, so it is not read; `chmod o-w` {subject}"
    return ""


def parse(text: str, file: str) -> Document:
    """Parse TOML, `file` being its name in messages; raises `UnreadableFile`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _AT.search(message)
        line = int(place[1]) if place else None
        remedy = _ONCE if _SET_TWICE.match(message) else ""
        raise UnreadableFile(
            f"it is not valid TOML: {_AT.sub('', message)}{remedy}", line
        ) from None
    except RecursionError:
        raise UnreadableFile(_TOO_DEEP) from None
    except ValueError:
        raise UnreadableFile(_TOO_LARGE) from None
    for value, depth in _walk_values(data):
        if depth > _MAX_DEPTH:
            raise UnreadableFile(_TOO_DEEP)
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise UnreadableFile(_TOO_LARGE)
    return Document(file, data, dict(_list_places(text)))


def _walk_values(data: object) -> Iterator[tuple[object, int]]:
    """Yield each value of the data with its depth."""
    waiting = [(data, 0)]
    while waiting:
        value, depth = waiting.pop()
        yield value, depth
        if isinstance(value, dict | list):
            inner = value.values() if isinstance(value, dict) else value
            waiting.extend((each, depth + 1) for each in inner)


def _read_key(text: str) -> tuple[str, ...] | None:
    """Return the path of keys in a table's header, or in an assignment; None for another text."""
    if text.count(".") > _MAX_DOTS:
        return None  # perhaps not a key, and tomllib takes time in the square of its length
    if match := _PLAIN.fullmatch(text):
        return tuple(match[match.lastindex or 0].split("."))
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


def _list_places(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield path and line number of each table and key outside of inline tables and strings."""
    table: tuple[str, ...] = ()
    inside = ""  # delimiter of the open multi-line string
    for number, line in enumerate(text.split("\n"), 1):
        quotes = _TRIPLE.findall(line)
        was_inside = bool(inside)
        for quote in quotes:
            inside = quote if not inside else ("" if quote == inside else inside)
        stripped = line.strip()
        if was_inside or not stripped or stripped.startswith("#"):
            continue
        if stripped.startswith("["):
            path = _read_key(stripped)
            if path:
                table = path
                yield path, number
        elif "=" in stripped:
            left = stripped.partition("=")[0]
            if path := _read_key(f"{left} = 0"):
                yield (*table, *path), number


def merge_tables(below: Any, above: Any) -> Any:
    """Return `below` with the keys of `above`, table by table; `above` unless both are tables."""
    if isinstance(below, dict) and isinstance(above, dict):
        merged = dict(below)
        for key, value in above.items():
            merged[key] = merge_tables(below[key], value) if key in below else value
        return merged
    return above
