"""The processes of one handle: find, signal and end them, and wait until none is left.

A tree is the leader, adopted orphans with the handle's tag or rlimit tag, of the leader's session
or group, or seen before, all descendants, and the handle's cgroup. A signal goes through a pidfd,
to a process found in the tree while it was open.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

import trio

from haftd.host.cgroup import Cgroup
from haftd.host.descriptors import has_room
from haftd.host.launch.spawn import LaunchedProcess, leaders
from haftd.host.limit_group import LimitGroup
from haftd.host.process import rlimit_tag
from haftd.host.process.ancestry import child_lister, helpers, is_hidden, is_running
from haftd.host.process.identity import Stat, has_ended, read_environ, read_stat, send_signal
from haftd.host.process.process_tag import has_tag

_MAX_PIDFDS = 128
_MANY_PROCESSES = 32
_MANY_PROCESSES_PAUSE_S = 0.02
_HALT_S = 1.0
_SECOND_HANGUP_S = 0.1
_MAX_COMMAND = 120


class ProcessTree:
    """Processes of one handle; `mark` is their HAFT_HANDLE."""

    __slots__ = (
        "_instance_prefix",
        "_is_over",
        "_rlimit_tag",
        "_seen",
        "_tag_bytes",
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
        self._rlimit_tag = rlimit_tag.encode(mark) if mark else None
        self._instance_prefix = (
            rlimit_tag.instance_prefix(self._rlimit_tag) if self._rlimit_tag else None
        )
        self._tag_bytes = os.fsencode(mark)
        self._seen: dict[int, int] = {}
        self._is_over = False
        """True once no process can be left: then none ever joins."""
        self.leader_was_signalled = False
        """True once `end` has signalled the living leader."""

    def members(self) -> tuple[int, ...]:
        return tuple(sorted(self._find()[0]))

    def is_over(self) -> bool:
        """True if one search proves that no process is left."""
        self._find()
        return self._is_over

    def left_behind(self) -> dict[int, str]:
        """Return the command line, by pid, of each living process besides the leader."""
        return {pid: command_of(pid) for pid in self.members() if pid != self.leader.pid}

    def signal(self, signum: int) -> int:
        processes, _ = self._find()
        return self._send(processes, (signum,))

    def signal_group(self, signum: int, group: int | None = None) -> int:
        """Signal the tree's processes in a group, by default the leader's; return the count."""
        group_id = self.leader.pid if group is None else group
        processes, _ = self._find()
        chosen = {pid: stat for pid, stat in processes.items() if stat.group == group_id}
        return self._send(chosen, (signum,), among=processes)

    async def gone(self) -> None:
        """Wait until no process is left, woken by their ends."""
        clean, pause = 0, 0.005
        while clean < 2:
            processes, sure = self._find()
            if self._is_over:
                return
            if processes:
                clean, pause = 0, 0.005
                await self._wait(processes)
            elif sure:
                clean += 1
                await trio.lowlevel.checkpoint()
            else:
                # A process ended during the search and left a child, which no pidfd reports.
                clean = 0
                await trio.sleep(pause)
                pause = min(pause * 2, 1.0)
        self.leader.reap()

    async def end(self, grace_s: float, kill_s: float = 5.0) -> tuple[int, ...]:
        """End all processes: TERM (and CONT), up to `grace_s` later KILL, for up to `kill_s`.

        Return the surviving pids; if empty, the leader's status was taken, too. Shield the call: a
        cancellation leaves half of the work.
        """
        if self.cgroup is not None and len(self.cgroup.procs()) > _MANY_PROCESSES:
            await self._end_frozen(self.cgroup, grace_s, kill_s)
            grace_s = 0
        processes, _ = self._find()
        if grace_s > 0 and self._request_stop(processes):
            with trio.move_on_after(grace_s):
                with trio.move_on_after(_SECOND_HANGUP_S):
                    await self.gone()
                    return ()
                # A shell between two commands ignores TERM, and looks like a shell only now.
                self._hang_up(self._find()[0])
                await self.gone()
                return ()
        if self.limit_group is not None:
            self.limit_group.stop_forks()
        clean = 0
        last: tuple[int, ...] = ()
        with trio.move_on_after(kill_s):
            while clean < 2:
                processes, sure = self._find()
                last = tuple(sorted(processes)) or last
                if not processes:
                    if self._is_over:
                        return ()
                    if sure:
                        clean += 1
                        await trio.lowlevel.checkpoint()
                    else:
                        clean = 0
                        self._kill_leader()
                        await trio.sleep(0.001)
                    continue
                clean = 0
                if self.cgroup is not None:
                    self.cgroup.kill()
                killed = self._send(processes, (signal.SIGKILL,))
                with trio.move_on_after(0.1 if killed else 0.3) as scope:
                    await self._wait(processes)
                if not killed and scope.cancelled_caught:
                    break  # the remaining processes belong to another user by now
        self.leader.reap()
        if clean == 2:
            return ()
        return self.members() or last or tuple(sorted(self._seen)) or (self.leader.pid,)

    async def _end_frozen(self, cgroup: Cgroup, grace_s: float, kill_s: float) -> None:
        """Terminate, then kill a large cgroup's processes; misses those that left it."""
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

    def _request_stop(self, processes: dict[int, Stat]) -> int:
        """Send TERM, and CONT: a stopped process acts on TERM only when continued."""
        self.leader_was_signalled = self.leader_was_signalled or not self.leader.is_exiting()
        shells = self._hang_up(processes)
        return shells + self._send(processes, (signal.SIGTERM, signal.SIGCONT))

    def _hang_up(self, processes: dict[int, Stat]) -> int:
        shells = {pid: stat for pid, stat in processes.items() if self._wants_hangup(pid)}
        return self._send(shells, (signal.SIGHUP, signal.SIGCONT), among=processes)

    def _wants_hangup(self, pid: int) -> bool:
        """True for an interactive shell, which ignores TERM and ends by HUP."""
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                text = file.read()
        except OSError:
            return False
        masks = dict(line.split(b"\t", 1) for line in text.splitlines() if line.startswith(b"Sig"))
        ignored = int(masks.get(b"SigIgn:", b"0"), 16)

        def has(mask: int, signum: int) -> bool:
            return bool(mask >> signum - 1 & 1)

        # A shell with job control also ignores the typed stop; `trap '' TERM` alone is a wish.
        shell = has(ignored, signal.SIGTERM) and has(ignored, signal.SIGTSTP)
        return shell and not has(ignored, signal.SIGHUP)

    def _find(self) -> tuple[dict[int, Stat], bool]:
        """Return the living processes, and True if none can have been missed.

        A process that ends during the search may leave a child behind the end of the list. Once the
        leader is reaped, a list of only other handles' children, dead ones included, has no such
        process.
        """
        processes: dict[int, Stat] = {}
        if self._is_over:
            return processes, True
        sure = True
        is_over = self.leader.exit is not None
        me = os.getpid()
        queue: list[int] = []
        try:
            below = child_lister()
            queue += below(me)
        except OSError:
            sure = False
        while queue:
            pid = queue.pop()
            if pid in processes or pid == me or leaders.get(pid, self.leader) is not self.leader:
                continue
            if pid in helpers and pid not in leaders:
                continue
            stat = read_stat(pid)
            if stat is None:
                is_over = False
                sure = sure and is_hidden(pid)
                continue
            if stat.parent == me and not self._is_member(stat):
                is_over = is_over and self._is_of_another(pid)
                continue
            is_over = False
            if is_running(stat):
                processes[pid] = stat
            try:
                queue += below(pid)
            except OSError:
                sure = False
        if self.cgroup is not None:
            for pid in self.cgroup.procs():
                is_over = False
                if (
                    pid not in processes
                    and pid != me
                    and (stat := read_stat(pid))
                    and is_running(stat)
                ):
                    processes[pid] = stat
        seen = {pid: stat.ticks for pid, stat in processes.items()}
        self._seen = seen if sure else {**self._seen, **seen}
        self._is_over = is_over and sure
        return processes, sure

    def _is_member(self, stat: Stat) -> bool:
        pid = stat.pid
        if leaders.get(pid) is self.leader:
            return True
        tag = rlimit_tag.read_tag(pid)
        if tag is not None and tag == self._rlimit_tag:
            return True
        if tag is not None and rlimit_tag.instance_prefix(tag) == self._instance_prefix:
            return False  # of another handle
        if self._tag_bytes and has_tag(read_environ(pid) or b"", self._tag_bytes):
            return True
        if self.leader.pid in (stat.group, stat.session):
            return True
        return self._seen.get(pid) == stat.ticks

    def _is_of_another(self, pid: int) -> bool:
        tag = rlimit_tag.read_tag(pid)
        return (
            tag is not None
            and tag != self._rlimit_tag
            and rlimit_tag.instance_prefix(tag) == self._instance_prefix
        )

    def _open_verified(self, stat: Stat, among: dict[int, Stat]) -> int | None:
        """Open a pidfd of a process that is in the tree while it is open."""
        pid = stat.pid
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        now = read_stat(pid)
        if now is not None and now.ticks == stat.ticks and not has_ended(pidfd):
            if now.parent in among or (now.parent == os.getpid() and self._is_member(now)):
                return pidfd
            if self.cgroup is not None and pid in self.cgroup.procs():
                return pidfd
        os.close(pidfd)
        return None

    def _send(
        self, chosen: dict[int, Stat], signums: Iterable[int], among: dict[int, Stat] | None = None
    ) -> int:
        count = 0
        for stat in chosen.values():
            pidfd = self._open_verified(stat, chosen if among is None else among)
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

    async def _wait(self, processes: dict[int, Stat]) -> None:
        held: list[int] = []
        try:
            for stat in processes.values():
                pidfd = self._open_verified(stat, processes)
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


def command_of(pid: int) -> str:
    try:
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
