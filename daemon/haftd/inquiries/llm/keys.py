"""API key of a provider."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from haftd.config.inquiry_settings import LlmSettings
from haftd.lazy_pattern import lazy_pattern
from haftd.ownership import why_replaceable

_MAX_KEY_BYTES = 64 * 1024
"""Read of a key's file: more than any key has, so that the rest is seen to be none."""
_KEY = lazy_pattern(r"[\x21-\x7e]{1,8192}")


class NoKey(Exception):
    """The key is unavailable; the message has reason and remedy, never the content of file or
    variable."""


def read_key(settings: LlmSettings, environ: Mapping[str, str]) -> str | None:
    """Return the key, or None if none is configured. A key's file must belong to this user, with no
    access for others. Raises `NoKey`."""
    if settings.key_file is not None:
        place, key = settings.key_file, _read_file(settings.key_file)
    elif settings.key_env is not None:
        place, key = settings.key_env, environ.get(settings.key_env, "").strip()
        if not key:
            raise NoKey(
                f"the daemon's environment has no {place}: set it where the daemon starts, or use"
                " `key_file`"
            )
    else:
        return None
    if not _KEY.fullmatch(key):
        raise NoKey(f"the content of {place} is not a key: it must be one word of printable ASCII")
    return key


def _read_file(path: str) -> str:
    try:
        # A FIFO would block, and a terminal become the controlling one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            return _read_key_file(path, descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise NoKey(f"the key file {path} cannot be read: {error.strerror}") from None


def _read_key_file(path: str, descriptor: int) -> str:
    status = os.fstat(descriptor)
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise NoKey(f"the key file {path} is not a regular file")
    if status.st_uid != os.geteuid():
        raise NoKey(f"the key file {path} belongs to user {status.st_uid}; it must be yours")
    if mode & 0o077:
        raise NoKey(f"the key file {path} has mode {mode:04o}; others can read it: run chmod 600")
    if why := why_replaceable(path):
        raise NoKey(f"the key file {path} could be replaced: {why}")
    data = os.read(descriptor, _MAX_KEY_BYTES)
    return data.decode("ascii", "replace").strip()
