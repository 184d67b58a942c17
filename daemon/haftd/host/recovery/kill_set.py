"""Processes to be killed, each held by an open pidfd.

The pidfd is opened before the evidence is read by pid: a process that lives after that had the pid
all along. A target is stopped at once: it keeps its children, and its pid, and so its group and
session.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Literal

from haftd.host.process.identity import (
    Identity,
    Stat,
    every_pid,
    has_ended,
    identify_child,
    open_pidfd,
    open_verified,
    read_stat,
    send_signal,
)
from haftd.named_tuple import NamedTuple

AddResult = Literal["new", "known", "gone", "protected"]
"""`gone`: not added, as it has ended, or is none to be killed once its pidfd is open."""

_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9


class Target(NamedTuple):
    identity: Identity
    pidfd: int
    mark: str
    leads_group: bool
    leads_session: bool

    @property
    def pid(self) -> int:
        return self.identity.pid


class KillSet:
    """Processes to kill that have not ended. Its waits block until `deadline` (time.monotonic) at most."""

    def __init__(self, protected: frozenset[int], deadline: float) -> None:
        self.protected = protected
        self.deadline = deadline
        self.refused: set[int] = set()
        """Targets that this user may not signal."""
        self.ended_count = 0
        """Targets that have ended."""
        self._targets: dict[int, Target] = {}
        groups = {stat.group for pid in protected if (stat := read_stat(pid)) is not None}
        self._protected_groups = frozenset(groups)
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Each target holds a descriptor: with too many, those at hand are ended first.
        self._most = 4096 if soft == resource.RLIM_INFINITY else max(8, min(4096, soft // 2 - 32))

    def is_late(self) -> bool:
        return time.monotonic() >= self.deadline

    def remaining(self) -> list[Target]:
        return list(self._targets.values())

    def close(self) -> None:
        for target in self._targets.values():
            os.close(target.pidfd)
        self._targets.clear()

    def add_if(self, pid: int, mark: str, is_target: Callable[[], bool]) -> AddResult:
        """Add a process, and stop it, if `is_target` returns True, which is called with its pidfd open."""
        if pid <= 1 or pid in self.protected:
            return "protected"
        existing = self._targets.get(pid)
        if existing is not None:
            if not has_ended(existing.pidfd):
                return "known"
            self._drop(existing)
        self._make_room()
        pidfd = open_pidfd(pid)
        if pidfd is None:
            return "gone"
        if has_ended(pidfd) or not is_target() or not self._take(pid, pidfd, mark):
            os.close(pidfd)
            return "gone"
        return "new"

    def add(self, identity: Identity, mark: str) -> AddResult:
        """Add exactly this process, and stop it."""
        if identity.pid in self.protected:
            pidfd = open_verified(identity)
            if pidfd is None:
                return "gone"
            os.close(pidfd)
            return "protected"
        if identity.pid in self._targets:
            return "known"
        self._make_room()
        pidfd = open_verified(identity)
        if pidfd is None:
            return "gone"
        if has_ended(pidfd) or not self._take(identity.pid, pidfd, mark):
            os.close(pidfd)
            return "gone"
        return "new"

    def add_descendants(self) -> None:
        """Add the targets' descendants, and groups and sessions that they lead."""
        fresh = bool(self._targets)
        while fresh and not self.is_late():
            fresh = False
            for pid in every_pid():
                owner = self._owner(read_stat(pid))
                if owner is None:
                    continue
                result = self.add_if(pid, owner.mark, lambda pid=pid: self._is_owned(pid))  # type: ignore[misc]
                fresh = fresh or result == "new"

    def kill(self) -> None:
        """Kill every target, and with a group leader the group."""
        for target in self._targets.values():
            if target.leads_group and target.pid not in self._protected_groups:
                self._send(target, signal.SIGKILL, _GROUP)
            self._send(target, signal.SIGKILL)

    def wait_ended(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of every target that may be signalled, until the deadline or for
        `timeout_s`; return True if all have ended."""
        until = self.deadline
        if timeout_s is not None:
            until = min(until, time.monotonic() + timeout_s)
        poll = select.poll()
        by_fd = {
            target.pidfd: target
            for target in self._targets.values()
            if target.pid not in self.refused
        }
        for pidfd in by_fd:
            poll.register(pidfd, select.POLLIN)
        while by_fd:
            left_s = until - time.monotonic()
            ready = poll.poll(max(0.0, left_s) * 1000)
            for pidfd, _event in ready:
                poll.unregister(pidfd)
                self._drop(by_fd.pop(pidfd))
            if not ready and left_s <= 0:
                return False
        return True

    def _take(self, pid: int, pidfd: int, mark: str) -> bool:
        stat = read_stat(pid)
        if stat is None:
            return False
        try:
            identity = identify_child(pid, pidfd)
        except ProcessLookupError:
            return False
        if has_ended(pidfd):
            return False
        target = Target(identity, pidfd, mark, stat.group == pid, stat.session == pid)
        self._targets[pid] = target
        self._send(target, signal.SIGSTOP)
        return True

    def _drop(self, target: Target) -> None:
        self.ended_count += 1
        self.refused.discard(target.pid)
        del self._targets[target.pid]
        os.close(target.pidfd)

    def _send(self, target: Target, signum: int, flags: int = 0) -> None:
        try:
            send_signal(target.pidfd, signum, flags)
        except PermissionError:
            self.refused.add(target.pid)
        except OSError as error:
            if error.errno != errno.EINVAL:  # an older kernel does not know the flag
                raise

    def _make_room(self) -> None:
        if len(self._targets) >= self._most:
            self.kill()
            self.wait_ended()

    def _owner(self, stat: Stat | None) -> Target | None:
        if stat is None or stat.pid in self._targets:
            return None
        parent = self._targets.get(stat.parent)
        if parent is not None:
            return parent
        group = self._targets.get(stat.group)
        if group is not None and group.leads_group:
            return group
        session = self._targets.get(stat.session)
        return session if session is not None and session.leads_session else None

    def _is_owned(self, pid: int) -> bool:
        owner = self._owner(read_stat(pid))
        # The number is the owner's until its end.
        return owner is not None and not has_ended(owner.pidfd)
