"""The tag of one handle on a process: in an rlimit, or in the environment."""

from __future__ import annotations

import os

from haftd.host.process import rlimit_tag
from haftd.host.process.identity import read_environ
from haftd.host.process.process_tag import has_tag


class HandleTag:
    """`mark` is the value of HAFT_HANDLE; an empty one is on no process."""

    __slots__ = ("_in_environ", "_in_limit")

    def __init__(self, mark: str) -> None:
        self._in_environ = os.fsencode(mark)
        self._in_limit = rlimit_tag.encode(mark) if mark else None

    def is_in_limit(self, tag: int | None) -> bool:
        """True for this handle's tag, as `rlimit_tag.read_tag` returns it."""
        return tag is not None and tag == self._in_limit

    def is_of_sibling(self, tag: int | None) -> bool:
        """True for the tag of another handle of the same daemon."""
        if tag is None or self._in_limit is None or tag == self._in_limit:
            return False
        return rlimit_tag.instance_prefix(tag) == rlimit_tag.instance_prefix(self._in_limit)

    def is_in_environ(self, pid: int) -> bool:
        """True if the process began with the tag, as its own or an outer one; blocks while the process
        is in execve(2). Raises OSError as `open_pidfd`."""
        return bool(self._in_environ) and has_tag(read_environ(pid) or b"", self._in_environ)
