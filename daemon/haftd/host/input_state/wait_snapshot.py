"""A look at some processes: which of their threads wait for what is sought, and what the others do.

Rules:

- What is sought is said from outside, by what a descriptor leads to. What the waits come to, and in
  which modes a terminal is, is not known here.
- A look has a bound. Who cannot be told, or is beyond it, is unsure; nobody is taken to be away for that.
- Each thread is seen at a moment of its own: `confirm` says who is in the very same wait still.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from haftd.host.input_state.thread_wait import (
    FilePredicate,
    ThreadState,
    is_unchanged,
    read_thread_state,
)
from haftd.host.process.ancestry import child_lister, is_hidden, is_running
from haftd.host.process.identity import Stat, read_stat

__all__ = ["Wait", "WaitSnapshot", "add_strangers", "confirm", "related", "take_snapshot"]

_MAX_PROCESSES = 256
_MAX_THREADS = 512


class Wait(NamedTuple):
    """A thread that was seen to wait for what is sought."""

    pid: int
    tid: int
    seen: ThreadState


@dataclass(slots=True)
class WaitSnapshot:
    """What was seen of some processes. `unsure` are those that cannot be told."""

    members: list[int] = field(default_factory=list)
    processes: dict[int, Stat] = field(default_factory=dict)
    """All that were come by, also those that are no members."""
    session: int = 0
    strangers: list[Stat] = field(default_factory=list)
    """Those that are not of the group."""
    unsure: set[int] = field(default_factory=set)
    waits: list[Wait] = field(default_factory=list)
    outward: set[int] = field(default_factory=set)
    """Members that wait for somebody beyond."""
    at_work: set[int] = field(default_factory=set)
    timed: bool = False
    """Something that does not wait for input sleeps by the clock."""


def take_snapshot(pids: Iterable[int], group: int | None, sought: FilePredicate) -> WaitSnapshot:
    """Look at these and their descendants, as far as they are of the group."""
    look, below = WaitSnapshot(), child_lister()
    queue, known, threads = list(pids), set[int](), 0
    while queue:
        pid = queue.pop()
        if pid in known:
            continue
        if len(known) >= _MAX_PROCESSES or threads >= _MAX_THREADS:
            look.unsure.add(pid)
            break
        known.add(pid)
        who = read_stat(pid)
        if who is None:
            if is_hidden(pid) and group in (None, _group_of(pid)):
                look.unsure.add(pid)
            continue
        look.processes[pid] = who
        if group is not None and who.group != group:
            look.strangers.append(who)
        elif is_running(who):
            look.session = who.session
            threads += _look_at_one(who, sought, look, _MAX_THREADS - threads)
        # Listed after its threads were looked at: a thread that has not run since has started no other.
        queue += below(pid)
    look.members.sort()
    return look


def _look_at_one(who: Stat, sought: FilePredicate, look: WaitSnapshot, most: int) -> int:
    """Look at the threads of a process; returns how many."""
    pid = who.pid
    look.members.append(pid)
    try:
        tids = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - half the time of Path.iterdir
    except OSError:
        return 0
    for tid in map(int, tids[:most]):
        if tid == pid and who.state in "ZX":
            continue  # the first thread has ended before the others
        seen = read_thread_state(pid, tid, sought)
        if seen.outward or (seen.terminals and seen.state == "away"):
            look.outward.add(pid)
        if seen.state == "hidden":
            look.unsure.add(pid)
        elif seen.state == "away":
            look.timed |= seen.within_ms is not None
            if not seen.idle:
                look.at_work.add(pid)
        else:
            look.waits.append(Wait(pid, tid, seen))
    if len(tids) > most:
        look.unsure.add(pid)
    return len(tids)


def add_strangers(look: WaitSnapshot, itself: FilePredicate) -> None:
    """Look at those that left the session and kept the terminal (`su -c`): they may read it, whoever
    is in the foreground. What else they do is nobody's wait."""
    for pid in (who.pid for who in look.strangers if look.session not in (0, who.session)):
        seen = read_thread_state(pid, pid, itself)
        if seen.state in ("reads", "watches"):
            look.waits.append(Wait(pid, pid, seen))


def related(look: WaitSnapshot, group: int | None) -> list[Stat]:
    """The processes of the group, what they descend from, and what descends from them; those of
    other jobs are left out. Zombies are among them."""
    known = look.processes
    of_group = {pid for pid, who in known.items() if group in (None, who.group)}
    found = set(of_group)
    for pid in known:
        line = []
        at: int | None = pid
        while at is not None and at in known and at not in line:
            line.append(at)
            at = known[at].parent
        if pid in of_group:
            found.update(line)
        elif not of_group.isdisjoint(line):
            found.add(pid)
    return [known[pid] for pid in found]


def confirm(look: WaitSnapshot) -> list[Wait]:
    """Who has not left its wait since it was seen."""
    return [wait for wait in look.waits if is_unchanged(wait.pid, wait.tid, wait.seen)]


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0
