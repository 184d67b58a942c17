"""The audit log: who did what to a handle, one JSON line a deed, in the state folder.

Rules: what was done is recorded, by whoever did it, at that moment; what was refused is not. A record
is one `write` to a file of 0600 that is appended to, never one through a link or into somebody
else's file. Its size is bounded: past `LIMIT` the file becomes the older one, and that is dropped.
Nothing here raises: a record that cannot be written is counted and named among the problems, and
the log itself says how many are missing once it goes on. What is secret never gets here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable

import msgspec
import structlog

from haft_protocol.methods import Problem

__all__ = ["LIMIT", "Audit", "typed"]

LIMIT = 8 * 1024 * 1024
"""Bytes of the file; as many again are kept in the older one."""

_LONGEST_INPUT = 4096
_MOST_KEYS = 64

log = structlog.get_logger("haftd.audit")


class Audit:
    """The audit log at `path`, shared with any other daemon of the same state folder."""

    def __init__(
        self, path: str, *, limit: int = LIMIT, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._limit = limit
        self._clock = clock
        self._fd: int | None = None
        self._file: tuple[int, int] = (0, 0)
        self._torn = False
        self._lost = 0
        self._why = ""
        try:
            self._open()
        except OSError as error:
            self._fail(error)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with it now; empty as soon as records are written again."""
        if not self._why:
            return ()
        lost = f"; {self._lost} records are missing so far" if self._lost else ""
        return (Problem(file=self._path, key="", message=f"{self._why}{lost}"),)

    def record(self, event: str, **fields: object) -> None:
        """Write one record; what cannot be written is counted."""
        now = round(self._clock(), 3)
        line = msgspec.json.encode({"at": now, "event": event, **fields}) + b"\n"
        if self._lost:
            line = b'{"at":%r,"event":"lost","records":%d}\n' % (now, self._lost) + line
        try:
            self._write(line)
        except OSError as error:
            self._lost += 1
            self._fail(error)
        else:
            if self._why:
                log.info("the audit log is written again", path=self._path, lost=self._lost)
            self._lost, self._why = 0, ""

    def close(self) -> None:
        """Let the file go; the next record opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _fail(self, error: OSError) -> None:
        if not self._why:
            log.warning("the audit log cannot be written", path=self._path, why=error.strerror)
        self._why = f"the audit log cannot be written: {error.strerror}"

    def _write(self, line: bytes) -> None:
        fd = self._current(len(line))
        if self._torn:
            line = b"\n" + line
        written = os.write(fd, line)
        self._torn = written < len(line)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _current(self, size: int) -> int:
        """The file to write `size` bytes into: the one that has the name now, with room in it."""
        try:
            found = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116
        except FileNotFoundError:
            found = None
        if self._fd is None or found is None or (found.st_dev, found.st_ino) != self._file:
            fd = self._open()
            found = os.fstat(fd)
        else:
            fd = self._fd
        if found.st_size and found.st_size + size > self._limit:
            fd = self._turn(fd)
        return fd

    def _turn(self, fd: int) -> int:
        """Make it the older file and begin a new one. Another daemon may be about to do the same:
        who has the lock does it, the other finds it done at its next record."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return fd
        found = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116
        if (found.st_dev, found.st_ino) == self._file:
            os.rename(self._path, f"{self._path}.1")  # noqa: PTH104
        return self._open()

    def _open(self) -> int:
        self.close()
        # Read as well, for its last byte. A pipe of that name must not make us wait.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(error.errno, "it is a symbolic link") from None
            raise
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            if found.st_uid != os.geteuid():
                raise OSError(errno.EPERM, f"it belongs to the user with the number {found.st_uid}")
            if stat.S_IMODE(found.st_mode) != 0o600:
                os.fchmod(fd, 0o600)
            end = found.st_size
            self._torn = bool(end) and os.pread(fd, 1, end - 1) != b"\n"
        except BaseException:
            os.close(fd)
            raise
        self._fd, self._file = fd, (found.st_dev, found.st_ino)
        return fd


def typed(form: object) -> dict[str, object]:
    """What an input that is no secret is recorded as: as it was given, a long one cut, with the
    length that it had."""
    match form:
        case str() if len(form) > _LONGEST_INPUT:
            return {"input": form[:_LONGEST_INPUT], "length": len(form)}
        case {"keys": list(keys)} if len(keys) > _MOST_KEYS:
            return {"input": {"keys": keys[:_MOST_KEYS]}, "length": len(keys)}
        case dict():
            for kind, text in form.items():
                if isinstance(text, str) and len(text) > _LONGEST_INPUT:
                    return {"input": {kind: text[:_LONGEST_INPUT]}, "length": len(text)}
    return {"input": form}
