"""Where spools keep files, and a file that was given a name.

Rules: values and a seam; what is written there, and when, is not known here. Who was told the name
reads the file, so it belongs to the spool and goes with it.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["SavedFile", "SpoolFolder"]


class SpoolFolder(Protocol):
    """Where spools are, and files with a name that only their owner can read."""

    def open(self) -> int:
        """Open a file without a name; raises OSError."""

    def link(self, fd: int) -> str:
        """Give such a file a name, and return its path; raises OSError."""

    def unlink(self, path: str) -> None:
        """Remove a file that was given a name; never raises."""


class SavedFile(msgspec.Struct, frozen=True):
    """A file, the folder it is in, and how many bytes of the output are not even in there."""

    folder: SpoolFolder
    path: str
    reserved: int
    omitted: int = 0
