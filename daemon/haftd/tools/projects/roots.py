"""Files in a root's `.haft/tools/`, as hashed bytes of untrusted input.

Nothing is parsed, reads never block, links to folders are not followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from typing import ClassVar

import msgspec

from haftd.redaction import Redacted

FOLDER = ".haft/tools"
MAX_FILE_BYTES = 64 * 1024
"""Bytes of one file."""

MAX_FILES = 64
"""Files of one root."""

_MAX_BYTES = 1024 * 1024
"""Bytes of all files of one root."""
_MAX_ENTRIES = 4096
"""Entries of the folder and its subfolders."""
_STILL_NS = 50_000_000
"""A file modified more recently may change again with equal timestamps."""


class HashedFile(Redacted, frozen=True):
    """Content of a file."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("data",)

    name: str
    """Path below the folder of definitions."""
    path: str
    data: bytes
    digest: str


class RefusedFile(msgspec.Struct, frozen=True):
    """Refused regardless of trust."""

    name: str
    path: str
    why: str
    """End of a sentence."""


_Entry = tuple[str, os.stat_result | None]


def resolve_root(root: str) -> str:
    """Return the path without links."""
    return os.path.realpath(root)


def find_project(root: str) -> str:
    """Return the nearest canonical folder at or above `root` with definitions, else `root`. Folders
    above count only if this user's or root's, as no caller named them."""
    path = start = resolve_root(root)
    while True:
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(os.path.join(path, FOLDER))  # noqa: PTH116, PTH118
            is_trusted_owner = path == start or status.st_uid in (0, os.geteuid())
            if is_trusted_owner and stat.S_ISDIR(status.st_mode):
                return path
        if path == "/":
            return start
        path = os.path.dirname(path)  # noqa: PTH120


def hash_data(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def decode_text(file: HashedFile) -> str:
    """Return the text, with invalid UTF-8 escaped."""
    return file.data.decode(errors="backslashreplace")


def hash_files(files: Iterable[HashedFile | RefusedFile]) -> str:
    """Return a digest of names and contents, as `sha256sum` computes it over its own lines."""
    lines = (f"{file.digest}  {file.name}\n" for file in files if isinstance(file, HashedFile))
    return hash_data("".join(lines).encode())


class Folder:
    """The folder of definitions in a root."""

    def __init__(self, root: str, clock: Callable[[], int] = time.time_ns) -> None:
        self._root = root
        self._folder = os.path.join(root, FOLDER)  # noqa: PTH118
        self._clock = clock
        self._seen: object = None
        self._files: tuple[HashedFile | RefusedFile, ...] = ()

    def read_files(self) -> tuple[HashedFile | RefusedFile, ...]:
        """Return the definition files by name; an unchanged folder returns the identical tuple."""
        now = self._clock()
        try:
            entries = self._list_entries()
        except (FileNotFoundError, NotADirectoryError):
            entries = []
        except OSError as error:
            return self._keep((RefusedFile("", self._folder, _explain(error)),), None)
        if entries is None:
            return self._keep((RefusedFile("", self._folder, _TOO_MANY),), None)
        seen = [(name, _make_signature(status)) for name, status in entries]
        if seen == self._seen:
            return self._files
        read = tuple(self._read(name, status) for name, status in entries)
        if sum(len(file.data) for file in read if isinstance(file, HashedFile)) > _MAX_BYTES:
            read = (RefusedFile("", self._folder, f"its files are larger than {_MAX_BYTES} bytes"),)
        newest = max((max(s.st_mtime_ns, s.st_ctime_ns) for _, s in entries if s), default=0)
        return self._keep(read, seen if now - newest > _STILL_NS else None)

    def _keep(
        self, read: tuple[HashedFile | RefusedFile, ...], seen: object
    ) -> tuple[HashedFile | RefusedFile, ...]:
        """Remember and return the files; the former tuple if they are equal."""
        self._seen = seen
        if read != self._files:
            self._files = read
        return self._files

    def _list_entries(self) -> list[_Entry] | None:
        """Return the definition files, and unlistable folders; None above the limit."""
        files: list[_Entry] = []
        count = 0
        waiting = [""]
        while waiting:
            above = waiting.pop()
            try:
                entries = os.scandir(os.path.join(self._folder, above))  # noqa: PTH118
            except OSError:
                if not above:
                    raise
                files.append((above, None))
                continue
            with entries:
                for entry in entries:
                    count += 1
                    name = f"{above}/{entry.name}" if above else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [name] if not entry.name.startswith(".") else []
                    elif entry.name.endswith(".toml") or _leads_to_folder(entry):
                        files.append((name, _read_facts(entry)))
                    if count > _MAX_ENTRIES or len(files) > MAX_FILES:
                        return None
        return sorted(files, key=lambda file: file[0].split("/"))

    def _read(self, name: str, before: os.stat_result | None) -> HashedFile | RefusedFile:
        path = os.path.join(self._folder, name)  # noqa: PTH118
        if not name.isprintable():
            escaped = ascii(name)[1:-1]
            path = os.path.join(self._folder, escaped)  # noqa: PTH118
            return RefusedFile(escaped, path, "its name has unprintable characters")
        if before is None and not os.path.islink(path):  # noqa: PTH114
            return RefusedFile(name, path, "it cannot be read, or is gone")
        if before is None:
            return RefusedFile(name, path, "it is a link that leads to no file")
        if stat.S_ISDIR(before.st_mode):
            return RefusedFile(name, path, "it is a link to a folder, which is not followed")
        if not stat.S_ISREG(before.st_mode):
            return RefusedFile(name, path, "it is not a regular file")
        try:
            # The regular file may have become a pipe.
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            return RefusedFile(name, path, _explain(error))
        try:
            why = self._find_fault(fd)
            data = b"" if why else _read_content(fd)
        except OSError as error:
            return RefusedFile(name, path, _explain(error))
        finally:
            os.close(fd)
        if not why and len(data) > MAX_FILE_BYTES:
            why = f"it is larger than {MAX_FILE_BYTES} bytes"
        return (
            RefusedFile(name, path, why) if why else HashedFile(name, path, data, hash_data(data))
        )

    def _find_fault(self, fd: int) -> str:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file"
        if status.st_mode & stat.S_IWOTH:
            return "it is writable by everybody; run `chmod o-w` on it"
        real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        if not real.startswith(self._root.rstrip("/") + "/"):
            return "it is a link that leads out of the root"
        if status.st_size > MAX_FILE_BYTES:
            return f"it is larger than {MAX_FILE_BYTES} bytes"
        return ""


_TOO_MANY = f"there are more than {MAX_FILES} definition files, or than {_MAX_ENTRIES} files"


def _read_facts(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError:
        return None


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() and entry.is_dir()
    except OSError:
        return False


def _read_content(fd: int) -> bytes:
    data = b""
    while len(data) <= MAX_FILE_BYTES and (piece := os.read(fd, MAX_FILE_BYTES + 1 - len(data))):
        data += piece
    return data


def _make_signature(status: os.stat_result | None) -> object:
    """Return all that changes with a file's content; None for a file that cannot be examined."""
    return status and (
        *(status.st_dev, status.st_ino, status.st_mode, status.st_size),
        *(status.st_mtime_ns, status.st_ctime_ns),
    )


def _explain(error: OSError) -> str:
    return f"it cannot be read: {error.strerror or 'the system gave no reason'}"
