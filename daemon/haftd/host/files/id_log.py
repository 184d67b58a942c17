"""Log of used handle ids in the state folder, for the next daemon.

A use is a JSON line, `["session","id",generation]`, appended without fsync before the tool starts;
generation 0 takes it back. An id lost by a failed write is unused after a restart instead of
expired.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring_ascii
from pathlib import Path

MAX_LINES = 20_000
"""Lines after which the file is rewritten with the known ids alone."""
_MAX_READ = 8 << 20
"""Bytes read at a start, the newest: more than `MAX_LINES` take."""

Use = tuple[str, str, int]
"""Session, id, and the id's last generation."""


class IdLog:
    """Log at `path`; `known` returns the ids for a rewritten file, the longest unused first."""

    def __init__(self, path: Path, known: Callable[[], Iterable[Use]]) -> None:
        self._path = path
        self._known = known
        self._fd: int | None = None
        self._lines = 0

    def load(self) -> list[Use]:
        """Return the file's ids, the longest unused first."""
        generations: dict[tuple[str, str], int] = {}
        lines = self._read().split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                match json.loads(line):
                    case [str(session), str(id_), int(generation)]:
                        generations.pop((session, id_), None)
                        if generation > 0:
                            generations[session, id_] = generation
        self._lines = len(lines)
        return [(session, id_, generation) for (session, id_), generation in generations.items()]

    def note(self, session: str, id_: str, generation: int) -> None:
        """Append a use, in a rewritten file after `MAX_LINES`; ignore a failed write."""
        with contextlib.suppress(OSError):
            if self._lines >= MAX_LINES:
                self._rewrite()
            if self._fd is None or os.fstat(self._fd).st_nlink == 0:
                self._open()
            self._write(_encode_line(session, id_, generation))
            self._lines += 1

    def close(self) -> None:
        """Close the file until the next note."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self) -> bytes:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return b""
        try:
            return os.pread(fd, _MAX_READ, max(0, os.fstat(fd).st_size - _MAX_READ))
        except OSError:
            return b""
        finally:
            os.close(fd)

    def _open(self, flags: int = 0, path: Path | None = None) -> None:
        self.close()
        flags |= os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(path or self._path, flags, 0o600)
        self._fd = fd
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            self._write(b"\n")  # a cut line must not swallow the next

    def _write(self, data: bytes) -> None:
        if self._fd is None:
            raise AssertionError("the log was written before it was opened")
        os.write(self._fd, data)

    def _rewrite(self) -> None:
        temp = self._path.with_name(f"{self._path.name}.new")
        temp.unlink(missing_ok=True)
        lines = [_encode_line(*use) for use in self._known()]
        self._open(os.O_EXCL, temp)
        self._write(b"".join(lines))
        temp.rename(self._path)
        self._lines = len(lines)


def _encode_line(session: str, id_: str, generation: int) -> bytes:
    # An encoder for the whole list takes six times as long, at each start.
    session, id_ = encode_basestring_ascii(session), encode_basestring_ascii(id_)
    return b"[%b,%b,%d]\n" % (session.encode(), id_.encode(), generation)
