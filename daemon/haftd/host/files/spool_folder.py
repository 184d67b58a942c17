"""Folder of spools: unnamed files, and named files for a user to read.

Names begin with the daemon's home: daemons may share the folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from haftd.host.descriptors import has_room


class SpoolFolder:
    """Opens files in `path`; `make_room` closes descriptors if none is left, and returns True if it
    did."""

    def __init__(self, path: Path, home: str, make_room: Callable[[], bool]) -> None:
        self._path = path
        self._home = home
        self._make_room = make_room

    def open(self) -> int:
        """Open an unnamed file (O_TMPFILE of open(2)), once more after `make_room`. Raises OSError."""
        try:
            return self._open()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._make_room():
                raise
        return self._open()

    def _open(self) -> int:
        fd = os.open(self._path, os.O_TMPFILE | os.O_RDWR, 0o600)
        if has_room(fd, "output"):
            return fd
        os.close(fd)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(self._path))

    def link(self, fd: int, suffix: str = "") -> str:
        """Name an unnamed file with this suffix; return the path. Raises OSError."""
        path = self._path / f"{self._home}.{secrets.token_hex(8)}{suffix}"
        # Only with a folder Python has the kernel follow the link.
        folder = os.open(self._path, os.O_PATH | os.O_DIRECTORY)
        try:
            os.link(f"/proc/self/fd/{fd}", path.name, dst_dir_fd=folder, follow_symlinks=True)
        finally:
            os.close(folder)
        return str(path)

    def unlink(self, path: str) -> None:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def sweep(path: Path, home: str) -> None:
    """Remove the named files that an earlier daemon of `home` has left."""
    with contextlib.suppress(OSError):
        for stale in path.iterdir():
            if stale.name.startswith(f"{home}."):
                with contextlib.suppress(OSError):
                    stale.unlink()
