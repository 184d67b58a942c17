"""What a WebSocket client and the daemon show each other: 256 random bits each, in files of the owner's.

The token is sent to whoever listens at the port. That may be another process while this one does not, so
a token holds for one listener: it is made once the port is bound, and removed with it. The daemon in its
turn proves that it has the key, which is never sent, by an HMAC of the client's challenge.

Rules: a file is made whole beside its place and renamed into it, so that nobody ever reads half of one or
opens it before its mode is set. One that is a link, another user's, readable by others, or damaged is not
believed: a new one takes its place. Neither secret is ever logged.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from haft_protocol.paths import Runtime

_FORM = re.compile(rb"[A-Za-z0-9_-]{43}\n?")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The token that a client shows, and the key by which the daemon proves who it is."""

    token: str = field(repr=False)
    key: str = field(repr=False)

    @classmethod
    def make(cls, places: Runtime) -> Credentials:
        """Make new ones in the runtime folder. Raises `OSError` when they cannot be kept."""
        made = cls(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        made.write(places)
        return made

    @classmethod
    def keep(cls, places: Runtime) -> Credentials:
        """Read those that are there, or make what is missing: for a port that a service manager has
        held all the time. Raises `OSError`."""
        token, key = _believed(Path(places.token)), _believed(Path(places.proof_key))
        kept = cls(token or secrets.token_urlsafe(32), key or secrets.token_urlsafe(32))
        if token is None or key is None:
            kept.write(places)
        return kept

    @staticmethod
    def remove(places: Runtime) -> None:
        """Remove the files: no client is to send its token to whoever listens next. Raises `OSError`."""
        for path in (places.token, places.proof_key):
            Path(path).unlink(missing_ok=True)

    def are_there(self, places: Runtime) -> bool:
        """Say whether both files are there."""
        return all(os.path.lexists(path) for path in (places.token, places.proof_key))

    def write(self, places: Runtime) -> None:
        """Put both files in their places. Raises `OSError`."""
        _put(Path(places.proof_key), self.key)
        _put(Path(places.token), self.token)

    def prove(self, challenge: str) -> str:
        """Return the proof for a client's challenge, as hex digits."""
        return hmac.new(self.key.encode(), challenge.encode(), hashlib.sha256).hexdigest()


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


def _put(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    # Sticky: spared by age cleaners.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(beside, flags, 0o1600)
    try:
        with open(fd, "wb") as file:
            file.write(text.encode() + b"\n")
        beside.rename(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
