"""Audit log: one JSON line per action on a handle, on trust or on the daemon, without secrets, mode 0600,
rotated above `MAX_FILE_SIZE`.

A failed write raises nothing: failures are counted, and the next line that is written follows a line
with their number.
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
from haftd.caller import Caller
from haftd.core.handles import Handle

MAX_FILE_SIZE = 8 * 1024 * 1024
"""Bytes."""

_MAX_INPUT = 4096
"""Characters of a recorded input."""
_MAX_KEYS = 64

_encode = msgspec.json.Encoder().encode
log = structlog.get_logger("haftd.audit")


class Audit:
    """Audit log at `path`, shared by a state folder's daemons."""

    def __init__(
        self, path: str, *, limit: int = MAX_FILE_SIZE, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._limit = limit
        self._clock = clock
        self._fd: int | None = None
        self._file: tuple[int, int] = (0, 0)
        self._has_partial_line = False
        self._lost_records = 0
        self._failure = ""
        try:
            self._open()
        except OSError as error:
            self._fail(error)

    @property
    def problems(self) -> tuple[Problem, ...]:
        if not self._failure:
            return ()
        lost = f"; {self._lost_records} records are missing so far" if self._lost_records else ""
        return (Problem(file=self._path, key="", message=f"{self._failure}{lost}"),)

    def record(self, event: str, **fields: object) -> None:
        """Write a line with the time, the event and these fields."""
        self._record({"at": self._now(), "event": event, **fields})

    def _now(self) -> float:
        return round(self._clock(), 3)

    def _record(self, fields: dict[str, object]) -> None:
        line = _encode(fields) + b"\n"
        if self._lost_records:
            lost = fields["at"], self._lost_records
            line = b'{"at":%r,"event":"lost","records":%d}\n' % lost + line
        try:
            self._write(line)
        except OSError as error:
            self._lost_records += 1
            self._fail(error)
        else:
            if self._failure:
                log.info(
                    "the audit log can be written again", path=self._path, lost=self._lost_records
                )
            self._lost_records, self._failure = 0, ""

    def record_action(
        self, event: str, caller: Caller, handle: Handle | None = None, **more: object
    ) -> None:
        fields: dict[str, object] = {"at": self._now(), "event": event, "client": caller.identity}
        if handle is not None:
            fields["session"] = handle.session
            fields["handle"] = handle.id
            fields["generation"] = handle.generation
        fields.update(more)
        self._record(fields)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _fail(self, error: OSError) -> None:
        if not self._failure:
            log.warning("the audit log cannot be written", path=self._path, why=error.strerror)
        self._failure = f"the audit log cannot be written: {error.strerror}"

    def _write(self, line: bytes) -> None:
        fd = self._open_current(len(line))
        if self._has_partial_line:
            line = b"\n" + line
        written = os.write(fd, line)
        self._has_partial_line = written < len(line)
        if self._has_partial_line:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _open_current(self, size: int) -> int:
        try:
            status = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116
        except FileNotFoundError:
            status = None
        if self._fd is None or status is None or (status.st_dev, status.st_ino) != self._file:
            fd = self._open()
            status = os.fstat(fd)
        else:
            fd = self._fd
        if status.st_size and status.st_size + size > self._limit:
            fd = self._rotate(fd)
        return fd

    def _rotate(self, fd: int) -> int:
        """Rename the file to `….1` if this daemon gets the lock, then reopen; other daemons reopen later.
        Without the lock the full file is written on."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return fd
        status = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116
        if (status.st_dev, status.st_ino) == self._file:
            os.rename(self._path, f"{self._path}.1")  # noqa: PTH104
        return self._open()

    def _open(self) -> int:
        self.close()
        # O_RDWR to read the last byte; O_NONBLOCK in case of a FIFO.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(error.errno, "it is a symbolic link") from None
            raise
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
            if status.st_uid != os.geteuid():
                raise OSError(errno.EPERM, f"it belongs to the user with uid {status.st_uid}")
            if stat.S_IMODE(status.st_mode) != 0o600:
                os.fchmod(fd, 0o600)
            end = status.st_size
            self._has_partial_line = bool(end) and os.pread(fd, 1, end - 1) != b"\n"
        except BaseException:
            os.close(fd)
            raise
        self._fd, self._file = fd, (status.st_dev, status.st_ino)
        return fd


def make_input_fields(form: object) -> dict[str, object]:
    """Return a non-secret input as the field `input`; a long one is cut, with its `length` beside it."""
    match form:
        case str() if len(form) > _MAX_INPUT:
            return {"input": form[:_MAX_INPUT], "length": len(form)}
        case {"keys": list(keys)} if len(keys) > _MAX_KEYS:
            return {"input": {"keys": keys[:_MAX_KEYS]}, "length": len(keys)}
        case dict():
            for kind, text in form.items():
                if isinstance(text, str) and len(text) > _MAX_INPUT:
                    return {"input": {kind: text[:_MAX_INPUT]}, "length": len(text)}
    return {"input": form}
