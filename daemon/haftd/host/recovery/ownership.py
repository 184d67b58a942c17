"""Ownership check: processes that recovery may kill, by the tag in the environment or the rlimit
tag.

Processes of a living daemon, even one without its lock, are never killed. A daemon's environment is
unreadable (`privacy`): its process name carries the instance. Hold an open pidfd while asking. A
process that another home's daemon started below a handle has both tags, and belongs to the handle
as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from haftd.host.files.lockfile import holds_daemon_lock
from haftd.host.process import privacy, rlimit_tag
from haftd.host.process.ancestry import is_running
from haftd.host.process.identity import every_pid, read_environ, read_stat
from haftd.host.process.process_tag import ProcessTag, find_tag, find_tags

_LIVING_S = 0.2
"""Longest time from a fork of a daemon to the exec."""


class Ownership:
    """Scope of one recovery: all of `home`, or one `instance`, without living daemons."""

    def __init__(
        self, home: str, protected: frozenset[int], *, instance: str | None, live: str
    ) -> None:
        self.home = home
        self.instance = instance
        self._protected = protected
        self._living = {live} if live else set()
        self._known: dict[int, ProcessTag] = {}
        self.untagged: frozenset[int] = frozenset()
        """Processes without any tag, as of `exempt_living_daemons`."""
        self._home_prefix = rlimit_tag.home_prefix(
            rlimit_tag.encode(str(ProcessTag(home, "0" * 12, 0)))
        )

    def add_tags(self, marks: Iterable[str]) -> None:
        """Register full tags: an rlimit tag holds only a part."""
        for text in marks:
            tag = ProcessTag.read(text)
            if tag is not None:
                self._known[rlimit_tag.encode(text)] = tag

    def covers(self, tag: ProcessTag | None) -> bool:
        """True for the tag of a handle, not of a daemon, within the scope."""
        return tag is not None and tag.n != 0 and self._is_owned(tag)

    def _is_owned(self, tag: ProcessTag) -> bool:
        return (
            tag.home == self.home
            and self._living.isdisjoint((tag.instance, tag.instance[: privacy.LENGTH]))
            and self.instance in (None, tag.instance)
        )

    def find_tag(self, pid: int) -> ProcessTag | None:
        """Return the tag of a process to kill, if need be reconstructed from its rlimit tag; None for a
        process to leave alone."""
        if pid <= 1 or pid in self._protected:
            return None
        environ = read_environ(pid)
        for tag in () if environ is None else find_tags(environ):
            if self.covers(tag):
                return tag
        rlimit_tagged = self._rlimit_tagged(pid)
        return rlimit_tagged if self.covers(rlimit_tagged) else None

    def exempt_living_daemons(self) -> list[int]:
        """Exempt the processes of daemons that run on without the lock; return the daemons' pids.

        A child between fork and exec looks the same: blocks up to 0.2 s.
        """
        until = time.monotonic() + _LIVING_S
        while daemons := self._daemons():
            if time.monotonic() > until:
                self._living.update(daemons.values())
                return list(daemons)
            time.sleep(0.005)
        return []

    def _daemons(self) -> dict[int, str]:
        named: dict[int, str] = {}
        tagged: dict[int, ProcessTag] = {}
        untagged: set[int] = set()
        for pid in every_pid():
            if pid > 1 and pid not in self._protected:
                if (instance := privacy.read_instance(pid)) is not None and self._serves(pid):
                    named[pid] = instance
                environ = read_environ(pid)
                tag = None if environ is None else find_tag(environ)
                if tag is not None and self._is_owned(tag):
                    tagged[pid] = tag
                elif (
                    environ is not None
                    and b"HAFT_" not in environ
                    and rlimit_tag.read_tag(pid) is None
                ):
                    untagged.add(pid)
        self.untagged = frozenset(untagged)
        daemons = {
            pid: tag.instance
            for pid, tag in tagged.items()
            if tag.n == 0 and holds_daemon_lock(pid)
        }
        if named := {pid: run for pid, run in named.items() if pid not in daemons}:
            # Only the daemon's processes show its home.
            runs = {tag.instance[: privacy.LENGTH] for tag in tagged.values()}
            rlimit_tags = {
                number for pid in every_pid() if (number := rlimit_tag.read_tag(pid)) is not None
            }
            numbers = {rlimit_tag.instance_prefix(number) for number in rlimit_tags}
            for pid, run in named.items():
                own = rlimit_tag.instance_prefix(
                    rlimit_tag.encode(str(ProcessTag(self.home, run, 0)))
                )
                if run not in self._living and (run in runs or own in numbers):
                    daemons[pid] = run
        return daemons

    def _serves(self, pid: int) -> bool:
        stat = read_stat(pid)
        return stat is not None and is_running(stat) and holds_daemon_lock(pid)

    def _rlimit_tagged(self, pid: int) -> ProcessTag | None:
        number = rlimit_tag.read_tag(pid)
        if number is None or rlimit_tag.home_prefix(number) != self._home_prefix:
            return None
        stat = read_stat(pid)
        if stat is None or stat.state in "ZX":  # the rlimit tag stays until reaping
            return None
        if number in self._known:
            return self._known[number]
        n = number & 0x3FFFF or 1 << 18  # no handle has 0
        for instance in (*self._living, self.instance):
            if instance is not None:
                tag = ProcessTag(self.home, instance, n)
                if rlimit_tag.encode(str(tag)) == number:
                    return tag
        return ProcessTag(
            self.home, f"{rlimit_tag.instance_prefix(number) & 0xFFFFF:05x}0000000", n
        )
