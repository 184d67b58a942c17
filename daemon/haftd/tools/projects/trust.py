"""Trust store: each root's reviewed files, in the state folder.

Trust is in content: a digest, and the text for comparison. A broken store, or one writable by other
users, trusts nothing. A reader, also after a power failure, finds a whole version.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from haft_protocol.methods import Problem

MAX_STORE_BYTES = 16 * 1024 * 1024
"""The texts of all trusted files; a start reads the store whole."""
_MAX_TIME_S = 253_402_000_000
"""End of the year 9999, the last that calendars format."""
_NOTHING: Mapping[str, TrustedFile] = MappingProxyType({})


class TrustFault(Exception):
    """The store cannot be changed; the message ends a sentence."""


class TrustedFile(msgspec.Struct, frozen=True):
    digest: str
    text: str

    def __repr__(self) -> str:
        return f"TrustedFile({self.digest[:12]}…)"


class TrustedRoot(msgspec.Struct, frozen=True):
    """Trusted files of a root by name, and the grant's time in seconds since the epoch."""

    at: Annotated[float, msgspec.Meta(ge=0, le=_MAX_TIME_S)]
    files: dict[str, TrustedFile]


class _Store(msgspec.Struct, frozen=True):
    version: Literal[1] = 1
    roots: dict[str, TrustedRoot] = {}


_DECODER = msgspec.json.Decoder(_Store)


class Trust:
    """Store at `path`, shared by a state folder's daemons."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: object = None
        self._store = _Store()
        self._why = ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        self._read_current()
        if not self._why:
            return ()
        message = f"no root is trusted: {self._why}; `haft trust` begins a new one"
        return (Problem(file=self._path, key="", message=message),)

    def files(self, root: str) -> Mapping[str, TrustedFile]:
        """Return the root's trusted files by name."""
        record = self._read_current().roots.get(root)
        return _NOTHING if record is None else record.files

    def roots(self) -> Mapping[str, TrustedRoot]:
        return self._read_current().roots

    def grant(self, root: str, trusted: TrustedRoot) -> None:
        """Trust these files of the root and no other files. A broken store is renamed to `….bad`, and a
        new one begun. Raises `TrustFault`."""
        self._change(lambda roots: roots | {root: trusted})

    def revoke(self, root: str) -> bool:
        """Revoke the root's trust; return True if there was any. Raises `TrustFault`; treats a broken
        store as `grant` does."""
        was = False

        def without(roots: dict[str, TrustedRoot]) -> dict[str, TrustedRoot]:
            nonlocal was
            was = root in roots
            return {name: record for name, record in roots.items() if name != root}

        self._change(without)
        return was

    def _read_current(self) -> _Store:
        """Return the store, read again only after a write."""
        try:
            status = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116
        except FileNotFoundError:
            self._seen, self._store, self._why = None, _Store(), ""
            return self._store
        except OSError as error:
            self._seen, self._store, self._why = None, _Store(), _read_failure(error)
            return self._store
        # Each write replaces the file: another inode or time.
        seen = (
            *(status.st_dev, status.st_ino, status.st_size, status.st_mode),
            *(status.st_mtime_ns, status.st_ctime_ns),
        )
        if seen != self._seen:
            self._store, self._why = self._read()
            self._seen = seen
        return self._store

    def _read(self) -> tuple[_Store, str]:
        """Return the store, empty if it is broken, and the reason then."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            fd = os.open(self._path, flags)
        except OSError as error:
            return _Store(), _read_failure(error)
        try:
            with os.fdopen(fd, "rb") as file:
                if why := _find_fault(os.fstat(fd)):
                    return _Store(), why
                return _DECODER.decode(file.read(MAX_STORE_BYTES + 1)), ""
        except OSError as error:
            return _Store(), _read_failure(error)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _Store(), "it is not a trust store, or of another version"

    def _change(self, change: Callable[[dict[str, TrustedRoot]], dict[str, TrustedRoot]]) -> None:
        try:
            with self._lock():
                self._seen = None
                roots = change(self._read_current().roots)
                data = msgspec.json.encode(_Store(roots=roots))
                if len(data) > MAX_STORE_BYTES:
                    raise TrustFault(
                        f"the store would be larger than {MAX_STORE_BYTES} bytes; "
                        "`haft trust --list` shows what is in it, `--revoke` removes a root"
                    )
                if self._why:
                    self._put_aside()
                self._replace(data)
        except OSError as error:
            raise TrustFault(f"{self._path} cannot be written: {error.strerror}") from None

    def _put_aside(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.replace(self._path, f"{self._path}.bad")  # noqa: PTH105

    def _replace(self, data: bytes) -> None:
        new = f"{self._path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)  # noqa: PTH108
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(new, self._path)  # noqa: PTH105
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH120
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Lock out other daemons; a held lock fails at once, as locks are brief."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(f"{self._path}.lock", flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise TrustFault("another daemon is writing it; try again") from None
        finally:
            os.close(fd)


def _find_fault(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid != os.geteuid():
        return f"it belongs to the user with uid {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "it is writable by other users"
    if status.st_size > MAX_STORE_BYTES:
        return f"it is larger than {MAX_STORE_BYTES} bytes"
    return ""


def _read_failure(error: OSError) -> str:
    why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
    return f"it cannot be read: {why}"
