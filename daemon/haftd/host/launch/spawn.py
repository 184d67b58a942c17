"""Start a program: record it first, run it second.

A child waits at a gate while it is recorded, so a start that fails before the gate opens has run nothing.
The program gets the blocking descriptors 0, 1 and 2 only, default signals, an empty mask, and a session of
its own. No code of the daemon runs between fork and execution, and no child depends on a thread's life
(`PR_SET_PDEATHSIG`).
"""

from __future__ import annotations

import fcntl
import os
import resource
import sys
from collections.abc import Callable

from haftd.host import priority
from haftd.host.cgroup import Cgroup
from haftd.host.descriptors import explain_shortage, has_room
from haftd.host.launch import gate_child, landlock, syscall_filter
from haftd.host.launch.gate import (
    REPORT_FD,
    RULESET_FD,
    SUPERVISED_FD,
    Gate,
    best_gate,
    gate_memory,
)
from haftd.host.launch.gate_child import GateChild
from haftd.host.launch.launched_process import LaunchedProcess, leaders
from haftd.host.launch.limits import limits_of
from haftd.host.launch.program import (
    LaunchFailed,
    check_words,
    explain_sandbox,
    explain_start,
    resolve,
)
from haftd.host.launch.spawn_fds import SpawnFds
from haftd.host.limit_group import LimitGroup
from haftd.host.process.identity import Identity
from haftd.host.process.own_tag import VARIABLE
from haftd.host.tty import pseudo_terminal
from haftd.launch_spec import LaunchSpec, Sandbox

PIPE_SIZE = 262_144
"""Bytes of an output pipe, if permitted: a flood takes a quarter of the switches that the usual 64 KiB of
pipe(7) take."""


def launch(
    spec: LaunchSpec,
    record: Callable[[Identity], None],
    gate: Gate | None = None,
    cgroup: Cgroup | None = None,
    limit_group: LimitGroup | None = None,
) -> LaunchedProcess:
    """Start a child, record it, and open its gate; then `finish_start` is to be awaited. Blocks for some
    0.4 ms.

    With a cgroup or a limit group the gate stays shut: a move of the child takes 15 ms, so `finish_start`
    makes it in a thread. `record` is called while the child waits at the gate; an exception cancels the
    start, an OSError as `LaunchFailed` with the reason `record`. After a later failure (killed gate) no
    process of the record lives. Raises `LaunchFailed`, and leaves nothing of the child.
    """
    check_words(spec.argv, spec.env)
    path = sys.intern(resolve(spec.argv[0], spec.env.get("PATH"), spec.cwd))
    gate = gate or best_gate(_make_confinement(spec.sandbox))
    if (spec.sandbox is None) != (gate.confinement is None):
        raise AssertionError("the gate confines a program without a sandbox, or not one with it")
    mark = spec.env.get(VARIABLE, "")
    own_limits = dict(spec.limits)
    if limit_group is not None and "processes" in limit_group.limits:
        # The kernel counts the group's processes: RLIMIT_NPROC, which counts the user's, is left out.
        own_limits.pop("processes", None)
    limits = limits_of(own_limits, spec.nofile, mark)
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
        _open_streams(spec, launched, fds)
        if not has_room(fds.highest, "start"):
            raise LaunchFailed(explain_shortage(), "resources", descriptors_exhausted=True)
        ruleset = _pass_ruleset(spec.sandbox, launched, fds)
        if gate.confinement is not None and gate.confinement.is_supervised:
            launched.await_supervision(fds.pipe_to_child(SUPERVISED_FD))
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
        if "processes" in own_limits:
            # The kernel does not hold this limit: RLIMIT_NPROC counts all processes of the user, and none of
            # root's. The daemon counts them (`runtimes/process/resource_limits`), and forks that
            # double themselves would outrun it at the usual priority.
            priority.defer_process(pid)
        _call_record(record, launched.identity)
        groups = [group for group in (cgroup, limit_group) if group is not None]
        if groups:
            launched.keep_shut(child, groups)
        else:
            launched.open_gate(child)
            child.close()
    except BaseException as error:
        if child is not None:
            gate_child.kill(child.pid)
            child.close()
        fds.close()
        if isinstance(error, landlock.CannotEnforce):
            raise explain_sandbox(str(error)) from None
        if isinstance(error, OSError):
            raise explain_start(error, path) from error
        raise
    leaders[pid] = launched
    if gate.kind == "machine" and gate.confinement is None:
        gate_child.leave_spare(gate)
    return launched


def _open_streams(spec: LaunchSpec, launched: LaunchedProcess, fds: SpawnFds) -> None:
    """Open a terminal or pipes for the child's descriptors 0, 1 and 2, and for the daemon."""
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


def _make_confinement(sandbox: Sandbox | None) -> syscall_filter.Confinement | None:
    """Return the sandbox's filter, None without a sandbox; raises `LaunchFailed`."""
    if sandbox is None:
        return None
    try:
        landlock.require()
    except landlock.CannotEnforce as why:
        raise explain_sandbox(str(why)) from None
    seccomp_filter = syscall_filter.confinement(
        network="all" if sandbox.network else "proxy" if sandbox.is_proxied else "none",
        metadata=sandbox.may_write,
        # Only a program of root has capabilities after execve(2), see capabilities(7).
        capabilities=syscall_filter.permitted_capabilities() if os.geteuid() == 0 else 0,
    )
    if seccomp_filter is None:
        raise explain_sandbox(
            f"the system calls of this machine, {os.uname().machine}, are not known"
        )
    return seccomp_filter


def _pass_ruleset(sandbox: Sandbox | None, launched: LaunchedProcess, fds: SpawnFds) -> int | None:
    """Make the sandbox's ruleset, of Landlock, for the gate; return its descriptor."""
    if sandbox is None:
        return None
    ruleset = fds.adopt(landlock.make_ruleset(sandbox, launched.path, launched.slave))
    fds.give(ruleset, RULESET_FD)
    return ruleset


def explain_refusal(sandbox: Sandbox) -> str:
    """Return the message with which a start would refuse the sandbox, an empty text if it would not."""
    try:
        _make_confinement(sandbox)
        os.close(landlock.make_ruleset(sandbox, "/bin/true"))
    except landlock.CannotEnforce as why:
        return explain_sandbox(str(why)).message
    except LaunchFailed as failure:
        return failure.message
    return ""


def _call_record(record: Callable[[Identity], None], identity: Identity) -> None:
    try:
        record(identity)
    except OSError as error:
        raise LaunchFailed(
            f"The start could not be recorded, so nothing was run: {error.strerror}.", "record"
        ) from error
