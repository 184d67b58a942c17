"""The processes of one handle: find, signal and end them, and wait until none is left.

A tree is the leader, adopted orphans with the handle's tag or rlimit tag, of the leader's session
or group, or seen before, all descendants, and the handle's cgroup. A signal goes through a pidfd,
to exactly the process that was found.

The search reads no file of /proc that waits for a lock of the process (`stat`, `environ`, `exe`,
`wchan`: exec_update_lock from Linux 6.18 on): a starved process in execve(2) holds it for seconds.
The exception is `environ` of an orphan without an rlimit tag of this daemon, outside of the leader's
session and group.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress

import trio

from haftd.host.cgroup import Cgroup
from haftd.host.descriptors import has_room
from haftd.host.launch.launched_process import LaunchedProcess, leaders
from haftd.host.limit_group import LimitGroup
from haftd.host.process import rlimit_tag
from haftd.host.process.ancestry import helpers, make_child_lister
from haftd.host.process.handle_tag import HandleTag
from haftd.host.process.identity import (
    has_ended,
    open_pidfd,
    read_pidfd_key,
    send_signal,
)
from haftd.host.process.status import read_status
from haftd.named_tuple import NamedTuple

_MAX_PIDFDS = 128
"""Descriptors of one wait; further processes are waited for in the next."""
_FEW_PROCESSES = 3
"""Processes whose command lines are read even if one may block."""
_MANY_PROCESSES = 32
"""Processes beyond which a cgroup is frozen and killed as a whole, as a search takes long."""
_MANY_PROCESSES_PAUSE_S = 0.02
"""Between looks at the cgroup."""
_HALT_S = 1.0
"""Longest wait for a cgroup to freeze: a process in an uninterruptible sleep delays it."""
_SECOND_HANGUP_S = 0.1
"""From TERM to a second search for interactive shells."""
_MAX_COMMAND = 120
"""Characters of a shown command line: a line of a listing."""
_turn = trio.Lock()


async def take_turn() -> None:
    """Wait for a pass of the loop without another tree's search: the searches of many large trees in
    one pass would hold up the loop."""
    async with _turn:
        pass  # the next task has its turn in the next pass


class _Member(NamedTuple):
    pid: int
    key: int
    """`read_pidfd_key`."""


class ProcessTree:
    """Processes of one handle; `mark` is their HAFT_HANDLE."""

    __slots__ = (
        "_is_over",
        "_seen",
        "_tag",
        "cgroup",
        "leader",
        "leader_was_signalled",
        "limit_group",
        "mark",
    )

    def __init__(
        self,
        leader: LaunchedProcess,
        mark: str,
        cgroup: Cgroup | None = None,
        limit_group: LimitGroup | None = None,
    ) -> None:
        self.leader = leader
        self.mark = mark
        self.cgroup = cgroup
        self.limit_group = limit_group
        self._tag = HandleTag(mark)
        self._seen: dict[int, int] = {}
        self._is_over = False
        """True once no process can be left: then none ever joins."""
        self.leader_was_signalled = False
        """True once `end` has sent TERM to the living leader."""

    def members(self) -> tuple[int, ...]:
        return tuple(sorted(self._find()[0]))

    def check_over(self) -> bool:
        """True if one search proves that no process is left."""
        self._find()
        return self._is_over

    def left_behind(self) -> dict[int, str]:
        """Return the command line, by pid, of each living process except the leader."""
        return read_commands([pid for pid in self.members() if pid != self.leader.pid])

    def signal(self, signum: int) -> int:
        """Signal each living process; return the count of those that got the signal."""
        processes, _ = self._find()
        return self._send(processes, (signum,))

    def signal_group(self, signum: int, group: int | None = None) -> int:
        """Signal the tree's processes in a group, by default the leader's; return the count."""
        group_id = self.leader.pid if group is None else group
        processes, _ = self._find()
        chosen = {
            pid: process for pid, process in processes.items() if _read_group(pid) == group_id
        }
        return self._send(chosen, (signum,))

    async def wait_ended(self) -> None:
        """Wait until no process is left, woken by their ends, and reap the leader."""
        empty_searches, pause = 0, 0.005
        while empty_searches < 2:
            await take_turn()
            processes, is_complete = self._find()
            if self._is_over:
                return
            if processes:
                empty_searches, pause = 0, 0.005
                await self._wait(processes)
            elif is_complete:
                empty_searches += 1
                await trio.lowlevel.checkpoint()
            else:
                # A process ended during the search and left a child, which no pidfd reports.
                empty_searches = 0
                await trio.sleep(pause)
                pause = min(pause * 2, 1.0)
        self.leader.reap()

    async def end(self, grace_s: float, kill_s: float = 5.0) -> tuple[int, ...]:
        """End all processes: TERM and CONT, for interactive shells HUP as well, and KILL up to
        `grace_s` later; a `grace_s` of 0 kills at once. Give up when for `kill_s` the number of
        processes has reached no new minimum: a killed process needs time to end.

        Return the surviving pids; if empty, the leader's status was also taken. Shield the call: a
        cancellation leaves half of the work.
        """
        if self.cgroup is not None and len(self.cgroup.procs()) > _MANY_PROCESSES:
            await self._end_frozen(self.cgroup, grace_s, kill_s)
            grace_s = 0
        await take_turn()
        processes, _ = self._find()
        if grace_s > 0 and self._request_stop(processes):
            with trio.move_on_after(grace_s):
                with trio.move_on_after(_SECOND_HANGUP_S):
                    await self.wait_ended()
                    return ()
                # A shell between two commands ignores TERM, and looks like a shell only now.
                await take_turn()
                self._hang_up(self._find()[0])
                await self.wait_ended()
                return ()
        if self.limit_group is not None:
            self.limit_group.stop_forks()
        empty_searches = 0
        last: tuple[int, ...] = ()
        fewest = len(self._seen)
        with trio.move_on_after(kill_s) as patience:
            while empty_searches < 2:
                await take_turn()
                processes, is_complete = self._find()
                if len(processes) < fewest:
                    fewest = len(processes)
                    patience.deadline = trio.current_time() + kill_s
                last = tuple(sorted(processes)) or last
                if not processes:
                    if self._is_over:
                        return ()
                    if is_complete:
                        empty_searches += 1
                        await trio.lowlevel.checkpoint()
                    else:
                        empty_searches = 0
                        self._kill_leader()
                        await trio.sleep(0.001)
                    continue
                empty_searches = 0
                if self.cgroup is not None:
                    self.cgroup.kill()
                killed = self._send(processes, (signal.SIGKILL,))
                with trio.move_on_after(0.1 if killed else 0.3) as scope:
                    await self._wait(processes)
                if not killed and scope.cancelled_caught:
                    break  # the remaining processes belong to another user by now
        self.leader.reap()
        if empty_searches == 2:
            return ()
        return self.members() or last or tuple(sorted(self._seen)) or (self.leader.pid,)

    async def _end_frozen(self, cgroup: Cgroup, grace_s: float, kill_s: float) -> None:
        """Terminate, then kill a large cgroup's processes, for up to `grace_s` and `kill_s`; misses
        processes that have left the cgroup."""
        if grace_s > 0:
            with cgroup.frozen():
                with trio.move_on_after(_HALT_S):
                    while not cgroup.is_frozen():
                        await trio.sleep(_MANY_PROCESSES_PAUSE_S)
                self._request_stop(self._find()[0])
            with trio.move_on_after(grace_s):
                while cgroup.is_populated():
                    await trio.sleep(_MANY_PROCESSES_PAUSE_S)
        with trio.move_on_after(kill_s):
            while cgroup.is_populated():
                cgroup.kill()
                await trio.sleep(_MANY_PROCESSES_PAUSE_S)

    def _kill_leader(self) -> None:
        """Kill the leader by the open pidfd: no other descriptor may be left."""
        if self.leader.reap() is None:
            with suppress(PermissionError):
                send_signal(self.leader.pidfd, signal.SIGKILL)

    def _request_stop(self, processes: dict[int, _Member]) -> int:
        """Send TERM, and CONT: a stopped process acts on TERM only when continued. Return the count
        of signalled processes, shells twice."""
        self.leader_was_signalled = self.leader_was_signalled or not self.leader.is_exiting()
        shells = self._hang_up(processes)
        return shells + self._send(processes, (signal.SIGTERM, signal.SIGCONT))

    def _hang_up(self, processes: dict[int, _Member]) -> int:
        """Send HUP and CONT to the interactive shells; return their count."""
        shells = {pid: process for pid, process in processes.items() if self._wants_hangup(pid)}
        return self._send(shells, (signal.SIGHUP, signal.SIGCONT))

    def _wants_hangup(self, pid: int) -> bool:
        """True for an interactive shell, which ignores TERM and ends by HUP."""
        try:
            status = read_status(pid)
        except OSError:
            return False
        if status is None:
            return False
        # A shell with job control also ignores the typed stop; a process that ignores TERM alone
        # (`trap '' TERM`) is meant to keep running.
        is_shell = all(
            status.has_signal(b"SigIgn", signum) for signum in (signal.SIGTERM, signal.SIGTSTP)
        )
        return is_shell and not status.has_signal(b"SigIgn", signal.SIGHUP)

    def _find(self) -> tuple[dict[int, _Member], bool]:
        """Return the living processes, and True if none can have been missed.

        A process that ends during the search may leave a child that is then after the end of the list. Once the
        leader is reaped, a list of only other handles' children, dead children included, has no
        such process.
        """
        processes: dict[int, _Member] = {}
        if self._is_over:
            return processes, True
        is_complete = True
        is_over = self.leader.exit is not None
        me = os.getpid()
        queue: list[tuple[int, int]] = []
        try:
            below = make_child_lister()
            queue += [(pid, me) for pid in below(me)]
        except OSError:
            is_complete = False
        while queue:
            pid, parent = queue.pop()
            if pid in processes or pid == me or leaders.get(pid, self.leader) is not self.leader:
                continue
            if pid in helpers and pid not in leaders:
                continue
            if parent == me and pid not in leaders:
                tag = rlimit_tag.read_tag(pid)
                if self._tag.is_of_sibling(tag):
                    continue
                if not self._is_orphan(pid, tag):
                    is_over = False
                    continue
            is_over = False
            member, is_known = _inspect(pid)
            if member is None:
                is_complete = is_complete and is_known
                continue
            processes[pid] = member
            try:
                queue += [(child, pid) for child in below(pid)]
            except OSError:
                is_complete = False
        if self.cgroup is not None:
            for pid in self.cgroup.procs():
                is_over = False
                if pid not in processes and pid != me and (member := _inspect(pid)[0]):
                    processes[pid] = member
        seen = {pid: member.key for pid, member in processes.items()}
        self._seen = seen if is_complete else {**self._seen, **seen}
        self._is_over = is_over and is_complete
        return processes, is_complete

    def _is_orphan(self, pid: int, tag: int | None) -> bool:
        """True if this child of the daemon, with an rlimit tag of no other handle, is of the tree."""
        if self._tag.is_in_limit(tag):
            return True
        if self.leader.pid in (_read_group(pid), _read_session(pid)) or self._tag.is_in_environ(
            pid
        ):
            return True
        if pid not in self._seen:
            return False
        member, _ = _inspect(pid)
        return member is not None and member.key == self._seen[pid]

    def _send(self, chosen: dict[int, _Member], signums: Iterable[int]) -> int:
        count = 0
        for member in chosen.values():
            pidfd = _open_verified(member)
            if pidfd is None:
                continue
            try:
                sent = [send_signal(pidfd, signum) for signum in signums]
                count += any(sent)
            except PermissionError:
                pass  # now another user's (setuid); reported by `end`
            finally:
                os.close(pidfd)
        return count

    async def _wait(self, processes: dict[int, _Member]) -> None:
        """Wait until the first `_MAX_PIDFDS` of these processes have ended, or as many as there are
        free descriptors for."""
        held: list[int] = []
        try:
            for member in processes.values():
                pidfd = _open_verified(member)
                if pidfd is not None:
                    held.append(pidfd)
                    if len(held) == _MAX_PIDFDS or not has_room(pidfd, "wait"):
                        break
            for pidfd in held:
                await trio.lowlevel.wait_readable(pidfd)
            if not held:
                await trio.lowlevel.checkpoint()
        finally:
            for pidfd in held:
                os.close(pidfd)


def _inspect(pid: int) -> tuple[_Member | None, bool]:
    """Return the process, None if ended; and False if even its pid is gone."""
    pidfd = open_pidfd(pid)
    if pidfd is None:
        return None, False
    try:
        return (None if has_ended(pidfd) else _Member(pid, read_pidfd_key(pid, pidfd))), True
    finally:
        os.close(pidfd)


def _open_verified(member: _Member) -> int | None:
    """Open a pidfd of this living process; None if gone."""
    try:
        pidfd = os.pidfd_open(member.pid)
    except OSError:
        return None
    if read_pidfd_key(member.pid, pidfd) == member.key and not has_ended(pidfd):
        return pidfd
    os.close(pidfd)
    return None


def _read_group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _read_session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def read_commands(pids: Sequence[int]) -> dict[int, str]:
    """Return command lines by pid. Of more than `_FEW_PROCESSES`, those at work have only a name, as
    `[bash]`.

    A command line waits for a process in fork(2) or execve(2), which never sleeps there.
    """
    are_several = len(pids) > _FEW_PROCESSES
    return {pid: read_command(pid, name_only=are_several and _is_at_work(pid)) for pid in pids}


def _is_at_work(pid: int) -> bool:
    status = read_status(pid)
    return status is not None and status.run_state in "RD"


def read_command(pid: int, *, name_only: bool = False) -> str:
    """Return up to `_MAX_COMMAND` characters of a process's command line, or its name in brackets if
    it has none; empty for a gone process."""
    text = b""
    try:
        if not name_only:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                text = file.read(4 * _MAX_COMMAND)
        if not text:
            with open(f"/proc/{pid}/comm", "rb") as file:
                text = b"[" + file.read().strip() + b"]"
    except OSError:
        return ""
    line = text.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    line = "".join(char if char.isprintable() else "?" for char in line)
    return line if len(line) <= _MAX_COMMAND else line[: _MAX_COMMAND - 1] + "…"
