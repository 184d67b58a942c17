"""Snapshot of processes: threads that wait for a file, and the activity of other threads.

The threads are examined one after another: `confirm` returns the waits that still last.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from haftd.host.input_state.kept_files import KeptFiles
from haftd.host.input_state.thread_wait import (
    FilePredicate,
    ThreadState,
    is_unchanged,
    read_thread_state,
)
from haftd.host.process.ancestry import is_hidden, is_running, make_child_lister
from haftd.host.process.identity import Stat, read_stat
from haftd.named_tuple import NamedTuple

_MAX_PROCESSES = 256
_MAX_THREADS = 512
"""Limits of one snapshot, which holds up the loop."""


class Wait(NamedTuple):
    pid: int
    tid: int
    seen: ThreadState


class WaitSnapshot:
    """State of some processes; closed after `confirm`."""

    def __init__(self) -> None:
        self.files = KeptFiles()
        self.members: list[int] = []
        """Processes of the group that have not ended."""
        self.processes: dict[int, Stat] = {}
        """All examined processes, also non-members."""
        self.session = 0
        """Session of the group; 0 without members."""
        self.strangers: list[Stat] = []
        """Processes outside the group."""
        self.unsure: set[int] = set()
        """Processes that cannot be examined, wholly or in part."""
        self.waits: list[Wait] = []
        self.outward: set[int] = set()
        """Members that wait for a peer outside the program, or for another terminal's master alone."""
        self.at_work: set[int] = set()
        """Members with a thread that is `away` and not `idle` (`ThreadState`)."""
        self.timed = False
        """A thread that awaits no input sleeps with a timeout."""

    def close(self) -> None:
        self.files.close()


def take_snapshot(
    snapshot: WaitSnapshot, pids: Iterable[int], group: int | None, sought: FilePredicate
) -> None:
    """Examine these processes and descendants; members are those in `group`, or all with None. Beyond
    the limits a process is `unsure`, and the rest is left out."""
    list_below = make_child_lister()
    queue, visited, threads = list(pids), set[int](), 0
    while queue:
        pid = queue.pop()
        if pid in visited:
            continue
        if len(visited) >= _MAX_PROCESSES or threads >= _MAX_THREADS:
            snapshot.unsure.add(pid)
            break
        visited.add(pid)
        stat = read_stat(pid, snapshot.files.read)
        if stat is None:
            if is_hidden(pid) and group in (None, _read_group(pid)):
                snapshot.unsure.add(pid)
            continue
        snapshot.processes[pid] = stat
        only_thread = (pid,) if stat.threads == 1 and stat.state not in "ZX" else ()
        if group is not None and stat.group != group:
            snapshot.strangers.append(stat)
        elif only_thread or is_running(stat):
            snapshot.session = stat.session
            most = _MAX_THREADS - threads
            threads += _add_process(stat, only_thread, sought, snapshot, most)
        # After the look at the threads: a thread that has not run since has started no process.
        queue += list_below(pid, only_thread)
    snapshot.members.sort()


def _add_process(
    stat: Stat,
    only_thread: Sequence[int],
    sought: FilePredicate,
    snapshot: WaitSnapshot,
    most: int,
) -> int:
    """Examine up to `most` threads of a member; return how many it has."""
    pid = stat.pid
    snapshot.members.append(pid)
    tids: Sequence[int | str] = only_thread
    try:
        tids = tids or os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - half the time of Path.iterdir
    except OSError:
        return 0
    for tid in map(int, tids[:most]):
        if tid == pid and stat.state in "ZX":
            continue  # the first thread has ended before the others
        seen = read_thread_state(pid, tid, sought, snapshot.files.read)
        if seen.outward or (seen.terminals and seen.state == "away"):
            snapshot.outward.add(pid)
        if seen.state == "hidden":
            snapshot.unsure.add(pid)
        elif seen.state == "away":
            snapshot.timed |= seen.within_ms is not None
            if not seen.idle:
                snapshot.at_work.add(pid)
        else:
            snapshot.waits.append(Wait(pid, tid, seen))
    if len(tids) > most:
        snapshot.unsure.add(pid)
    return len(tids)


def add_strangers(snapshot: WaitSnapshot, is_terminal: FilePredicate) -> None:
    """Add waits of strangers that left the session but kept the terminal (`su -c`). Such a process
    may read it whichever group is in the foreground."""
    for pid in (
        stat.pid for stat in snapshot.strangers if snapshot.session not in (0, stat.session)
    ):
        seen = read_thread_state(pid, pid, is_terminal, snapshot.files.read)
        if seen.state in ("reads", "watches"):
            snapshot.waits.append(Wait(pid, pid, seen))


def find_related(snapshot: WaitSnapshot, group: int | None) -> list[Stat]:
    """Return the examined processes of the group (None: all), their ancestors and descendants,
    zombies included."""
    processes = snapshot.processes
    of_group = {pid for pid, stat in processes.items() if group in (None, stat.group)}
    chosen = set(of_group)
    for pid in processes:
        line = []
        at: int | None = pid
        while at is not None and at in processes and at not in line:
            line.append(at)
            at = processes[at].parent
        if pid in of_group:
            chosen.update(line)
        elif not of_group.isdisjoint(line):
            chosen.add(pid)
    return [processes[pid] for pid in chosen]


def confirm(snapshot: WaitSnapshot) -> list[Wait]:
    """Return the waits that have lasted since the snapshot."""
    read = snapshot.files.read
    return [wait for wait in snapshot.waits if is_unchanged(wait.pid, wait.tid, wait.seen, read)]


def _read_group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0
