"""A launched child, the leader of its handle: from the gate to its exit status, with the daemon's descriptors.

`LaunchedProcess.reap` alone takes a leader's exit status. `leaders` shows the reaper of orphans which
children are leaders.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import trio

from haftd.host import pump
from haftd.host.cgroup import Cgroup
from haftd.host.launch import landlock
from haftd.host.launch.connect_supervisor import take_listener
from haftd.host.launch.gate import CONFINEMENT_FAILED, SUPERVISION_BEGUN
from haftd.host.launch.gate_child import GateChild
from haftd.host.launch.program import (
    LaunchFailed,
    check_folder,
    explain,
    explain_sandbox,
    explain_start,
)
from haftd.host.limit_group import LimitGroup
from haftd.host.process import rlimit_tag, usage
from haftd.host.process.identity import Identity
from haftd.host.process.status import read_status
from haftd.host.readiness import LateEvent
from haftd.named_tuple import NamedTuple

_MAX_MOVES = 8
_moving = trio.CapacityLimiter(_MAX_MOVES)
"""Threads that move children between cgroups: they only wait, so there may be more than processors."""
ENDED_UNTAKEN = os.WEXITED | os.WNOHANG | os.WNOWAIT
"""Options of waitid(2) that look for an end and leave the status."""
ENDED: Final = frozenset([os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED])
"""Codes of waitid(2) for an end; a child traced by its parent reports traps, too."""


class Exit(NamedTuple):
    """Termination of a process: `code`, or `signal` without SIG.

    Both None where other code took the status.
    """

    code: int | None = None
    signal: str | None = None


def name_signal(number: int) -> str:
    """Return `TERM` for 15, `RTMIN+3` for 37, and `33` for a signal that libc keeps to itself."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        after_first = number - signal.SIGRTMIN
        return f"RTMIN+{after_first}" if after_first > 0 else str(number)


class LaunchedProcess:
    """Started leader, with the daemon's descriptors.

    Without `stderr`, `stdout` includes it. A terminal has only `master`; `slave` is the other end's
    path. A descriptor is None before it is opened and after it was closed, `pidfd` -1.
    """

    __slots__ = (
        "_closed",
        "_exit",
        "_gate",
        "_groups",
        "_is_sandboxed",
        "_report",
        "_supervised",
        "_unwatched",
        "began_s",
        "cwd",
        "identity",
        "listener",
        "mark",
        "master",
        "path",
        "pid",
        "pidfd",
        "proxy_port",
        "slave",
        "stderr",
        "stdin",
        "stdout",
    )

    def __init__(
        self, path: str, cwd: str, mark: str, report: int, *, is_sandboxed: bool = False
    ) -> None:
        self.path = path
        self.mark = mark
        self.cwd = cwd
        self.pid = 0
        self.pidfd = -1
        self.identity = Identity(0, 0, 0, "", 0)
        self.began_s = 0.0
        """Time of the gate's opening, by CLOCK_BOOTTIME; the process may be older."""
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        self.master: int | None = None
        self.slave = ""
        self.listener: int | None = None
        """Descriptor of the questions about `connect` in a sandbox with haft's proxy."""
        self.proxy_port = 0
        self._gate: GateChild | None = None
        """The gate, while it waits for the move to `_groups`."""
        self._groups: Sequence[Cgroup | LimitGroup] = ()
        self._supervised: int | None = None
        """Pipe with the byte for which a gate waits that has begun a supervision."""
        self._report: int | None = report
        """Pipe that the gate reports a failure to, until the program is executed."""
        self._is_sandboxed = is_sandboxed
        self._exit: Exit | None = None
        self._closed = False
        self._unwatched: LateEvent | None = None
        """Set when the task that waits at the pidfd stops waiting; None if no task does."""

    def keep_shut(self, gate: GateChild, groups: Sequence[Cgroup | LimitGroup]) -> None:
        """Leave the gate shut until `finish_start` has moved the child to `groups`."""
        self._gate, self._groups = gate, groups

    def open_gate(self, gate: GateChild) -> None:
        """Open the gate, and note the time; raises OSError as `GateChild.open`."""
        self.began_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        gate.open()

    def await_supervision(self, pipe: int) -> None:
        """Have `finish_start` take the listener, and then write the byte that the gate awaits."""
        self._supervised = pipe

    @property
    def exit(self) -> Exit | None:
        return self._exit

    async def finish_start(self) -> None:
        """Open the gate if it is shut, and wait until the program runs. Raises `LaunchFailed`, all
        descriptors closed, if the execution or a move to a cgroup was refused.

        Cancellation leaves a started process, which the caller ends.
        """
        refusal: LaunchFailed | None = None
        code = 0
        try:
            if self._gate is not None:
                refusal = await self._move_and_open(self._gate)
            # What a gate reports is described in `gate`.
            while (code := await self._read_report()) == SUPERVISION_BEGUN:
                refusal = self._take_listener()
        finally:
            self._close("_report", is_watched=False)  # by no other task
        if code == 0 and refusal is None:
            return
        with trio.CancelScope(shield=True):
            await self.wait_exit()  # the gate exits at once
        self.close()
        raise refusal or self._explain_report(code)

    async def _read_report(self) -> int:
        """Return the next int of the gate's report, in another step of the loop; 0 at its end."""
        report = self._report
        if report is None:
            raise AssertionError("the start was finished twice")
        read = b""
        has_waited = False
        while len(read) < 4:
            try:
                part = os.read(report, 4 - len(read))
            except BlockingIOError:
                await trio.lowlevel.wait_readable(report)
                has_waited = True
                continue
            if not part:
                break
            read += part
        if not has_waited:
            # Other tasks have their turn after the launch, which blocks, and see the pending state.
            await trio.lowlevel.checkpoint()
        return int.from_bytes(read, sys.byteorder, signed=True)

    def _explain_report(self, code: int) -> LaunchFailed:
        """Return the error for a gate's report: above `CONFINEMENT_FAILED` the errno of the sandbox,
        above 0 that of the folder, below 0 that of the execution, negative."""
        if code >= CONFINEMENT_FAILED:
            why = os.strerror(code - CONFINEMENT_FAILED).lower()
            return explain_sandbox(f"{landlock.kernel()} refuses it: {why}")
        if code > 0:
            try:
                check_folder(self.cwd)
            except LaunchFailed as missing:
                return missing
            return LaunchFailed(
                f"Cannot start in the folder {self.cwd}: {os.strerror(code).lower()}.", "folder"
            )
        failed = explain(-code, self.path, self.cwd)
        if self._is_sandboxed and -code in (errno.EACCES, errno.EPERM):
            return LaunchFailed(
                f"{failed.message} The tool's sandbox lets it read and execute the system's program "
                "folders, its own file, and the paths of its rules: an interpreter elsewhere needs "
                "`read` and `execute` in `access.fs`.",
                failed.reason,
            )
        return failed

    async def _move_and_open(self, gate: GateChild) -> LaunchFailed | None:
        """Move the child to the cgroups and open the gate. After a failure, returned, the gate is closed,
        and the child exits."""

        def move() -> None:
            for group in self._groups:
                group.add(self.pid)

        try:
            # The kernel waits until each processor has passed through the scheduler: some 15 ms.
            await trio.to_thread.run_sync(move, limiter=_moving)
            self.open_gate(gate)
        except OSError as error:
            return explain_start(error, self.path)
        finally:
            self._groups = ()
            self._close_gate()
        return None

    def _take_listener(self) -> LaunchFailed | None:
        """Take the listener of the gate's filter, and let the gate go on. After a failure, returned, the gate
        exits."""
        if self._supervised is None:
            raise AssertionError("the gate reported a supervision that was not asked for")
        try:
            self.listener = take_listener(self.pid, self.pidfd)
            os.write(self._supervised, b"\n")
        except landlock.CannotEnforce as error:
            return explain_sandbox(str(error))
        except BrokenPipeError:
            pass  # the gate was killed
        finally:
            self._close("_supervised")
        return None

    async def wait_exit(self) -> Exit:
        """Wait for the leader's end and take the status; any number of tasks may wait."""
        while (exit := self.reap()) is None:
            if self._unwatched is not None:
                await self._unwatched.wait()  # one task watches a descriptor
                continue
            unwatched = self._unwatched = LateEvent()
            try:
                await trio.lowlevel.wait_readable(self.pidfd)
                self.reap()
            finally:
                self._unwatched = None
                unwatched.set()
                if self._exit is None:
                    _call_reapers()
        return exit

    @property
    def is_awaited(self) -> bool:
        """True while a task waits for the end, and will take the status."""
        return self._unwatched is not None

    def reap(self) -> Exit | None:
        """Take the exit status; None while the process lives. No other code may take it."""
        if self._exit is not None:
            return self._exit
        used_s = 0.0
        try:
            if usage.ended and os.waitid(os.P_PIDFD, self.pidfd, ENDED_UNTAKEN) is not None:
                # For a living process this could wait for its execve(2).
                used_s = usage.read_cpu_s((self.pid,))
            info = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            self._exit = Exit()
        else:
            if info is None or info.si_code not in ENDED:
                return None
            if info.si_code == os.CLD_EXITED:
                self._exit = Exit(code=info.si_status)
            else:
                self._exit = Exit(signal=name_signal(info.si_status))
            if usage.ended:
                usage.count_end(rlimit_tag.encode(self.mark), used_s)
        if leaders.get(self.pid) is self:
            del leaders[self.pid]
        if self._closed:
            self._close_pidfd()
        _call_reapers()
        return self._exit

    def is_exiting(self) -> bool:
        """True if the process has ended or is exiting: no signal changes the status."""
        if self._exit is not None:
            return True
        if not _is_thread_exiting(self.pid, self.pid):
            return False
        # The first thread may end while the program lives.
        try:
            threads = os.listdir(f"/proc/{self.pid}/task")  # noqa: PTH208
        except OSError:
            return True
        return all(_is_thread_exiting(self.pid, int(tid)) for tid in threads)

    def close_stdin(self, *, is_watched: bool = True) -> None:
        """Close standard input. A waiting writer gets `trio.ClosedResourceError`, unless not
        `is_watched`: then no task may wait, and the close is faster."""
        self._close("stdin", is_watched=is_watched)

    def close_output(self, *, is_watched: bool = True) -> None:
        """Close the outputs, as `close_stdin`; a waiting reader gets `trio.ClosedResourceError`."""
        for name in ("stdout", "stderr", "master"):
            self._close(name, is_watched=is_watched)

    def close(self) -> None:
        """Close every descriptor, but the pidfd of a living leader only after its status is taken."""
        self.close_stdin()
        self.close_output()
        self._close("_report")
        self._close_gate()
        self._close("_supervised")
        self._close("listener")
        self._closed = True
        if self._exit is not None:
            self._close_pidfd()

    def _close_gate(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.close()

    def _close_pidfd(self) -> None:
        pidfd, self.pidfd = self.pidfd, -1
        if pidfd >= 0:
            (os.close if self._unwatched is None else pump.close)(pidfd)

    def _close(self, name: str, *, is_watched: bool = True) -> None:
        fd = getattr(self, name)
        if fd is not None:
            setattr(self, name, None)
            (pump.close if is_watched else os.close)(fd)


leaders: Final[dict[int, LaunchedProcess]] = {}
"""Leaders whose exit status was not taken, by pid. Global, as the kernel's table of children."""

reapers: Final[list[Callable[[], None]]] = []
"""Called when ended children may have to be looked for: when a leader's status was taken, as waitid(2)
shows one ended child and that of the leader hid the others; and when the task that waited for a living leader
stops waiting, as from then on its end is the reaper's to see."""


def _call_reapers() -> None:
    for callback in reapers:
        callback()


def _is_thread_exiting(pid: int, tid: int) -> bool:
    """True for a thread that has given up its memory, or ended.

    The flag PF_EXITING in `stat` is set some microseconds earlier, but `stat` waits for a process in
    execve(2), from Linux 6.18 on.
    """
    try:
        status = read_status(f"{pid}/task/{tid}")
    except OSError:
        return True
    return status is None or status.field(b"VmSize") is None
