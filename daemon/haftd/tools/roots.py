"""What lies in a root's `.haft/tools/`: bytes with a digest, none of them believed or understood here.

Rules: a root comes from outside, and so does all that is in it. A file is looked at through the
descriptor that it was opened with: what is hashed is what is handed on. One that is no plain file,
leads out of the root, can be written by everybody or is too large is refused by name and harms no
other. Nothing waits: no pipe is opened, and how much is read has a bound. Subfolders are searched too; a
link to a folder is not followed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

FOLDER = ".haft/tools"
LARGEST = 64 * 1024
"""Bytes of one file."""

MAX_FILES = 64
"""Files of one root."""

_MAX_BYTES = 1024 * 1024
_MAX_ENTRIES = 4096
_STILL_NS = 50_000_000
"""A file that was changed less than this ago may change again without its times showing it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it was read. `name` is its path below the folder of definitions."""

    name: str
    path: str
    data: bytes = field(repr=False)
    digest: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that is not read, whoever trusts it; `why` is the end of a sentence about it."""

    name: str
    path: str
    why: str


_Entry = tuple[str, os.stat_result | None]


def canonical(root: str) -> str:
    """The one path of a root, without links."""
    return os.path.realpath(root)


def project_of(root: str) -> str:
    """The one path of the nearest folder at or above `root` that has definitions; without any, that of
    `root`. A folder above counts only if its definitions belong to this user or to root, as nobody has
    named it."""
    path = start = canonical(root)
    while True:
        with contextlib.suppress(OSError, ValueError):
            found = os.stat(os.path.join(path, FOLDER))  # noqa: PTH116, PTH118
            ours = path == start or found.st_uid in (0, os.geteuid())
            if ours and stat.S_ISDIR(found.st_mode):
                return path
        if path == "/":
            return start
        path = os.path.dirname(path)  # noqa: PTH120


def digest_of(data: bytes) -> str:
    """What stands for the content of a file."""
    return hashlib.sha256(data).hexdigest()


def text_of(found: Found) -> str:
    """What the file says; bytes that are no text are escaped."""
    return found.data.decode(errors="backslashreplace")


def whole(found: Iterable[Found | Refused]) -> str:
    """What stands for all files that can be trusted, by name and content."""
    lines = (f"{one.digest}  {one.name}\n" for one in found if isinstance(one, Found))
    return digest_of("".join(lines).encode())


class Folder:
    """The folder of one root, which is a canonical path. A look costs a few system calls where
    nothing has changed, and gives the same tuple then."""

    def __init__(self, root: str, clock: Callable[[], int] = time.time_ns) -> None:
        self._root = root
        self._folder = os.path.join(root, FOLDER)  # noqa: PTH118
        self._clock = clock
        self._seen: object = None
        self._found: tuple[Found | Refused, ...] = ()

    def look(self) -> tuple[Found | Refused, ...]:
        """The definition files by name; nothing where there is no such folder."""
        now = self._clock()
        try:
            entries = self._entries()
        except (FileNotFoundError, NotADirectoryError):
            entries = []
        except OSError as error:
            return self._keep((Refused("", self._folder, _reason(error)),), None)
        if entries is None:
            return self._keep((Refused("", self._folder, _TOO_MANY),), None)
        seen = [(name, _signature(found)) for name, found in entries]
        if seen == self._seen:
            return self._found
        read = tuple(self._read(name, found) for name, found in entries)
        if sum(len(one.data) for one in read if isinstance(one, Found)) > _MAX_BYTES:
            read = (Refused("", self._folder, f"its files are larger than {_MAX_BYTES} bytes"),)
        newest = max((max(s.st_mtime_ns, s.st_ctime_ns) for _, s in entries if s), default=0)
        return self._keep(read, seen if now - newest > _STILL_NS else None)

    def _keep(self, read: tuple[Found | Refused, ...], seen: object) -> tuple[Found | Refused, ...]:
        self._seen = seen
        if read != self._found:
            self._found = read
        return self._found

    def _entries(self) -> list[_Entry] | None:
        """The names below the folder that end as definitions do, and those of folders that cannot be
        searched; None where there are more than are looked at."""
        found: list[_Entry] = []
        count = 0
        waiting = [""]
        while waiting:
            above = waiting.pop()
            try:
                entries = os.scandir(os.path.join(self._folder, above))  # noqa: PTH118
            except OSError:
                if not above:
                    raise
                found.append((above, None))
                continue
            with entries:
                for entry in entries:
                    count += 1
                    name = f"{above}/{entry.name}" if above else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        waiting += [name] if not entry.name.startswith(".") else []
                    elif entry.name.endswith(".toml") or _leads_to_folder(entry):
                        found.append((name, _facts(entry)))
                    if count > _MAX_ENTRIES or len(found) > MAX_FILES:
                        return None
        return sorted(found, key=lambda one: one[0].split("/"))

    def _read(self, name: str, before: os.stat_result | None) -> Found | Refused:
        path = os.path.join(self._folder, name)  # noqa: PTH118
        if not name.isprintable():
            escaped = ascii(name)[1:-1]
            path = os.path.join(self._folder, escaped)  # noqa: PTH118
            return Refused(escaped, path, "its name has characters in it that are not seen")
        if before is None and not os.path.islink(path):  # noqa: PTH114
            return Refused(name, path, "it cannot be read, or is gone")
        if before is None:
            return Refused(name, path, "it cannot be found: a link that leads nowhere")
        if stat.S_ISDIR(before.st_mode):
            return Refused(name, path, "it is a link to a folder, which is not followed")
        if not stat.S_ISREG(before.st_mode):
            return Refused(name, path, "it is no regular file")
        try:
            # What was a file a moment ago may be a pipe now.
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            return Refused(name, path, _reason(error))
        try:
            why = self._fault(fd)
            data = b"" if why else _content(fd)
        except OSError as error:
            return Refused(name, path, _reason(error))
        finally:
            os.close(fd)
        if not why and len(data) > LARGEST:
            why = f"it is larger than {LARGEST} bytes"
        return Refused(name, path, why) if why else Found(name, path, data, digest_of(data))

    def _fault(self, fd: int) -> str:
        """Why what was opened is not to be read; empty where it is."""
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return "it is no regular file"
        if found.st_mode & stat.S_IWOTH:
            return "everybody may write to it; `chmod o-w` it"
        real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
        if not real.startswith(self._root.rstrip("/") + "/"):
            return "it is a link that leads out of the root"
        if found.st_size > LARGEST:
            return f"it is larger than {LARGEST} bytes"
        return ""


_TOO_MANY = f"there are more than {MAX_FILES} definition files, or than {_MAX_ENTRIES} files"


def _facts(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except OSError:
        return None


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink() and entry.is_dir()
    except OSError:
        return False


def _content(fd: int) -> bytes:
    data = b""
    while len(data) <= LARGEST and (piece := os.read(fd, LARGEST + 1 - len(data))):
        data += piece
    return data


def _signature(found: os.stat_result | None) -> object:
    return found and (
        *(found.st_dev, found.st_ino, found.st_mode, found.st_size),
        *(found.st_mtime_ns, found.st_ctime_ns),
    )


def _reason(error: OSError) -> str:
    return f"it cannot be read: {error.strerror or 'the system does not say why'}"
