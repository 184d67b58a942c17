"""Credentials of the WebSocket: token and key, 256 random bits each, in the owner's files.

A client sends the token to any process at the port, so a token serves one listener, and is made
after the bind. The key is never sent: the daemon proves it by an HMAC of the client's challenge.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import ClassVar

from haft_protocol.runtime_paths import Runtime
from haftd.lazy_pattern import lazy_pattern
from haftd.redaction import Redacted

_FORM = lazy_pattern(rb"[A-Za-z0-9_-]{43}\n?")


class Credentials(Redacted, frozen=True):
    UNSHOWN: ClassVar[tuple[str, ...]] = ("token", "key")
    token: str
    key: str

    @classmethod
    def make(cls, places: Runtime) -> Credentials:
        """Create the files in the runtime folder. Raises `OSError`."""
        credentials = cls(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        credentials.write(places)
        return credentials

    @classmethod
    def keep(cls, places: Runtime) -> Credentials:
        """Read or create the files, for a service manager's port. Raises `OSError`."""
        token, key = _read_trusted(Path(places.token)), _read_trusted(Path(places.proof_key))
        credentials = cls(token or secrets.token_urlsafe(32), key or secrets.token_urlsafe(32))
        if token is None or key is None:
            credentials.write(places)
        return credentials

    @staticmethod
    def remove(places: Runtime) -> None:
        """Remove the files, so that the port's next listener gets no token. Raises `OSError`."""
        for path in (places.token, places.proof_key):
            Path(path).unlink(missing_ok=True)

    def are_there(self, places: Runtime) -> bool:
        return all(os.path.lexists(path) for path in (places.token, places.proof_key))

    def write(self, places: Runtime) -> None:
        _put(Path(places.proof_key), self.key)
        _put(Path(places.token), self.token)

    def prove(self, challenge: str) -> str:
        """Return the proof for a challenge, in hex digits."""
        return hmac.new(self.key.encode(), challenge.encode(), hashlib.sha256).hexdigest()


def _read_trusted(path: Path) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return None
        if status.st_mode & 0o077 or status.st_nlink != 1:
            return None
        text = file.read(64)
    return text.strip().decode() if _FORM.fullmatch(text) else None


def _put(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    # The sticky bit keeps age cleaners away.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    fd = os.open(beside, flags, 0o1600)
    try:
        with open(fd, "wb") as file:
            file.write(text.encode() + b"\n")
        beside.rename(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
