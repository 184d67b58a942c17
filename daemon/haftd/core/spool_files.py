"""The folder of spool files, and a named file in the folder.

Rules: values and a protocol without I/O. A client that got the name reads the file, so the file belongs to
the spool and is removed with the spool.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class SpoolFolder(Protocol):
    """A folder of anonymous spool files and of named files that only their owner can read."""

    def open(self) -> int:
        """Open an anonymous file; raises OSError."""

    def link(self, fd: int, suffix: str = "") -> str:
        """Give an anonymous file a name that ends so, and return its path; raises OSError."""

    def unlink(self, path: str) -> None:
        """Remove a named file; never raises."""


class SavedFile(msgspec.Struct, frozen=True):
    """A named file: its folder, its path, its bytes of the disk budget, and the bytes of output that it
    lacks."""

    folder: SpoolFolder
    path: str
    reserved: int
    omitted: int = 0
