"""Whose child is whose, as the kernel says it.

Rules:

- The daemon is a sub-reaper: what loses its parent becomes the daemon's child.
- Every answer is of one moment that is over. Who must not miss anything looks again.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

from haftd.host.identity import Stat, every_pid, read_stat

__all__ = ["become_subreaper", "children", "hidden", "is_below", "lister", "lives"]

_PR_SET_CHILD_SUBREAPER = 36
_MOST_STEPS = 10_000
_ENDED = (FileNotFoundError, ProcessLookupError)


def become_subreaper() -> None:
    """Adopt every descendant that loses its parent, from now on. Raises OSError.

    A parent that ignored SIGCHLD would have made the kernel throw our children's exits away: it
    gets its default here.
    """
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot become a sub-reaper: {os.strerror(code)}")


@cache
def _kernel_lists() -> bool:
    """Say whether the kernel lists children (CONFIG_PROC_CHILDREN)."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def children(pid: int) -> list[int]:
    """The children of a process as of now; none of one that has ended.

    Raises OSError when they cannot be read, for want of descriptors say: that is not "none".
    """
    if not _kernel_lists():
        return _by_parent().get(pid, [])
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except _ENDED:
        return found
    for thread in threads:
        try:
            fd = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
        except _ENDED:
            continue
        try:
            text = b""
            while part := os.read(fd, 65_536):
                text += part
        except _ENDED:
            continue
        finally:
            os.close(fd)
        found += map(int, text.split())
    return found


def _by_parent() -> dict[int, list[int]]:
    """Who is whose child in all of /proc."""
    table: dict[int, list[int]] = {}
    for pid in every_pid():
        stat = read_stat(pid)
        if stat is not None:
            table.setdefault(stat.parent, []).append(pid)
    return table


def lister() -> Callable[[int], list[int]]:
    """How to list children during one look: the kernel's lists, or one pass over /proc."""
    if _kernel_lists():
        return children
    table = _by_parent()
    return lambda pid: table.get(pid, [])


def lives(stat: Stat) -> bool:
    if stat.state not in "ZX":
        return True
    try:  # a first thread may end before the others
        return len(os.listdir(f"/proc/{stat.pid}/task")) > 1  # noqa: PTH208
    except OSError:
        return False


def is_below(pid: int, above: int) -> bool | None:
    """Say whether a process descends from another; None where that cannot be told any more, as of
    one that has ended."""
    at = pid
    for _ in range(_MOST_STEPS):
        if at == above:
            return True
        if at <= 0:
            return False
        stat = read_stat(at)
        if stat is not None:
            at = stat.parent
        elif hidden(at):
            return False
        elif at == pid:
            return None
        else:
            at = pid  # A parent has just ended: its children have another one by now.
    return None


def hidden(pid: int) -> bool:
    """Say whether a process lives that /proc does not show: another user's, under hidepid."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        pass
    return False
