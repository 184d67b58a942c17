"""`handles.lock`: journal of started processes that have not ended, for the next daemon.

Only the holder of `daemon.lock` writes, by appending without fsync: a power loss changes the boot
id, which voids every record. A rewrite is by rename: in place it would tear. A file with invalid
lines is put aside as `handles.lock.bad-<n>`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat as st
from collections.abc import Sequence
from pathlib import Path

from haftd.host.recovery.record import (
    Record,
    Records,
    end_line,
    head_line,
    others_line,
    read,
    start_line,
    stopped_line,
)

_MAX_ASIDE = 5
"""Bad files that are kept."""
_MAX_KEPT_ASIDE = 1 << 20
"""Bytes of each; the runtime folder is memory."""
_COMPACT_ABOVE = 256 << 10
"""Bytes from which on the file is rewritten when most of its records have ended."""
_FLAGS = os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK


def read_records(path: Path) -> list[Record]:
    """Read the live records without changing the file; empty for an invalid file."""
    try:
        fd = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return []
    try:
        return list(read(fd).live.values())
    except (OSError, MemoryError):
        return []
    finally:
        os.close(fd)


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []
        self._live: dict[str, Record] = {}
        self._stopped: set[str] = set()
        """Marks of live records that have stopped since read."""
        self._fd: int | None = None
        self._torn = False
        self._dead = 0

    @classmethod
    def open(cls, path: Path) -> Journal:
        """Read the file; no content makes this fail.

        `records` are then the live records, `problems` the faults. A bad file gets a second name
        and stays until `compact`: a crash between loses no record.
        """
        journal = cls(path)
        try:
            fd = os.open(path, os.O_RDWR | _FLAGS)
        except FileNotFoundError:
            return journal
        except OSError as error:
            # A symbolic link, a folder, another user's file: not ours.
            journal.problems.append(f"{path.name} cannot be opened: {error.strerror}")
            journal._move_aside()
            return journal
        facts = os.fstat(fd)
        if not st.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            os.close(fd)
            journal.problems.append(f"{path.name} is not a file of this user")
            journal._move_aside()
            return journal
        journal._fd = fd
        try:
            reading = read(fd)
        except (OSError, MemoryError) as error:
            reading = Records()
            reading.problems.append(f"it cannot be read: {error}")
        journal._live, journal._torn = reading.live, reading.torn
        if reading.problems:
            journal._torn = facts.st_size > 0
            journal.problems += [f"{path.name}: {text}" for text in reading.problems]
            journal._link_aside()
        return journal

    @property
    def records(self) -> list[Record]:
        """Return the processes that have not ended, oldest first."""
        return [
            record._replace(is_stopped=True) if mark in self._stopped else record
            for mark, record in self._live.items()
        ]

    def start(self, record: Record) -> None:
        """Append a start, before the gate opens; raise OSError, with nothing written."""
        self._append(start_line(record))
        self._live[record.mark] = record
        self._stopped.discard(record.mark)

    def stopped(self, mark: str) -> None:
        """Append a recorded handle's stop; raise OSError: a crash then reports the handle lost."""
        if mark in self._live:
            self._stopped.add(mark)
            self._append(stopped_line(mark))

    def end(self, mark: str) -> None:
        """Append that nothing of this handle is left; raise OSError, which costs the next start one
        futile check."""
        if self._live.pop(mark, None) is None:
            return
        self._stopped.discard(mark)
        self._dead += 1
        self._append(end_line(mark))
        if self._dead > len(self._live) + 100 and self._size() > _COMPACT_ABOVE:
            # The longer file serves as well.
            with contextlib.suppress(OSError):
                self.compact()

    def compact(self, keep: Sequence[Record] | None = None) -> None:
        """Rewrite the file with the live records, or `keep`.

        Raises OSError, with the old file still in use.
        """
        live = {record.mark: record for record in (self.records if keep is None else keep)}
        lines = [head_line()]
        for record in live.values():
            lines.append(start_line(record))
            if record.others:
                lines.append(others_line(record.mark, record.others))
            if record.is_stopped:
                lines.append(stopped_line(record.mark))
        temp = self.path.with_name(self.path.name + ".new")
        with contextlib.suppress(FileNotFoundError):
            temp.unlink()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW
        fd = os.open(temp, flags, 0o1600)  # sticky: spared by age cleaners
        try:
            data = memoryview(b"".join(lines))
            while data:
                data = data[os.write(fd, data) :]
            temp.rename(self.path)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                temp.unlink()
            raise
        if self._fd is not None:
            os.close(self._fd)
        self._fd, self._live, self._torn, self._dead = fd, live, False, 0
        self._stopped.clear()
        self._prune_aside()

    def is_in_place(self) -> bool:
        """True if the path leads to the open file, or to any file before the first write."""
        try:
            current = self.path.lstat()
        except OSError:
            return False
        if self._fd is None:
            return True
        held = os.fstat(self._fd)
        return (current.st_dev, current.st_ino) == (held.st_dev, held.st_ino)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _size(self) -> int:
        return 0 if self._fd is None else os.fstat(self._fd).st_size

    def _append(self, line: bytes) -> None:
        if self._fd is None:
            self.compact()
        if self._fd is None:
            raise AssertionError("the journal has no open file after `compact`")
        facts = os.fstat(self._fd)
        if facts.st_nlink == 0:
            # No reader would find a line there: the live records are written again.
            self.compact()
            facts = os.fstat(self._fd)
        data = b"\n" + line if self._torn else line
        written = os.write(self._fd, data)
        if written != len(data):
            try:
                os.ftruncate(self._fd, facts.st_size)
            except OSError:
                self._torn = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._torn = False

    def _bad_files(self) -> list[Path]:
        prefix = self.path.name + ".bad-"
        with contextlib.suppress(OSError):
            names = [path for path in self.path.parent.iterdir() if path.name.startswith(prefix)]
            numbered = [path for path in names if path.name[len(prefix) :].isdecimal()]
            return sorted(numbered, key=lambda path: int(path.name[len(prefix) :]))
        return []

    def _next_aside(self) -> Path:
        aside = self._bad_files()
        number = 1 + (int(aside[-1].name.rpartition("-")[2]) if aside else 0)
        return self.path.with_name(f"{self.path.name}.bad-{number}")

    def _link_aside(self) -> None:
        """Give the bad file a second name, once for all starts."""
        try:
            inode = self.path.stat().st_ino
            if all(path.lstat().st_ino != inode for path in self._bad_files()):
                os.link(self.path, self._next_aside(), follow_symlinks=False)
        except OSError as error:
            self.problems.append(f"{self.path.name} could not be put aside: {error.strerror}")

    def _move_aside(self) -> None:
        try:
            self.path.rename(self._next_aside())
        except OSError as error:
            self.problems.append(f"{self.path.name} could not be put aside: {error.strerror}")

    def _prune_aside(self) -> None:
        """Keep the newest few, and a part of each: the runtime folder is memory."""
        aside = self._bad_files()
        for path in aside[:-_MAX_ASIDE]:
            with contextlib.suppress(OSError):
                path.unlink()
        for path in aside[-_MAX_ASIDE:]:
            with contextlib.suppress(OSError):
                facts = path.lstat()
                if st.S_ISREG(facts.st_mode) and facts.st_size > _MAX_KEPT_ASIDE:
                    os.truncate(path, _MAX_KEPT_ASIDE)
