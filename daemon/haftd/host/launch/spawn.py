"""Start a program: record it first, run it second.

A failure before the gate opens has run nothing. `confirm` opens the gate of a child with cgroups,
as a move between them waits for all processors. A child has the blocking descriptors 0, 1 and 2
only, default signals, an empty mask, its own session. `reap` alone takes a leader's status. No code
runs between fork and exec, and no child depends on a thread's life (`PR_SET_PDEATHSIG`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final

import trio

from haftd.host import priority, pump
from haftd.host.cgroup import Cgroup
from haftd.host.descriptors import explain_shortage, has_room
from haftd.host.launch import gate_child, landlock, syscall_filter
from haftd.host.launch.connect_supervisor import take_listener
from haftd.host.launch.gate import (
    CONFINEMENT_FAILED,
    REPORT_FD,
    RULESET_FD,
    SUPERVISED_FD,
    SUPERVISION_BEGUN,
    Gate,
    best_gate,
    gate_memory,
)
from haftd.host.launch.gate_child import GateChild
from haftd.host.launch.limits import limits_of
from haftd.host.launch.program import (
    LaunchFailed,
    check_folder,
    check_words,
    explain,
    resolve,
)
from haftd.host.launch.spawn_fds import SpawnFds
from haftd.host.limit_group import LimitGroup
from haftd.host.process import rlimit_tag, usage
from haftd.host.process.identity import Identity
from haftd.host.process.own_tag import VARIABLE
from haftd.host.process.status import read_status
from haftd.host.readiness import LateEvent
from haftd.host.tty import pseudo_terminal
from haftd.launch_spec import LaunchSpec, Sandbox
from haftd.named_tuple import NamedTuple

PIPE_SIZE = 262_144
"""Size of an output pipe, if permitted: four times fewer switches than 64 KiB."""

_MAX_MOVES = 8
_moving = trio.CapacityLimiter(_MAX_MOVES)
ENDED_UNTAKEN = os.WEXITED | os.WNOHANG | os.WNOWAIT
ENDED: Final = frozenset([os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED])
"""Codes of `waitid` for an end; a child traced by its parent reports traps, too."""


class Exit(NamedTuple):
    """Termination of a process: `code`, or `signal` without SIG.

    Both None where other code took the status.
    """

    code: int | None = None
    signal: str | None = None


def signal_name(number: int) -> str:
    """Return `TERM` for 15, `RTMIN+n` for a nameless signal."""
    try:
        return signal.Signals(number).name.removeprefix("SIG")
    except ValueError:
        return f"RTMIN+{number - signal.SIGRTMIN}" if number > 31 else str(number)


class LaunchedProcess:
    """Started leader, with the daemon's descriptors.

    Without `stderr`, `stdout` includes it. A terminal has only `master`; `slave` is the other end's
    path.
    """

    __slots__ = (
        "_closed",
        "_exit",
        "_gate",
        "_groups",
        "_is_sandboxed",
        "_keep_out",
        "_report",
        "_unwatched",
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
        self.stdin: int | None = None
        self.stdout: int | None = None
        self.stderr: int | None = None
        self.master: int | None = None
        self.slave = ""
        self.listener: int | None = None
        """Questions about `connect` in a sandbox with haft's proxy."""
        self.proxy_port = 0
        self._gate: GateChild | None = None
        self._groups: Sequence[Cgroup | LimitGroup] = ()
        """To move the child to before the gate opens."""
        self._keep_out: int | None = None
        self._report = report
        self._is_sandboxed = is_sandboxed
        self._exit: Exit | None = None
        self._closed = False
        self._unwatched: LateEvent | None = None
        """Set when the task that watches the pidfd ends; None without one."""

    @property
    def exit(self) -> Exit | None:
        return self._exit

    async def confirm(self) -> None:
        """Open the gate if shut, and wait until the program runs. Raises `LaunchFailed`, all
        descriptors closed, if the execution or a move to a cgroup was refused.

        Cancellation leaves a started process, which the caller ends.
        """
        answer = b""
        refusal: LaunchFailed | None = None
        try:
            if self._groups:
                refusal = await self._move()
            while len(answer) < 4:
                try:
                    part = os.read(self._report, 4 - len(answer))
                except BlockingIOError:
                    await trio.lowlevel.wait_readable(self._report)
                    continue
                if not part:
                    break
                answer += part
                if answer == SUPERVISION_BEGUN.to_bytes(4, sys.byteorder):
                    answer, refusal = b"", self._supervise()
        finally:
            report, self._report = self._report, -1
            os.close(report)  # watched by this task alone
        if not answer and refusal is None:
            return
        with trio.CancelScope(shield=True):
            await self.wait_exit()  # the gate exits at once
        self.close()
        if refusal is not None:
            raise refusal
        code = int.from_bytes(answer, sys.byteorder, signed=True)
        if code >= CONFINEMENT_FAILED:
            why = os.strerror(code - CONFINEMENT_FAILED).lower()
            raise _no_sandbox(f"{landlock.kernel()} refuses it: {why}")
        if code > 0:
            check_folder(self.cwd)
            raise LaunchFailed(
                f"Cannot start in the folder {self.cwd}: {os.strerror(code).lower()}.", "folder"
            )
        failed = explain(-code, self.path, self.cwd)
        if self._is_sandboxed and -code in (errno.EACCES, errno.EPERM):
            raise LaunchFailed(
                f"{failed.message} The tool's sandbox lets it read and execute the system's program "
                "folders, its own file, and the paths of its rules: an interpreter elsewhere needs "
                "`read` and `execute` in `access.fs`.",
                failed.reason,
            )
        raise failed

    async def _move(self) -> LaunchFailed | None:
        """Move the child to the cgroups and open the gate; after a failure, close the gate, and the
        child exits."""
        if self._gate is None:
            raise AssertionError("a child to be moved waits at the gate")

        def move() -> None:
            for group in self._groups:
                group.add(self.pid)

        try:
            # The kernel waits until each processor has passed through the scheduler: some 15 ms.
            await trio.to_thread.run_sync(move, limiter=_moving)
            self._gate.open()
        except OSError as error:
            return _no_room(error, self.path)
        finally:
            self._groups = ()
            self._close_gate()
        return None

    def _supervise(self) -> LaunchFailed | None:
        if self._keep_out is None:
            raise AssertionError("no gate reports a supervision that was not asked for")
        try:
            self.listener = take_listener(self.pid, self.pidfd)
            os.write(self._keep_out, b"\n")
        except landlock.CannotEnforce as error:
            return _no_sandbox(str(error))
        except BrokenPipeError:
            pass  # the gate was killed
        finally:
            self._close("_keep_out")
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
                    _look_for_ends()
        return exit

    @property
    def is_watched(self) -> bool:
        """True while a task waits for the end, and will take the status."""
        return self._unwatched is not None

    def reap(self) -> Exit | None:
        """Take the exit status; None while the process lives. No other code may take it."""
        if self._exit is not None:
            return self._exit
        used_s = 0.0
        try:
            if usage.ended and os.waitid(os.P_PIDFD, self.pidfd, ENDED_UNTAKEN) is not None:
                used_s = usage.read_cpu_s((self.pid,))  # of a living process, the read might wait
            info = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            self._exit = Exit()
        else:
            if info is None or info.si_code not in ENDED:
                return None
            if info.si_code == os.CLD_EXITED:
                self._exit = Exit(code=info.si_status)
            else:
                self._exit = Exit(signal=signal_name(info.si_status))
            if usage.ended:
                usage.count_end(rlimit_tag.encode(self.mark), used_s)
        if leaders.get(self.pid) is self:
            del leaders[self.pid]
        if self._closed:
            self._close("pidfd", is_watched=self._unwatched is not None)
        _look_for_ends()
        return self._exit

    def is_exiting(self) -> bool:
        """True if the process has ended or is exiting: no signal changes the status."""
        if self._exit is not None:
            return True
        if not _is_exiting(self.pid, self.pid):
            return False
        # The first thread may end while the program lives.
        try:
            threads = os.listdir(f"/proc/{self.pid}/task")  # noqa: PTH208
        except OSError:
            return True
        return all(_is_exiting(self.pid, int(tid)) for tid in threads)

    def close_stdin(self, *, is_watched: bool = True) -> None:
        """Close standard input; a waiting writer gets `trio.ClosedResourceError`."""
        self._close("stdin", is_watched=is_watched)

    def close_output(self, *, is_watched: bool = True) -> None:
        """Close the outputs; a waiting reader, if any `is_watched`, gets `trio.ClosedResourceError`."""
        for name in ("stdout", "stderr", "master"):
            fd = getattr(self, name)
            if fd is not None:
                setattr(self, name, None)
                (pump.close if is_watched else os.close)(fd)

    def close(self) -> None:
        """Close every descriptor; a living leader's status remains to be taken."""
        self.close_stdin()
        self.close_output()
        self._close("_report")
        self._close_gate()
        self._close("_keep_out")
        self._close("listener")
        self._closed = True
        if self._exit is not None:
            self._close("pidfd", is_watched=self._unwatched is not None)

    def _close_gate(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.close()

    def _close(self, name: str, *, is_watched: bool = True) -> None:
        fd = getattr(self, name)
        if fd is not None and fd >= 0:
            setattr(self, name, -1 if name in ("pidfd", "_report") else None)
            (pump.close if is_watched else os.close)(fd)


leaders: Final[dict[int, LaunchedProcess]] = {}
"""Leaders without a taken status, by pid. Global, as the kernel's table of children."""

ends_seen: Final[list[Callable[[], None]]] = []
"""Called once a leader's end hides no other child's from waitid any more, or no task awaits it."""


def _look_for_ends() -> None:
    for callback in ends_seen:
        callback()


def _is_exiting(pid: int, tid: int) -> bool:
    """True for a thread that has given up its memory, or ended.

    The flag of an exit, in `stat`, would come some microseconds earlier.
    """
    try:
        status = read_status(f"{pid}/task/{tid}")
    except OSError:
        return True
    return status is None or status.field(b"VmSize") is None


def launch(
    spec: LaunchSpec,
    record: Callable[[Identity], None],
    gate: Gate | None = None,
    cgroup: Cgroup | None = None,
    limit_group: LimitGroup | None = None,
) -> LaunchedProcess:
    """Start `spec` up to the gate's opening, by `confirm` with cgroups. Blocks for some 0.4 ms.

    `record` is called while the child waits at the gate; an exception cancels the start, an OSError
    as `LaunchFailed` with the reason `record`. After a later failure (killed gate) the record has
    no process. Raises `LaunchFailed`, and leaves nothing of the child.
    """
    check_words(spec.argv, spec.env)
    path = sys.intern(resolve(spec.argv[0], spec.env.get("PATH"), spec.cwd))
    gate = gate or best_gate(_confinement(spec.sandbox))
    if (spec.sandbox is None) != (gate.confinement is None):
        raise AssertionError("a sandboxed program runs behind a gate that confines")
    mark = spec.env.get(VARIABLE, "")
    counted = () if limit_group is None else limit_group.limits.keys() & {"processes"}
    uncounted = "processes" in spec.limits and not counted
    limits = limits_of(
        {name: bound for name, bound in spec.limits.items() if name not in counted},
        spec.nofile,
        mark,
    )
    fds = SpawnFds()
    child: GateChild | None = None
    try:
        launched = LaunchedProcess(
            path,
            spec.cwd,
            mark,
            fds.pipe_from_child(REPORT_FD),
            is_sandboxed=spec.sandbox is not None,
        )
        _connect(spec, launched, fds)
        if not has_room(fds.highest, "start"):
            raise LaunchFailed(explain_shortage(), "resources", descriptors_exhausted=True)
        ruleset = _give_ruleset(spec.sandbox, launched, fds)
        if gate.confinement is not None and gate.confinement.is_supervised:
            launched._keep_out = fds.pipe_to_child(SUPERVISED_FD)
        launched.proxy_port = 0 if spec.sandbox is None else spec.sandbox.proxy_port
        # The gate begins a session also on pipes: /dev/tty is never the daemon's terminal, and a
        # child's job control cannot stop the daemon.
        if gate.kind == "machine":
            memory = gate_memory(spec.cwd, path, spec.argv, spec.env)
            child = gate_child.take(gate)
        else:
            memory = b""
            words = gate.words(spec.cwd, path, spec.argv, limits, spec.env)
            child = gate_child.fork(gate, words, gate.environment(spec.env), fds.actions)
        pid = launched.pid = child.pid
        launched.pidfd = fds.adopt(child.pidfd)
        launched.identity = child.identity
        child.give(fds.release_child_side(), memory)
        if not gate.sets_limits:
            for which, bounds in limits.items():
                resource.prlimit(pid, which, bounds)
        if ruleset is not None:
            landlock.add_own_proc(ruleset, pid)
        if uncounted:
            priority.defer_process(pid)
        _record(record, launched.identity)
        launched._groups = [group for group in (cgroup, limit_group) if group is not None]
        if launched._groups:
            launched._gate = child
        else:
            child.open()
            child.close()
    except BaseException as error:
        if child is not None:
            gate_child.kill(child.pid)
            child.close()
        fds.close()
        if isinstance(error, landlock.CannotEnforce):
            raise _no_sandbox(str(error)) from None
        if isinstance(error, OSError):
            raise _no_room(error, path) from error
        raise
    leaders[pid] = launched
    if gate.kind == "machine" and gate.confinement is None:
        gate_child.leave_spare(gate)
    return launched


def _connect(spec: LaunchSpec, launched: LaunchedProcess, fds: SpawnFds) -> None:
    if spec.terminal:
        master, launched.slave = pseudo_terminal.open_terminal(spec.rows, spec.cols)
        launched.master = fds.adopt(master)
        fds.open_for_child(launched.slave, os.O_RDWR, 0, 1, 2)
        return
    if spec.stdin == "pipe" or spec.output == "events":
        launched.stdin = fds.pipe_to_child(0)
    else:
        fds.open_for_child(os.devnull, os.O_RDONLY, 0)
    if spec.output == "raw" and not spec.splits_stderr:
        launched.stdout = fds.pipe_from_child(1, 2)
    else:
        launched.stdout = fds.pipe_from_child(1)
        launched.stderr = fds.pipe_from_child(2)
    try:
        fcntl.fcntl(launched.stdout, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    except OSError:
        pass  # the user's share of pipe memory is used up


def _confinement(sandbox: Sandbox | None) -> syscall_filter.Confinement | None:
    if sandbox is None:
        return None
    try:
        landlock.require()
    except landlock.CannotEnforce as why:
        raise _no_sandbox(str(why)) from None
    seccomp_filter = syscall_filter.confinement(
        network="all" if sandbox.network else "proxy" if sandbox.is_proxied else "none",
        metadata=sandbox.may_write,
        capabilities=syscall_filter.permitted_capabilities() if os.geteuid() == 0 else 0,
    )
    if seccomp_filter is None:
        raise _no_sandbox(f"the system calls of this machine, {os.uname().machine}, are not known")
    return seccomp_filter


def _give_ruleset(sandbox: Sandbox | None, launched: LaunchedProcess, fds: SpawnFds) -> int | None:
    if sandbox is None:
        return None
    ruleset = fds.adopt(landlock.make_ruleset(sandbox, launched.path, launched.slave))
    fds.give(ruleset, RULESET_FD)
    return ruleset


def sandbox_refusal(sandbox: Sandbox) -> str:
    """Return the message with which a start would refuse the sandbox, or an empty string."""
    try:
        _confinement(sandbox)
        os.close(landlock.make_ruleset(sandbox, "/bin/true"))
    except landlock.CannotEnforce as why:
        return _no_sandbox(str(why)).message
    except LaunchFailed as failure:
        return failure.message
    return ""


def _no_sandbox(why: str) -> LaunchFailed:
    return LaunchFailed(
        f"The tool's sandbox cannot be enforced, so nothing was run: {why}.", "sandbox"
    )


def _record(record: Callable[[Identity], None], identity: Identity) -> None:
    try:
        record(identity)
    except OSError as error:
        raise LaunchFailed(
            f"The start could not be recorded, so nothing was run: {error.strerror}.", "record"
        ) from error


def _no_room(error: OSError, path: str) -> LaunchFailed:
    if error.errno == errno.E2BIG:
        return explain(error.errno, path, "")
    place = f" ({error.filename})" if error.filename else ""
    words = os.strerror(error.errno or 0).lower()
    return LaunchFailed(
        f"The system cannot start {path} now: {words}{place}.",
        "resources",
        descriptors_exhausted=error.errno in (errno.EMFILE, errno.ENFILE),
    )
