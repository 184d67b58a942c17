"""Open a rule's path without following a link that a tool could have placed.

Links are followed only in folders that this user cannot change; as root, in the system's. Each step
is opened relative to the one before: no race.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from haftd.launch_spec import PROGRAM_FOLDERS, is_within

_MAX_LINKS = 40
"""Links on the way, as the kernel follows (path_resolution(7))."""
_OF_SYSTEM = ("/", "/home", "/var", "/etc", "/etc/alternatives", "/proc")
_LOCAL = "/usr/local"


class UntrustedLink(Exception):
    """Link in a folder that this user may change; the argument is the link."""


def open_path(
    path: str, *, start: str = "/", follows: Callable[[str], bool] | None = None
) -> tuple[int, str]:
    """Return an O_PATH descriptor, and the path without links.

    `start` is a folder above, opened as is. `follows` decides about a folder's links instead of its
    writers. Raises OSError and `UntrustedLink`.
    """
    flags = os.O_PATH
    folder = os.open(start, flags | os.O_DIRECTORY)
    try:
        at = os.readlink(f"/proc/self/fd/{folder}")  # noqa: PTH115
        rest = path[len(start.rstrip("/")) :]
        names = [name for name in reversed(rest.split("/")) if name not in ("", ".")]
        links = 0
        while names:
            name = names.pop()
            step = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
            if not stat.S_ISLNK(os.fstat(step).st_mode):
                os.close(folder)
                folder, at = step, _joined(at, name)
                continue
            try:
                target = os.readlink("", dir_fd=step)
            finally:
                os.close(step)
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if not (_is_trusted(folder, at) if follows is None else follows(at)):
                raise UntrustedLink(_joined(at, name))
            names += [name for name in reversed(target.split("/")) if name not in ("", ".")]
            if target.startswith("/"):
                os.close(folder)
                folder, at = os.open("/", flags | os.O_DIRECTORY), "/"
    except BaseException:
        os.close(folder)
        raise
    return folder, at


def _joined(folder: str, name: str) -> str:
    if name == "..":
        return os.path.dirname(folder)  # noqa: PTH120
    return f"{folder.rstrip('/')}/{name}"


def _is_trusted(folder: int, path: str) -> bool:
    """True if no process of this user can have placed a link in the folder."""
    if os.geteuid() == 0:
        return path in _OF_SYSTEM or (
            any(is_within(path, system) for system in PROGRAM_FOLDERS)
            and not is_within(path, _LOCAL)
        )
    is_own = os.fstat(folder).st_uid == os.geteuid()
    return not is_own and not os.access(f"/proc/self/fd/{folder}", os.W_OK)
