"""Regular files only: a FIFO would wait for a writer, and a device act."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, for another kind of file EINVAL."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return os.fdopen(fd, "rb")
