"""Parents and children of processes, from /proc: the state of a past moment.

The daemon is a sub-reaper: an orphaned descendant becomes its child.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

from haftd.host.process.identity import Stat, every_pid, read_stat
from haftd.host.process.status import read_status

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_MAX_WALKS = 100
"""Reads of a line until two are equal; two are enough unless parents end meanwhile."""
_MAX_STRANGERS = 256
"""Cached non-descendants, so that the memory has a bound; the oldest is forgotten."""
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_MAX_SEARCHED = 256
"""Processes searched for a stopped one."""
_ENDED = (FileNotFoundError, ProcessLookupError)
_LINKS_OF_ONE_THREAD = 3
"""Links of /proc/<pid>/task: two, and one a thread."""

helpers: Final[set[int]] = set()
"""Unreaped children that belong to no handle. Global, as the kernel's table of children."""
abandoned: Final[set[int]] = set()
"""Killed helpers whose status no other code takes: the reaper does, without a delay."""


def become_subreaper() -> None:
    """Adopt orphaned descendants from now on; raise OSError.

    Resets SIGCHLD: if ignored by inheritance, the kernel would discard exit statuses.
    """
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot become a sub-reaper: {os.strerror(code)}")


@cache
def _has_child_lists() -> bool:
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def list_children(pid: int, threads: Sequence[int | str] = ()) -> list[int]:
    """Return a process's children, empty for an ended one; `threads` are all of its threads, if known.
    Raises OSError when the lists are unreadable."""
    if not _has_child_lists():
        return _read_children().get(pid, [])
    pids: list[int] = []
    folder = f"/proc/{pid}/task"
    try:
        if not threads:
            has_one = os.stat(folder).st_nlink == _LINKS_OF_ONE_THREAD  # noqa: PTH116
            threads = (pid,) if has_one else os.listdir(folder)  # noqa: PTH208
    except _ENDED:
        return pids
    for thread in threads:
        try:
            fd = os.open(f"{folder}/{thread}/children", os.O_RDONLY)
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
        pids += map(int, text.split())
    return pids


def _read_children() -> dict[int, list[int]]:
    """Return the visible processes by parent."""
    table: dict[int, list[int]] = {}
    for pid in every_pid():
        stat = read_stat(pid)
        if stat is not None:
            table.setdefault(stat.parent, []).append(pid)
    return table


class ChildLister(Protocol):
    """Returns a process's children, like `list_children`."""

    def __call__(self, pid: int, threads: Sequence[int | str] = ()) -> list[int]: ...


def make_child_lister() -> ChildLister:
    """Return a child lister for one scan: the kernel's lists, or one pass over /proc."""
    if _has_child_lists():
        return list_children
    table = _read_children()
    return lambda pid, threads=(): table.get(pid, [])


def is_suspended(pid: int, group: int) -> bool:
    """True if a signal has stopped `pid`, the group's leader or a descendant of either, within the
    group. A process halted by a debugger does not count, nor does one behind the first
    `_MAX_SEARCHED` or in an unreadable part of the tree."""
    queue, visited, below = [pid, group], set[int](), make_child_lister()
    while queue and len(visited) < _MAX_SEARCHED:
        next_pid = queue.pop()
        if next_pid in visited:
            continue
        visited.add(next_pid)
        try:
            status = read_status(next_pid)
            is_stopped = status is not None and status.run_state == "T"
            if is_stopped and os.getpgid(next_pid) == group:
                return True
            queue += below(next_pid)
        except ProcessLookupError:
            continue
        except OSError:
            return False
    return False


def is_running(stat: Stat) -> bool:
    """True if a thread of the process has not ended."""
    if stat.state not in "ZX":
        return True
    try:  # a first thread may end before the others
        return len(os.listdir(f"/proc/{stat.pid}/task")) > 1  # noqa: PTH208
    except OSError:
        return False


def find_lineage(pid: int, above: int, stat: Stat | None = None) -> tuple[Stat, ...] | None:
    """Return a process and its ancestors up to a child of `above`; empty for no descendant of `above`
    and for a process that /proc hides, None for a gone process and if `_MAX_WALKS` reads differ.
    `stat` is the process's, if just read.

    A parent's pid may be reused during the read: a line out of age order is read again and must be
    equal.
    """
    before: tuple[Stat, ...] | None = None
    for _ in range(_MAX_WALKS):
        line = _walk(pid, above, stat)
        stat = None
        if line is None and read_stat(pid) is None:
            return () if is_hidden(pid) else None
        if line is not None and (_is_by_age(line) or _is_same(line, before)):
            if line and line[-1].parent == above:
                return line
            _remember(line, above)
            return ()
        before = line
    return None


_strangers: dict[tuple[int, int, int], None] = {}
"""Non-descendants for good, as (this pid, their pid, their start in ticks): an orphan is adopted by
an ancestor."""


def is_stranger(stat: Stat, above: int) -> bool:
    """True for a process that is known to be no descendant of `above` for good."""
    return (above, stat.pid, stat.ticks) in _strangers


def _remember(line: Sequence[Stat], above: int) -> None:
    """Cache non-descendants of `above`, but for those so young that pid and start tick could repeat."""
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_A_SECOND)
    for stat in line:
        if stat.ticks < now - 1:
            _strangers[above, stat.pid, stat.ticks] = None
    while len(_strangers) > _MAX_STRANGERS:
        del _strangers[next(iter(_strangers))]


def _walk(pid: int, above: int, stat: Stat | None) -> tuple[Stat, ...] | None:
    """Read a process and its ancestors, up to `above`, a hidden process or a known non-descendant; None if
    one has ended meanwhile."""
    line: list[Stat] = []
    at = pid
    while at != above and at > 0:
        stat = stat or read_stat(at)
        if stat is None:
            if not is_hidden(at):
                return None
            break
        line.append(stat)
        if is_stranger(stat, above):
            break
        at, stat = stat.parent, None
    return tuple(line)


def _is_by_age(line: Sequence[Stat]) -> bool:
    return all(parent.ticks < child.ticks for child, parent in pairwise(line))


def _is_same(line: Sequence[Stat], before: Sequence[Stat] | None) -> bool:
    return before is not None and [*map(_key, line)] == [*map(_key, before)]


def _key(stat: Stat) -> tuple[int, int, int, int]:
    return stat.pid, stat.ticks, stat.parent, stat.session


def is_hidden(pid: int) -> bool:
    """True for a living process that /proc hides: another user's, under hidepid."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        pass
    return False
