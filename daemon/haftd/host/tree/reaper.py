"""Reap the orphans that the daemon adopted.

A child is identified (WNOWAIT) before it is reaped, so no status is stolen.
"""

from __future__ import annotations

import os
import signal

import trio

from haftd.host.launch.launched_process import ENDED, ENDED_UNTAKEN, leaders, reapers
from haftd.host.process import rlimit_tag, usage
from haftd.host.process.ancestry import abandoned, helpers, make_child_lister
from haftd.host.process.identity import read_stat


class Reaper:
    """Reaps adopted orphans, and no child that other code waits for.

    A leader's status goes to the `LaunchedProcess`. A child with an rlimit tag was adopted, and one
    in `abandoned` is the daemon's; any other may be a library's, and is reaped when it has been dead for
    `delay_s`.
    """

    __slots__ = ("_dead", "_delay_s", "_woken")

    def __init__(self, delay_s: float = 0.25) -> None:
        self._delay_s = delay_s
        self._dead: dict[int, int] = {}
        self._woken = trio.Event()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Reap until cancelled, in the main thread (SIGCHLD)."""
        token = trio.lowlevel.current_trio_token()

        def on_end() -> None:
            if self._must_wake():
                token.run_sync_soon(self._wake, idempotent=True)

        before = signal.signal(signal.SIGCHLD, lambda signum, frame: on_end())
        reapers.append(on_end)
        try:
            task_status.started()
            pending = self.reap()
            while True:
                if pending:
                    await trio.sleep(self._delay_s)
                    # Tasks that wait for a pidfd were also woken, and go first.
                    await trio.lowlevel.checkpoint()
                    await trio.lowlevel.checkpoint()
                else:
                    await self._woken.wait()
                self._woken = trio.Event()
                pending = self.reap()
        finally:
            reapers.remove(on_end)
            signal.signal(signal.SIGCHLD, before or signal.SIG_DFL)  # None: not Python's

    def _wake(self) -> None:
        self._woken.set()

    def _must_wake(self) -> bool:
        """True if the first ended child is awaited by no task: to wake this task for each
        leader would cost more than its end. Called by a signal handler."""
        info = _find_untaken_end(os.P_ALL, 0)
        if info is None:
            return False
        leader = leaders.get(info.si_pid)
        return leader is None or not leader.is_awaited

    def reap(self) -> bool:
        """Reap the ended children; return True if some may be a library's, and must be checked again
        after the delay."""
        while True:
            info = _find_untaken_end(os.P_ALL, 0)
            if info is None:
                self._dead.clear()
                return False
            leader = leaders.get(info.si_pid)
            if info.si_code not in ENDED:
                break
            if leader is not None:
                if leader.reap() is None:
                    break
            elif _may_be_awaited(info.si_pid, tag := rlimit_tag.read_tag(info.si_pid)):
                break
            else:
                _take(info.si_pid, tag)
        return self._reap_strangers()

    def _reap_strangers(self) -> bool:
        """Check all children, as a library's child hides the others from waitid(2); return True as `reap`
        does."""
        dead: dict[int, int] = {}
        for pid in make_child_lister()(os.getpid()):
            # `stat` of a living child may wait for its execve(2).
            stat = read_stat(pid) if _has_ended(pid) else None
            if stat is None or stat.state != "Z":
                continue
            if (leader := leaders.get(pid)) is not None:
                leader.reap()
                continue
            tag = rlimit_tag.read_tag(pid)
            if _may_be_awaited(pid, tag) and self._dead.get(pid) != stat.ticks:
                dead[pid] = stat.ticks
            else:
                _take(pid, tag)
        self._dead = dead
        return bool(dead)


def _has_ended(pid: int) -> bool:
    info = _find_untaken_end(os.P_PID, pid)
    return info is not None and info.si_code in ENDED


def _find_untaken_end(kind: int, id: int) -> os.waitid_result | None:
    """Return the end of a child, which can still be reaped; None for none."""
    try:
        return os.waitid(kind, id, ENDED_UNTAKEN)
    except ChildProcessError:
        return None


def _may_be_awaited(pid: int, tag: int | None) -> bool:
    return pid not in abandoned and tag in (None, rlimit_tag.read_tag(os.getpid()))


def _take(pid: int, tag: int | None) -> None:
    """Reap an ended child, and count its processor time for its tag."""
    used_s = usage.read_cpu_s((pid,)) if tag in usage.ended else 0.0
    helpers.discard(pid)
    abandoned.discard(pid)
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # another waiter has reaped the child
    usage.count_end(tag, used_s)
