"""Folder of spool files. The spool owns a named file, also one known to a client."""

from __future__ import annotations

from typing import Protocol

import msgspec


class SpoolFolder(Protocol):
    """Anonymous spool files, and named ones for their owner alone."""

    def open(self) -> int:
        """Open an anonymous file; raises OSError."""

    def link(self, fd: int, suffix: str = "") -> str:
        """Name an anonymous file with this ending; return the path; raises OSError."""

    def unlink(self, path: str) -> None:
        """Remove a named file; never raises."""


class SavedFile(msgspec.Struct, frozen=True):
    """Named file with `reserved` bytes of the disk budget, without `omitted` bytes."""

    folder: SpoolFolder
    path: str
    reserved: int
    omitted: int = 0
