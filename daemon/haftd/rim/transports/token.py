"""The secret that a WebSocket client shows: 256 random bits in a file that only its owner can read.

Rules: a token is made whole beside its place and renamed into it, so that nobody ever reads half of
one or opens it before its mode is set. A file that is a link, another user's, readable by others, or
damaged is not believed: a new one takes its place. The token is never logged.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

__all__ = ["ensure_token"]

_FORM = re.compile(rb"[A-Za-z0-9_-]{43}\n?")


def ensure_token(path: Path) -> str:
    """Read the token at `path`, or make one there. Raises `OSError` when it cannot be kept."""
    return _believed(path) or _made(path)


def _believed(path: Path) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            return None
        if found.st_mode & 0o077 or found.st_nlink != 1:
            return None
        text = file.read(64)
    return text.strip().decode() if _FORM.fullmatch(text) else None


def _made(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(token.encode() + b"\n")
        beside.rename(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return token
