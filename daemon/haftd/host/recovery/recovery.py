"""Kill the processes that a dead daemon left, and no other.
1. One recovery at a time (`recover.lock`), by the holder of `daemon.lock` or the guardian.
2. Drop records of another boot, pid namespace or user.
3. Empty the handles' cgroups.
4. Open each record's process as a pidfd, verify and stop it, so that its pid stays; then kill it with
   descendants, group and session.
5. Kill tagged processes until two scans, 50 ms apart, find none; at least one scan, however late.
   Without records, after a first scan that found none, the caller may take the rest later.
6. Survivors are reported and stay recorded, as do all records where no scan was possible.
Recovery may be killed at any point: the next one finds the same or less.
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
from haftd.host.recovery.kill_set import KillSet
from haftd.host.recovery.ownership import Ownership
from haftd.host.recovery.record import Record
from haftd.named_tuple import NamedTuple

_PAUSE_S = 0.05
_AT_ONCE = 64
"""Processes of a later scan between two turns of other tasks."""
_CHASE_S = 0.1


class Report(NamedTuple):
    """Result of a recovery."""

    ended: tuple[Record, ...] = ()
    """Records of which a process was alive, and now none is."""
    lost: tuple[Record, ...] = ()
    """Records without a living process."""
    dropped: tuple[Record, ...] = ()
    """Records of another boot, namespace, user or home."""
    keep: tuple[Record, ...] = ()
    """Records that stay in the journal."""
    unconfirmed: tuple[int, ...] = ()
    """Pids of perhaps living processes."""
    spared: tuple[int, ...] = ()
    """Ancestors of this process."""
    killed: int = 0
    """Number of processes killed outside cgroups."""
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
    """Run a whole `Recovery`, and block for it."""
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
    """Hold `recover.lock`; one held for too long is reported and ignored: concurrent recoveries
    signal only verified processes."""
    if lock is None:
        yield
        return
    try:
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
            except OSError as error:
                if not isinstance(error, BlockingIOError) or time.monotonic() > until:
                    problems.append(f"{lock.name}: another recovery does not come to its end")
                    break
                time.sleep(0.005)
        yield
    finally:
        os.close(fd)


class Recovery:
    """Kills the processes that the records and the tag of `home` name.

    Takes about `patience_s`, after up to twice as long for the lock, which is held until `close`.
    `bases`: parent cgroups of handles. `instance`: only this run of a daemon; else all except
    `live`, the caller's own. `lock`: path of `recover.lock`. Failures are in `problems`.
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
        self.exit_wait_s = patience_s / 3
        self.alive_tags: set[str] = set()
        """Tags of which a process was alive."""
        self.remains: dict[str, list[Identity]] = {}
        self.unconfirmed: set[int] = set()
        self.spared: dict[int, str] = {}
        self.is_scanned = False
        """Every process has been checked at least once."""
        self.ended_unseen: int | None = None
        """A tagged process that ended before the open: it may have a child."""

        self._closing = contextlib.ExitStack()
        self._closing.enter_context(_hold_lock(lock, patience_s, self.problems))
        protected = ancestors()
        self.kill_set = KillSet(protected, time.monotonic() + patience_s)
        self._closing.callback(self.kill_set.close)
        self.ownership = Ownership(home, protected, instance=instance, live=live)
        self._ours = [record for record in records if self._is_ours(record)]
        self._dropped = tuple(record for record in records if not self._is_ours(record))
        self.steps = self._steps()
        """The remaining steps; each yields the seconds to wait before the next."""

    def close(self) -> None:
        self._closing.close()

    def finish(self) -> Report:
        """Take the remaining steps and close; return the report."""
        try:
            for pause_s in self.steps:
                time.sleep(pause_s)
            return self.report()
        finally:
            self.close()

    def has_found_nothing(self) -> bool:
        """Take the steps up to the end of the first scan; return True if that, and all before,
        found nothing, so that the rest may come later."""
        next(self.steps, None)
        return (
            self.is_scanned
            and not self._ours
            and not (self.alive_tags or self.remains or self.unconfirmed or self.spared)
            and not (self.problems or self.kill_set.ended or self.ended_unseen is not None)
        )

    def _steps(self) -> Iterator[float]:
        if not own_proc():
            self.problems.append("/proc is of another pid namespace: nothing was looked for")
            return
        self.ownership.add_tags(record.mark for record in self._ours)
        self._guard("living daemons", self._spare_living)
        self._guard("cgroups", lambda: self._empty_cgroups(self._ours))
        self._guard("records", lambda: self._end_records(self._ours))
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

    def _is_ours(self, record: Record) -> bool:
        tag = ProcessTag.read(record.mark)
        return (
            tag is not None
            and tag.home == self.ownership.home
            and record.boot == boot_id()
            and record.ns == pid_namespace()
            and record.uid == os.getuid()
        )

    def _spare_living(self) -> None:
        living = self.ownership.exempt_living_daemons()
        if living:
            pids = ", ".join(str(pid) for pid in living)
            self.problems.append(f"process {pids} is a daemon without its lock; left alone")

    # Cgroups

    def _empty_cgroups(self, records: Sequence[Record]) -> None:
        home = self.ownership.home
        groups = {group.path: group for base in self.bases for group in leftovers(base, home)}
        for record in records:
            path = Path(record.cgroup)
            if record.cgroup and is_ours(path, self.ownership.home):
                groups[path] = Cgroup(path)
        whole = []
        for group in groups.values():
            if not self.ownership.covers(ProcessTag.read(group.name)):
                continue
            if group.is_populated():
                self.alive_tags.add(group.name)
            if self.kill_set.protected.isdisjoint(group.procs()) and not group.holds_self():
                group.kill()
                whole.append(group)
            else:
                self._empty_around_us(group)
        for group in whole:
            if not group.empty(self.exit_wait_s):
                self._note_remains(group)
            elif not group.remove():
                self.problems.append(f"the empty cgroup {group.name} cannot be removed")

    def _empty_around_us(self, group: Cgroup) -> None:
        fresh = True
        while fresh and not self.kill_set.is_late():
            fresh = False
            for pid in group.procs():
                result = self.kill_set.add_if(pid, group.name, lambda pid=pid: pid in group.procs())  # type: ignore[misc]
                fresh = fresh or result == "new"
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
                    self.alive_tags.add(record.mark)
                elif result == "protected":
                    self.spared[identity.pid] = record.mark
        self._kill_targets()

    def _kill_targets(self) -> None:
        self.kill_set.add_descendants()
        self.alive_tags.update(target.mark for target in self.kill_set.remaining())
        self.kill_set.kill()
        self.kill_set.wait_ended(self.exit_wait_s)

    # The sweep

    def _sweep(self) -> Iterator[float]:
        clean = 0
        while clean < 2 and not (self.is_scanned and self.kill_set.is_late()):
            is_new = yield from self._scan()
            if not is_new and clean == 0:
                is_new = yield from self._scan_new_pids(_PAUSE_S)
            clean = 0 if is_new else clean + 1
        if clean < 2 and self.ended_unseen is not None:
            self.unconfirmed.add(self.ended_unseen)

    def _scan(self) -> Generator[float, None, bool]:
        is_new = False
        ended_unseen = False
        # The first scan's living daemons are excluded; later scans see all processes again.
        excluded = frozenset[int]() if self.is_scanned else self.ownership.untagged
        for count, pid in enumerate(every_pid()):
            if self.is_scanned and count % _AT_ONCE == _AT_ONCE - 1:
                yield 0.0
            if pid in excluded:
                continue
            match self._add_owned(pid):
                case "new":
                    is_new = True
                case "gone":
                    is_new = ended_unseen = True
                    self.ended_unseen = pid
                case _:
                    pass
        self.is_scanned = True
        if is_new:
            self._kill_targets()
        if ended_unseen:
            yield from self._scan_new_pids(_CHASE_S)
        return is_new

    def _add_owned(self, pid: int) -> str:
        tag = self.ownership.find_tag(pid)
        if tag is None:
            return "none"
        result = self.kill_set.add_if(pid, str(tag), lambda: self.ownership.find_tag(pid) == tag)
        if result == "new":
            self.alive_tags.add(str(tag))
        return result

    def _scan_new_pids(self, for_s: float) -> Generator[float, None, bool]:
        """Check new pids until none was owned for `for_s`; return True if any was.

        A process that forks and exits faster than a scan is among the newest pids.
        """
        is_new = False
        seen = _newest_pid()
        quiet = time.monotonic() + for_s
        yield 0.001
        while not self.kill_set.is_late() and time.monotonic() < quiet:
            newest = _newest_pid()
            if newest == seen:
                yield 0.001
                continue
            for pid in range(newest, max(1, newest - 64, seen if seen < newest else 1), -1):
                if self._add_owned(pid) in ("new", "gone"):
                    self.kill_set.kill()
                    self.ended_unseen = pid
                    is_new = True
                    quiet = time.monotonic() + for_s
            seen = newest
        if is_new:
            self._kill_targets()
        return is_new

    # The report

    def report(self) -> Report:
        for target in self.kill_set.remaining():
            self.remains.setdefault(target.mark, []).append(target.identity)
            self.unconfirmed.add(target.pid)
            why = "may not be signalled" if target.pid in self.kill_set.refused else "does not end"
            self.problems.append(f"process {target.pid} of {target.mark} {why}")
        ended: list[Record] = []
        lost: list[Record] = []
        keep: list[Record] = []
        reported: set[str] = set()
        for record in self._ours:
            mark = record.mark
            reported.add(mark)
            if not self.ownership.covers(ProcessTag.read(mark)) or mark in self.spared.values():
                keep.append(record)
            elif mark in self.remains:
                others = {*record.others, *self.remains[mark]} - {record.identity}
                keep.append(
                    record._replace(others=tuple(sorted(others, key=lambda identity: identity.pid)))
                )
            elif not self.is_scanned:
                keep.append(record)
            else:
                (ended if mark in self.alive_tags else lost).append(record)
        for mark, remains in self.remains.items():
            if mark not in reported:
                keep.append(_record_of(mark, remains))
        return Report(
            ended=tuple(ended),
            lost=tuple(lost),
            dropped=self._dropped,
            keep=tuple(keep),
            unconfirmed=tuple(sorted(self.unconfirmed)),
            spared=tuple(sorted(self.spared)),
            killed=self.kill_set.ended,
            problems=tuple(self.problems),
        )


def _record_of(mark: str, remains: Sequence[Identity]) -> Record:
    first, *others = remains
    read = ProcessTag.read(mark)
    return Record(
        n=0 if read is None else read.n,
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
    with open("/proc/loadavg", encoding="ascii") as file:
        return int(file.read().split()[4])
