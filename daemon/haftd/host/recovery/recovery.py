"""Kill the processes that a dead daemon left, and no other.
1. One recovery at a time (`recover.lock`): the daemon that holds `daemon.lock`, or its guardian.
2. Drop the records of another boot, pid namespace, user or home.
3. Kill the processes in the handles' cgroups, and remove the cgroups.
4. Open each record's process as a pidfd, verify its identity and stop it: stopped, it keeps its pid and its
   children. Then kill it with its descendants, group and session.
5. Scan all processes for tags and kill the tagged ones, until two scans, 50 ms apart, find none. One scan is
   always finished; after it time may run out. If there are no records and nothing was found by the end
   of the first scan, the caller may take the steps after it later.
6. Report the processes that still run. Their records stay in the journal; if no scan was possible, all do.
Recovery may be killed at any point: the next one finds the same processes, or fewer.

`mark` is a process tag as text, which is also the name of the handle's cgroup.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

from haftd.host.cgroup import Cgroup, is_ours, leftovers
from haftd.host.process.identity import (
    Identity,
    ancestors,
    every_pid,
    identify_child,
    open_pidfd,
    own_proc,
)
from haftd.host.process.machine import boot_id, pid_namespace
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.kill_set import AddResult, KillSet
from haftd.host.recovery.ownership import Ownership
from haftd.host.recovery.record import Record
from haftd.named_tuple import NamedTuple

_PAUSE_S = 0.05
"""How long new pids are checked between two clean scans: a process may fork and exit after the scan has passed it."""
_CHASE_S = 0.1
"""The same after a scan from which a process escaped by its exit: it may have forked."""
_LOOK_S = 0.001
"""Pause between two looks at the newest pid."""
_MAX_AT_ONCE = 64
"""Pids checked between two turns of other tasks: 1 to 2 ms."""


class Report(NamedTuple):
    """Result of a recovery."""

    ended: tuple[Record, ...] = ()
    """Records of which a process was alive, and now none is."""
    lost: tuple[Record, ...] = ()
    """Records of which no process was alive."""
    dropped: tuple[Record, ...] = ()
    """Records of another boot, pid namespace, user or home."""
    keep: tuple[Record, ...] = ()
    """Records that stay in the journal."""
    unconfirmed: tuple[int, ...] = ()
    """Pids of processes that may still run."""
    spared: tuple[int, ...] = ()
    """Pids of this process and of its ancestors that belong to a handle."""
    killed: int = 0
    """Number of killed processes, without those killed by way of their cgroup (`cgroup.kill`)."""
    problems: tuple[str, ...] = ()


def recover(
    records: Sequence[Record],
    *,
    home: str,
    bases: Sequence[Path] = (),
    instance: str | None = None,
    live: str = "",
    lock: Path | None = None,
    patience_s: float = 3.0,
) -> Report:
    """Run all steps of a `Recovery`, which see for the arguments and the time that this blocks."""
    recovery = Recovery(
        records,
        home=home,
        bases=bases,
        instance=instance,
        live=live,
        lock=lock,
        patience_s=patience_s,
    )
    return recovery.finish()


@contextlib.contextmanager
def _hold_lock(lock: Path | None, patience_s: float, problems: list[str]) -> Iterator[None]:
    """Hold `recover.lock`, after waiting up to twice `patience_s` for another recovery.

    Without the lock recovery goes on, and the reason is added to `problems`: concurrent recoveries
    signal only verified processes.
    """
    if lock is None:
        yield
        return
    try:
        # The sticky bit keeps age cleaners away.
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o1600)
    except OSError as error:
        problems.append(f"{lock.name}: {error.strerror}")
        yield
        return
    try:
        until = time.monotonic() + 2 * patience_s
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    problems.append(f"{lock.name}: another recovery is still running")
                    break
                time.sleep(0.005)  # flock(2) has no time limit
            except OSError as error:
                problems.append(f"{lock.name}: {error.strerror}")
                break
        yield
    finally:
        os.close(fd)


class Recovery:
    """Recovery from the `records` of a journal and the tags of `home`, with its lock until `close`.

    `bases`: parent cgroups of handles. `instance`: only this run of a daemon; else all runs except
    `live`, the caller's own. `lock`: path of `recover.lock`. The constructor blocks for the lock, up to twice
    `patience_s`; the steps take about `patience_s`. Errors of the system are in the report's
    `problems`.
    """

    def __init__(
        self,
        records: Sequence[Record],
        *,
        home: str,
        bases: Sequence[Path] = (),
        instance: str | None = None,
        live: str = "",
        lock: Path | None = None,
        patience_s: float = 3.0,
    ) -> None:
        self.bases = bases
        self.problems: list[str] = []
        # A process that does not end leaves time for the other stages.
        self.exit_wait_s = patience_s / 3
        self.alive_marks: set[str] = set()
        """Marks of which a process was alive."""
        self.remains: dict[str, list[Identity]] = {}
        """Processes of cgroups that could not be emptied, by mark."""
        self.unconfirmed: set[int] = set()
        self.spared: dict[int, str] = {}
        """Mark of each protected process of a handle, by pid."""
        self.is_scanned = False
        """Every process has been checked at least once."""
        self.possible_parent: int | None = None
        """Pid of the last tagged process that was gone before it was stopped, or was found among new pids. It
        may have forked, and is reported unless two clean scans follow."""

        self._closing = contextlib.ExitStack()
        self._closing.enter_context(_hold_lock(lock, patience_s, self.problems))
        protected = ancestors()
        self.kill_set = KillSet(protected, time.monotonic() + patience_s)
        self._closing.callback(self.kill_set.close)
        self.ownership = Ownership(home, protected, instance=instance, live=live)
        self._records = [record for record in records if self._belongs_here(record)]
        self._dropped = tuple(record for record in records if not self._belongs_here(record))
        self.steps = self._steps()
        """The remaining steps; each yields the seconds to wait before the next one. The first yield comes
        right after the first scan."""

    def close(self) -> None:
        self._closing.close()

    def finish(self) -> Report:
        """Take the remaining steps, blocking, and close; return the report."""
        try:
            for pause_s in self.steps:
                time.sleep(pause_s)
            return self.report()
        finally:
            self.close()

    def scan_first(self) -> bool:
        """Take the steps up to the end of the first scan, blocking.

        Return True if there was no record and nothing has been found, so that the remaining steps may
        come later.
        """
        next(self.steps, None)
        return (
            self.is_scanned
            and not self._records
            and not (self.alive_marks or self.remains or self.unconfirmed or self.spared)
            and not (self.problems or self.kill_set.ended_count)
            and self.possible_parent is None
        )

    def _steps(self) -> Iterator[float]:
        if not own_proc():
            self.problems.append("/proc is of another pid namespace: nothing was looked for")
            return
        self.ownership.add_tags(record.mark for record in self._records)
        self._guard("living daemons", self._spare_living)
        self._guard("cgroups", lambda: self._empty_cgroups(self._records))
        self._guard("records", lambda: self._end_records(self._records))
        try:
            yield from self._sweep()
        except OSError as error:
            self.problems.append(f"sweep: {error}")
        self.kill_set.wait_ended()

    def _guard(self, stage: str, work: Callable[[], None]) -> None:
        """Run one stage; a failure stops neither the next nor the daemon's start."""
        try:
            work()
        except OSError as error:
            self.problems.append(f"{stage}: {error}")

    def _belongs_here(self, record: Record) -> bool:
        tag = ProcessTag.read(record.mark)
        return (
            tag is not None
            and tag.home == self.ownership.home
            and record.boot == boot_id()
            and record.ns == pid_namespace()
            and record.uid == os.getuid()
        )

    def _spare_living(self) -> None:
        for pid in self.ownership.exempt_living_daemons():
            self.problems.append(f"process {pid} is a daemon without its lock; left alone")

    # Cgroups

    def _empty_cgroups(self, records: Sequence[Record]) -> None:
        home = self.ownership.home
        groups = {group.path: group for base in self.bases for group in leftovers(base, home)}
        for record in records:
            path = Path(record.cgroup)
            if record.cgroup and is_ours(path, self.ownership.home):
                groups[path] = Cgroup(path)
        killed_groups = []
        for group in groups.values():
            if not self.ownership.covers(ProcessTag.read(group.name)):
                continue
            if group.is_populated():
                self.alive_marks.add(group.name)
            if self.kill_set.protected.isdisjoint(group.procs()) and not group.holds_self():
                group.kill()
                killed_groups.append(group)
            else:
                self._kill_singly(group)
        for group in killed_groups:
            if not group.empty(self.exit_wait_s):
                self._note_remains(group)
            elif not group.remove():
                self.problems.append(f"the empty cgroup {group.name} cannot be removed")

    def _kill_singly(self, group: Cgroup) -> None:
        """Kill the cgroup's processes one by one, except this process and its ancestors."""
        is_new = True
        while is_new and not self.kill_set.is_late():
            is_new = False
            for pid in group.procs():
                result = self.kill_set.add_if(pid, group.name, lambda pid=pid: pid in group.procs())  # type: ignore[misc]
                is_new = is_new or result == "new"
                if result == "protected":
                    self.spared[pid] = group.name
            self.kill_set.kill()
            self.kill_set.wait_ended(self.exit_wait_s)

    def _note_remains(self, group: Cgroup) -> None:
        for pid in group.procs():
            pidfd = open_pidfd(pid)
            if pidfd is not None:
                with contextlib.suppress(ProcessLookupError):
                    self.remains.setdefault(group.name, []).append(identify_child(pid, pidfd))
                os.close(pidfd)
            self.unconfirmed.add(pid)

    # Records

    def _end_records(self, records: Sequence[Record]) -> None:
        for record in records:
            if not self.ownership.covers(ProcessTag.read(record.mark)):
                continue
            for identity in (record.identity, *record.others):
                result = self.kill_set.add(identity, record.mark)
                if result in ("new", "known"):
                    self.alive_marks.add(record.mark)
                elif result == "protected":
                    self.spared[identity.pid] = record.mark
        self._kill_targets()

    def _kill_targets(self) -> None:
        self.kill_set.add_descendants()
        self.alive_marks.update(target.mark for target in self.kill_set.remaining())
        self.kill_set.kill()
        self.kill_set.wait_ended(self.exit_wait_s)

    # The sweep

    def _sweep(self) -> Iterator[float]:
        clean_scans = 0
        while clean_scans < 2 and not (self.is_scanned and self.kill_set.is_late()):
            is_new = yield from self._scan()
            if not is_new and clean_scans == 0:
                is_new = yield from self._scan_new_pids(_PAUSE_S)
            clean_scans = 0 if is_new else clean_scans + 1
        if clean_scans < 2 and self.possible_parent is not None:
            self.unconfirmed.add(self.possible_parent)

    def _scan(self) -> Generator[float, None, bool]:
        """Check all processes and kill those with a tag; return True if there was any."""
        is_first = not self.is_scanned
        # The search for living daemons has just found no tag on these; later scans check them again.
        known_untagged = self.ownership.untagged if is_first else frozenset[int]()
        is_new = False
        has_escaped = False
        for count, pid in enumerate(every_pid(), 1):
            if not is_first and count % _MAX_AT_ONCE == 0:
                yield 0.0
            if pid in known_untagged:
                continue
            match self._add_owned(pid):
                case "new":
                    is_new = True
                case "gone":
                    is_new = has_escaped = True
                    self.possible_parent = pid
                case _:
                    pass
        self.is_scanned = True
        if is_new:
            self._kill_targets()
        if is_first:
            yield 0.0  # the end of `scan_first`
        if has_escaped:
            yield from self._scan_new_pids(_CHASE_S)
        return is_new

    def _add_owned(self, pid: int) -> AddResult | None:
        """Add the process to the kill set if its tag is owned; return None for another one."""
        tag = self.ownership.find_tag(pid)
        if tag is None:
            return None
        result = self.kill_set.add_if(pid, str(tag), lambda: self.ownership.find_tag(pid) == tag)
        if result == "new":
            self.alive_marks.add(str(tag))
        return result

    def _scan_new_pids(self, for_s: float) -> Generator[float, None, bool]:
        """Kill tagged processes with new pids until none was found for `for_s`; return True if any was.

        A process that forks and exits faster than a scan is among the newest pids.
        """
        is_new = False
        checked = _newest_pid()
        until = time.monotonic() + for_s
        yield _LOOK_S
        while not self.kill_set.is_late() and time.monotonic() < until:
            newest = _newest_pid()
            if newest == checked:
                yield _LOOK_S
                continue
            # Pids begin again at the lowest after pid_max.
            oldest_new = checked + 1 if checked < newest else 2
            for pid in range(newest, max(oldest_new, newest - _MAX_AT_ONCE + 1) - 1, -1):
                if self._add_owned(pid) in ("new", "gone"):
                    self.kill_set.kill()
                    self.possible_parent = pid
                    is_new = True
                    until = time.monotonic() + for_s
            checked = newest
        if is_new:
            self._kill_targets()
        return is_new

    # The report

    def report(self) -> Report:
        """Return the report of the steps taken so far."""
        remains = {mark: list(identities) for mark, identities in self.remains.items()}
        unconfirmed, problems = set(self.unconfirmed), list(self.problems)
        for target in self.kill_set.remaining():
            remains.setdefault(target.mark, []).append(target.identity)
            unconfirmed.add(target.pid)
            why = "may not be signalled" if target.pid in self.kill_set.refused else "does not end"
            problems.append(f"process {target.pid} of {target.mark} {why}")
        ended: list[Record] = []
        lost: list[Record] = []
        keep: list[Record] = []
        reported: set[str] = set()
        for record in self._records:
            mark = record.mark
            reported.add(mark)
            if not self.ownership.covers(ProcessTag.read(mark)) or mark in self.spared.values():
                keep.append(record)
            elif mark in remains:
                others = {*record.others, *remains[mark]} - {record.identity}
                keep.append(
                    record._replace(others=tuple(sorted(others, key=lambda identity: identity.pid)))
                )
            elif not self.is_scanned:
                keep.append(record)
            else:
                (ended if mark in self.alive_marks else lost).append(record)
        for mark, identities in remains.items():
            if mark not in reported:
                keep.append(_make_record(mark, identities))
        return Report(
            ended=tuple(ended),
            lost=tuple(lost),
            dropped=self._dropped,
            keep=tuple(keep),
            unconfirmed=tuple(sorted(unconfirmed)),
            spared=tuple(sorted(self.spared)),
            killed=self.kill_set.ended_count,
            problems=tuple(problems),
        )


def _make_record(mark: str, identities: Sequence[Identity]) -> Record:
    """Make a record for processes without one, so that the next recovery looks for them.

    Their session is not known: the first process is recorded in its place.
    """
    first, *others = identities
    tag = ProcessTag.read(mark)
    return Record(
        n=0 if tag is None else tag.n,  # 0: no handle's number
        pid=first.pid,
        ticks=first.ticks,
        inode=first.inode,
        boot=first.boot,
        ns=first.ns,
        sid=first.pid,
        uid=os.getuid(),
        mark=mark,
        others=tuple(others),
    )


def _newest_pid() -> int:
    """Return the pid that was assigned last: the fifth field of /proc/loadavg, proc_loadavg(5)."""
    with open("/proc/loadavg", encoding="ascii") as file:
        return int(file.read().split()[4])
