"""A start is recorded first and runs second, and a failed start leaves nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import select
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import trio

from haftd.host import descriptors, timer
from haftd.host.cgroup import Cgroup
from haftd.host.launch import gate_child, limits
from haftd.host.launch import spawn as launch_room
from haftd.host.launch.gate import Gate, interpreter_gate, machine_gate
from haftd.host.launch.launched_process import Exit, LaunchedProcess, leaders, name_signal
from haftd.host.launch.program import LaunchFailed
from haftd.host.launch.spawn import launch
from haftd.host.limit_group import LimitGroup
from haftd.host.process import rlimit_tag
from haftd.host.process.identity import Identity, identify_child, read_stat
from haftd.launch_spec import LaunchSpec
from tests.host.launch_helpers import (
    new_mark,
    no_record,
    open_fds,
    output_of,
    plan,
    read_all,
    read_line,
    run,
    running,
    status_of,
)
from tests.patience import PATIENCE_S
from tests.processes import is_running

LEAKED = 0x1_8000_0000
"""Signals 32 and 33: libc keeps them to itself, and no interpreter can reset them."""


@pytest.fixture(params=["machine", "spare", "interpreter"])
def gate(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """The gates, and the machine gate with a child that was forked before the start."""
    found = interpreter_gate() if request.param == "interpreter" else machine_gate()
    assert found is not None
    # The child waits on a busy machine, too, and outside a loop, which the timer needs.
    monkeypatch.setattr(gate_child, "_MAX_AGE_S", PATIENCE_S)
    monkeypatch.setattr(gate_child._spare, "started_s", float("inf"))
    monkeypatch.setattr(timer, "call_in", lambda *of: True)
    with gate_child.keep_spare() if request.param == "spare" else nullcontext():
        if request.param == "spare":
            gate_child.leave_spare(found)
        yield found


@pytest.fixture(params=["pipe", "terminal"])
def terminal(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "terminal")


def fds_of(pid: int) -> dict[int, str]:
    return {int(n): os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}


def flags_of(pid: int, fd: int) -> int:
    text = Path(f"/proc/{pid}/fdinfo/{fd}").read_text()
    return next(int(line.split()[1], 8) for line in text.splitlines() if line.startswith("flags:"))


async def test_output_and_end_of_a_program(gate: Gate) -> None:
    async with running(plan("sh", "-c", "echo out; echo err >&2; exit 7"), gate=gate) as (it, _):
        assert await read_all(it) == "out\nerr\n"
        assert await it.wait_exit() == Exit(code=7)


async def test_raw_output_keeps_the_order_of_both_streams() -> None:
    script = "i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
    output = await run(plan("sh", "-c", script))
    assert output.split() == [f"{which}{i}" for i in range(500) for which in "oe"]


async def test_structured_output_keeps_the_streams_apart() -> None:
    spec = plan("sh", "-c", "echo out; echo err >&2", output="outcome")
    async with running(spec) as (it, _):
        assert await read_all(it) == "out\n"
        assert it.stderr is not None
        it.stdout, stdout = it.stderr, it.stdout
        assert await read_all(it) == "err\n"
        it.stderr, it.stdout = it.stdout, stdout


@pytest.mark.parametrize(
    ("number", "name"),
    [(15, "TERM"), (32, "32"), (33, "33"), (34, "RTMIN"), (37, "RTMIN+3"), (64, "RTMAX")],
)
def test_a_signal_without_a_name_is_a_number_or_counted_from_the_first(
    number: int, name: str
) -> None:
    assert name_signal(number) == name


async def test_a_terminating_signal_is_named() -> None:
    async with running(plan("sh", "-c", "kill -SEGV $$")) as (it, _):
        assert await it.wait_exit() == Exit(signal="SEGV")
    async with running(plan("sh", "-c", f"kill -{signal.SIGRTMIN + 3} $$")) as (it, _):
        assert await it.wait_exit() == Exit(signal="RTMIN+3")


async def test_X09_P19_a_child_has_three_descriptors_and_no_other(
    gate: Gate, terminal: bool, tmp_path: Path
) -> None:
    """Not the lock either, even if inheritable."""
    lock = os.open(tmp_path / "daemon.lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)
    try:
        spec = plan("sh", "-c", "echo up; read x", terminal=terminal, stdin="pipe")
        async with running(spec, gate=gate) as (it, _):
            assert await read_line(it) == "up"
            assert set(fds_of(it.pid)) == {0, 1, 2}
    finally:
        os.close(lock)


async def test_X10_without_an_input_stdin_is_empty() -> None:
    async with running(plan("sh", "-c", "cat; echo $?")) as (it, _):
        assert await read_all(it) == "0\n"
        assert it.stdin is None


async def test_X11_signals_have_their_defaults(gate: Gate, terminal: bool) -> None:
    """All signals have their default action, whether the daemon ignores, blocks or handles them or libc reserves them."""
    threading.Thread(target=lambda: None).start()  # from now on libc has a handler of its own
    before = (
        signal.signal(signal.SIGHUP, signal.SIG_IGN),
        signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    )
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGRTMAX])
    try:
        output = await run(plan("grep", "^Sig", "/proc/self/status", terminal=terminal), gate)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGUSR1, before[1])
    masks = {
        name: int(value, 16) for name, value in (x.split(":") for x in output.splitlines()[2:])
    }
    assert masks["SigBlk"] == 0
    assert masks["SigIgn"] & ~(LEAKED if gate.kind == "interpreter" else 0) == 0


async def test_standard_streams_block_and_ours_do_not(terminal: bool) -> None:
    """A program with non-blocking standard streams loses output."""
    spec = plan("sh", "-c", "echo up; read x", terminal=terminal, stdin="pipe", output="events")
    async with running(spec) as (it, _):
        assert await read_line(it) == "up"
        assert not any(flags_of(it.pid, fd) & os.O_NONBLOCK for fd in (0, 1, 2))
        ours = [fd for fd in (it.stdin, it.stdout, it.stderr, it.master) if fd is not None]
        assert len(ours) == (1 if terminal else 3)
        assert not any(os.get_blocking(fd) or os.get_inheritable(fd) for fd in ours)


async def test_a_child_leads_its_own_session(terminal: bool) -> None:
    """So that its terminal is its own, and the daemon's is not shared."""
    async with running(plan("sh", "-c", "echo up; read x", terminal=terminal, stdin="pipe")) as (
        it,
        _,
    ):
        assert await read_line(it) == "up"
        stat_ = read_stat(it.pid)
        assert stat_ is not None and stat_.session == stat_.group == it.pid
        number = int(Path(f"/proc/{it.pid}/stat").read_text().rsplit(")")[-1].split()[4])
        if terminal:
            assert it.slave == f"/dev/pts/{os.minor(number)}"
        else:
            assert number == 0


async def test_a_start_waits_in_no_session_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the child stands behind all handles before it executes the gate, and the daemon with it."""
    options: list[dict[str, object]] = []
    spawn = os.posix_spawn

    def note(*args: object, **value: object) -> int:
        options.append(value)
        return spawn(*args, **value)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "posix_spawn", note)
    async with running(plan("true")) as (it, _):
        await it.wait_exit()
    assert not options[-1].get("setsid")


class Group:
    """A cgroup whose moves wait for `may_move`, or are refused."""

    def __init__(self, error: OSError | None = None) -> None:
        self.moves = trio.Event()
        self.may_move = threading.Event()
        self.error = error

    def add(self, _pid: int) -> None:
        if self.error is not None:
            raise self.error
        trio.from_thread.run_sync(self.moves.set)
        assert self.may_move.wait(PATIENCE_S)

    def procs(self) -> list[int]:
        return []

    def kill(self) -> None: ...


async def test_a_move_to_a_cgroup_blocks_no_other_task_and_comes_before_the_program(
    tmp_path: Path,
) -> None:
    group = Group()
    launched = launch(plan("touch", "ran", cwd=tmp_path), no_record, cgroup=cast(Cgroup, group))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(launched.finish_start)
        await group.moves.wait()
        assert not (tmp_path / "ran").exists()
        group.may_move.set()
    assert await launched.wait_exit() == Exit(code=0)
    launched.close()
    assert (tmp_path / "ran").exists()


async def test_a_refused_move_to_a_cgroup_runs_nothing(tmp_path: Path) -> None:
    before = open_fds()
    group = Group(OSError(errno.ENODEV, "no such device"))
    launched = launch(plan("touch", "ran", cwd=tmp_path), no_record, cgroup=cast(Cgroup, group))
    with pytest.raises(LaunchFailed, match="no such device") as caught:
        await launched.finish_start()
    assert caught.value.reason == "resources"
    assert launched.exit == Exit(code=127) and open_fds() == before
    assert not (tmp_path / "ran").exists()


async def test_a_cancelled_move_leaves_no_child(tmp_path: Path) -> None:
    before, group = open_fds(), Group()
    with trio.CancelScope() as scope:
        scope.cancel()
        async with running(plan("touch", "ran", cwd=tmp_path), cgroup=cast(Cgroup, group)) as (
            _,
            _,
        ):
            raise AssertionError("the start was cancelled")
    assert scope.cancelled_caught and open_fds() == before
    assert not (tmp_path / "ran").exists()


async def test_a_limit_that_a_group_counts_needs_no_count_of_the_users_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def count() -> int:
        raise AssertionError("reads all of /proc")

    monkeypatch.setattr(limits, "_tasks_of_user", count)
    group = cast(LimitGroup, SimpleNamespace(limits={"processes": 3}, add=lambda _pid: None))
    launched = launch(plan("true", limits={"processes": 3}), no_record, limit_group=group)
    await launched.finish_start()
    assert await launched.wait_exit() == Exit(code=0)
    launched.close()


async def test_on_a_terminal_all_three_streams_and_dev_tty_are_that_terminal() -> None:
    script = "tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo yes >/dev/tty; stty size"
    async with running(plan("sh", "-c", script, terminal=True, rows=33, cols=121)) as (it, _):
        assert await read_all(it) == f"{it.slave}\nyes\n33 121\n"


@pytest.mark.parametrize("gate", ["machine", "interpreter"], indirect=True)  # forked after the mask
async def test_folder_environment_and_umask(gate: Gate, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        spec = plan("sh", "-c", "pwd; umask; echo $MINE", cwd=tmp_path, env={"MINE": "é\n"})
        assert (await run(spec, gate)).split() == [str(tmp_path), "0027", "é"]
    finally:
        os.umask(before)
    assert os.getcwd() != str(tmp_path)


async def test_the_descriptor_limit_is_the_daemons_original_one(gate: Gate) -> None:
    output = await run(plan("sh", "-c", "ulimit -Sn; ulimit -Hn", nofile=321), gate)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert output.split() == ["321", "unlimited" if hard < 0 else str(hard)]


async def test_limits_hold_before_the_program_runs(gate: Gate) -> None:
    spec = plan(
        "sh", "-c", "ulimit -d; ulimit -t; ulimit -Ht", limits={"memory": 64 << 20, "cpu_s": 6.5}
    )
    assert (await run(spec, gate)).split() == ["65536", "7", "9"]


async def test_a_gate_heeds_no_linker_variable_and_the_program_has_all(
    gate: Gate, tmp_path: Path
) -> None:
    """A library that a tool has placed must not run in the gate, which is not confined yet."""
    env = {"LD_LIBRARY_PATH": f"{tmp_path}", "LD_PRELOAD": "", "A": "b=c"}
    spec = plan("sh", "-c", "echo $LD_LIBRARY_PATH $A")
    output = await run(spec._replace(env={**spec.env, **env}), gate)
    assert output == f"{tmp_path} b=c\n"
    if gate.kind == "interpreter":
        assert gate.environment(env) == {"A": "b=c"}


async def test_a_process_cannot_raise_its_limits(gate: Gate) -> None:
    spec = plan("cat", "/proc/self/limits", limits={"memory": 64 << 20, "processes": 9, "cpu_s": 6})
    lines = {
        line[:26].strip(): line[26:].split()[:2] for line in (await run(spec, gate)).splitlines()
    }
    soft, hard = lines["Max processes"]
    assert soft == hard != "unlimited"
    assert lines["Max data size"] == [str(64 << 20)] * 2
    assert lines["Max cpu time"] == ["6", "8"]


async def test_exceeding_the_cpu_limit_ends_the_process() -> None:
    async with running(plan("sh", "-c", "while :; do :; done", limits={"cpu_s": 0.01})) as (it, _):
        assert await it.wait_exit() == Exit(signal="XCPU")


async def test_the_rlimit_tag_is_set(gate: Gate) -> None:
    mark = new_mark()
    async with running(plan("sh", "-c", "echo up; read x", mark=mark, stdin="pipe"), gate=gate) as (
        it,
        _,
    ):
        assert await read_line(it) == "up"
        assert rlimit_tag.read_tag(it.pid) == rlimit_tag.encode(mark)


async def test_the_record_comes_first(gate: Gate, tmp_path: Path) -> None:
    """By then the child is at its gate, with a final identity."""
    seen: list[Identity] = []

    def record(identity: Identity) -> None:
        assert not (tmp_path / "ran").exists()
        assert os.readlink(f"/proc/{identity.pid}/exe") != "/bin/touch"
        seen.append(identity)

    async with running(plan("touch", "ran", cwd=tmp_path), gate=gate, record=record) as (it, _):
        await it.wait_exit()
        assert seen == [it.identity]
    assert (tmp_path / "ran").exists()


async def test_the_identity_is_that_of_the_child() -> None:
    async with running(plan("sleep", "60")) as (it, _):
        assert it.identity == identify_child(it.pid, it.pidfd)
        assert leaders[it.pid] is it


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "record"),
        (LaunchFailed("no", "folder"), "folder"),
        (KeyError("a fault of ours"), None),
    ],
)
def test_P16_an_unrecordable_start_is_not_run(
    gate: Gate, tmp_path: Path, raised: Exception, reason: str | None
) -> None:
    before, pids = open_fds(), []

    def record(identity: Identity) -> None:
        pids.append(identity.pid)
        raise raised

    with pytest.raises((LaunchFailed, KeyError)) as caught:
        launch(plan("touch", "ran", cwd=tmp_path), record, gate)
    assert getattr(caught.value, "reason", None) == reason
    assert open_fds() == before
    assert not any(map(is_running, pids)) and not set(pids) & set(leaders)
    with pytest.raises(ChildProcessError):
        os.waitpid(pids[0], os.WNOHANG)
    assert not (tmp_path / "ran").exists()


def _nothing(_: Path) -> None: ...


def _remove_folder(folder: Path) -> None:
    os.rmdir(folder / "here")


def _remove_tool(folder: Path) -> None:
    os.unlink(folder / "tool")


REFUSED: list[tuple[str, str | None, int, Callable[[Path], None], str]] = [
    ("ENOENT program", None, 0, _nothing, "program"),
    ("ENOENT interpreter", "#!/no/such/interpreter\n", 0o755, _nothing, "interpreter"),
    ("EACCES file", "#!/bin/sh\n", 0o644, _nothing, "permission"),
    ("EACCES interpreter", "#!/etc/passwd\n", 0o755, _nothing, "permission"),
    ("ENOEXEC text", "echo no format\n", 0o755, _nothing, "format"),
    ("ENOEXEC bytes", "\x7fELF\x02\x01\x01 and no more", 0o755, _nothing, "format"),
    ("program went away", "#!/bin/sh\n", 0o755, _remove_tool, "program"),
    ("folder went away", "#!/bin/sh\n", 0o755, _remove_folder, "folder"),
]


@pytest.mark.parametrize(
    ("text", "mode", "meanwhile", "reason"),
    [case[1:] for case in REFUSED],
    ids=[case[0] for case in REFUSED],
)
async def test_P31_a_failed_exec_has_a_reason_and_leaves_nothing(
    gate: Gate,
    terminal: bool,
    tmp_path: Path,
    text: str | None,
    mode: int,
    meanwhile: Callable[[Path], None],
    reason: str,
) -> None:
    (tmp_path / "here").mkdir()
    if text is not None:
        (tmp_path / "tool").write_text(text)
        (tmp_path / "tool").chmod(mode)
    before, pids = open_fds(), []

    def record(identity: Identity) -> None:
        pids.append(identity.pid)
        meanwhile(tmp_path)

    spec = plan(str(tmp_path / "tool"), cwd=tmp_path / "here", terminal=terminal, stdin="pipe")
    with pytest.raises(LaunchFailed) as caught:
        await launch(spec, record, gate).finish_start()
    assert caught.value.reason == reason
    assert open_fds() == before
    for pid in pids:
        assert pid not in leaders
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


async def test_P31_E2BIG_arguments_and_environment_exceed_the_total(gate: Gate) -> None:
    before = open_fds()
    spec = plan("true", *["x" * 100_000] * 100)
    with pytest.raises(LaunchFailed) as caught:
        await launch(spec, no_record, gate).finish_start()
    assert caught.value.reason == "size"
    assert open_fds() == before


async def test_P31_ETXTBSY_a_program_open_for_writing(gate: Gate, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(Path("/bin/true").read_bytes())
    tool.chmod(0o755)
    with tool.open("ab"):
        with pytest.raises(LaunchFailed) as caught:
            await launch(plan(str(tool)), no_record, gate).finish_start()
    assert caught.value.reason == "program" and "writing" in caught.value.message
    assert await run(plan(str(tool)), gate) == ""


def test_P32_too_few_descriptors_is_a_transient_error(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """At every single descriptor that may be the one too many, with none kept in reserve."""
    for kept in ("_MAX_SPARE", "_MAX_FOR_CLIENTS", "_OF_A_START"):
        monkeypatch.setattr(descriptors, kept, 0)
    spec = plan("true", terminal=terminal, stdin="pipe", output="events")
    machine_gate()
    before = open_fds()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name.split()[0]) for name in before)
    filled = [os.open("/dev/null", os.O_RDONLY) for _ in range(highest - len(before) + 1)]
    full = open_fds()
    outcomes: list[str] = []
    try:
        for spare in range(16):
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(full) + spare, hard))
            try:
                launched = launch(spec, no_record)
            except LaunchFailed as failed:
                outcomes.append(failed.reason)
            else:
                outcomes.append("started")
                os.waitpid(launched.pid, 0)
                launched.reap()
                launched.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert open_fds() == full
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in filled:
            os.close(fd)
    failures = outcomes.index("started")
    assert failures >= 5
    assert outcomes == ["resources"] * failures + ["started"] * (16 - failures)


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOMEM])
def test_P32_out_of_processes_or_memory_is_an_error(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    machine_gate()
    before = open_fds()

    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_spawn", refuse)
    with pytest.raises(LaunchFailed) as caught:
        launch(plan("true"), no_record)
    assert caught.value.reason == "resources"
    assert open_fds() == before


@pytest.mark.parametrize("step", ["pidfd_open", "identify_child", "prlimit", "write"])
def test_a_failure_at_any_step_leaves_nothing(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    machine_gate()
    before, pids = open_fds(), []
    spawn = os.posix_spawn

    def note(*args: object, **options: object) -> int:
        pids.append(spawn(*args, **options))  # type: ignore[arg-type]
        return pids[-1]

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, "no")

    monkeypatch.setattr(os, "posix_spawn", note)
    room = {"identify_child": gate_child, "prlimit": resource}.get(step, os)
    monkeypatch.setattr(room, step, refuse)
    with pytest.raises(LaunchFailed):
        launch(plan("true", nofile=100), no_record)
    monkeypatch.undo()
    assert open_fds() == before
    assert len(pids) == 1 and not is_running(pids[0]) and pids[0] not in leaders
    with pytest.raises(ChildProcessError):
        os.waitpid(pids[0], os.WNOHANG)


async def test_P33_a_child_outlives_the_thread_that_started_it() -> None:
    """A process with PDEATHSIG dies when its parent thread ends."""
    started: list[LaunchedProcess] = []
    spec = plan("sh", "-c", "echo up; read x; echo $x", stdin="pipe")
    thread = threading.Thread(target=lambda: started.append(launch(spec, no_record)))
    thread.start()
    thread.join()
    launched = started[0]
    await launched.finish_start()
    assert await read_line(launched) == "up"
    assert launched.stdin is not None
    os.write(launched.stdin, b"alive\n")
    assert await read_line(launched) == "alive"
    assert await launched.wait_exit() == Exit(code=0)
    launched.close()


async def test_P38_a_gate_is_not_held_open_by_another_child() -> None:
    """Else the end of the daemon would not be the end of the gate."""
    spec = plan("sh", "-c", "echo up; read x", stdin="pipe")
    within: list[LaunchedProcess] = []

    def start_another(_: Identity) -> None:
        within.append(launch(spec, no_record))

    async with running(spec, record=start_another) as (it, _):
        other = within[0]
        try:
            await other.finish_start()
            # Started while the gate of the first was shut, and the first while its gate is open.
            for launched in (it, other):
                assert await read_line(launched) == "up"  # the linker has closed its files
                assert set(fds_of(launched.pid)) == {0, 1, 2}
        finally:
            other.close()
        assert await other.wait_exit() == Exit(code=1)


@pytest.mark.parametrize("gates", [1, 20, pytest.param(1000, marks=pytest.mark.soak)])
def test_P38_all_gates_end_with_the_daemon(gates: int) -> None:
    """Many children at their gates at the same time, and the daemon is killed."""
    script = f"""
import os, signal
from haftd.host.launch.spawn import launch
from haftd.launch_spec import LaunchSpec
left = {gates}
def record(identity):
    global left
    print(identity.pid)
    left -= 1
    if left:
        launch(LaunchSpec(("sleep", "60"), "/", {{"PATH": "/bin:/usr/bin"}}), record)
    else:
        import sys
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
import sys
sys.setrecursionlimit(100_000)
launch(LaunchSpec(("sleep", "60"), "/", {{"PATH": "/bin:/usr/bin"}}), record)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    pids = [int(line) for line in done.stdout.split()]
    assert len(pids) == gates, done.stderr.decode()
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        assert poll.poll(10_000), f"a gate outlived its daemon: {status_of(pid)}"
        os.close(pidfd)


async def test_the_exit_is_taken_once_and_given_to_every_waiter() -> None:
    exits: list[Exit] = []

    async with running(plan("sh", "-c", "read x; exit 5", stdin="pipe")) as (it, _):

        async def wait() -> None:
            exits.append(await it.wait_exit())

        async with trio.open_nursery() as nursery:
            first = trio.CancelScope()

            async def wait_in_vain() -> None:
                with first:
                    await wait()

            nursery.start_soon(wait_in_vain)
            await trio.testing.wait_all_tasks_blocked()
            for _n in range(5):
                nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            first.cancel()  # the task that watches: another goes on
            await trio.testing.wait_all_tasks_blocked()
            assert it.reap() is None and not it.is_exiting()
            it.close_stdin()
        assert exits == [Exit(code=5)] * 5 and it.reap() == it.exit == Exit(code=5)
        assert it.is_exiting() and it.pid not in leaders
    with pytest.raises(ChildProcessError):
        os.waitpid(it.pid, os.WNOHANG)


async def test_a_cancelled_wait_takes_nothing_from_the_next() -> None:
    async with running(plan("sh", "-c", "read x; exit 5", stdin="pipe")) as (it, _):
        exits: list[Exit] = []
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(0):
                await it.wait_exit()

            async def wait() -> None:
                exits.append(await it.wait_exit())

            async def give_up(scope: trio.CancelScope) -> None:
                with scope:
                    await it.wait_exit()

            scope = trio.CancelScope()
            nursery.start_soon(give_up, scope)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            it.close_stdin()
        assert exits == [Exit(code=5)]


async def test_a_stolen_status_is_no_status() -> None:
    async with running(plan("true")) as (it, _):
        os.waitpid(it.pid, 0)
        assert await it.wait_exit() == Exit()


async def test_exiting_is_seen_before_the_exit_is_taken() -> None:
    """For an abort that races with the end: the program has ended by itself."""
    async with running(plan("sh", "-c", "read x", stdin="pipe")) as (it, _):
        assert not it.is_exiting()
        it.close_stdin()
        await trio.lowlevel.wait_readable(it.pidfd)
        assert it.exit is None and it.is_exiting()


async def test_an_ended_first_thread_is_not_the_end() -> None:
    script = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=lambda: (print('up', flush=True), sys.stdin.readline())).start()\n"
        "ctypes.CDLL(None).syscall(60 if sys.argv[1] == 'x86_64' else 93, 0)\n"
    )
    spec = plan(sys.executable, "-c", script, os.uname().machine, stdin="pipe")
    async with running(spec) as (it, kin):
        assert await read_line(it) == "up"
        while status_of(it.pid)["State"][0] != "Z":
            await trio.sleep(0.001)
        assert not it.is_exiting() and it.reap() is None
        assert kin.members() == (it.pid,)
        assert await kin.end(5) == ()
        assert it.exit == Exit(signal="TERM")


async def test_closing_frees_every_descriptor_and_keeps_the_status(terminal: bool) -> None:
    before = open_fds()
    spec = plan("sh", "-c", "trap '' HUP; echo up; sleep 0.01", terminal=terminal, stdin="pipe")
    launched = launch(spec, no_record)
    await launched.finish_start()
    assert await read_line(launched) == "up"
    launched.close()
    launched.close()
    assert len(open_fds() - before) == 1  # the pidfd: the leader lives
    assert await launched.wait_exit() == Exit(code=0)
    assert open_fds() == before
    assert await launched.wait_exit() == Exit(code=0)


async def test_closing_a_descriptor_wakes_its_waiter() -> None:
    async with running(plan("sleep", "60")) as (it, _):
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(trio.ClosedResourceError):
                    await trio.lowlevel.wait_readable(output_of(it))

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            it.close_output()


async def test_output_has_a_large_pipe_where_permitted() -> None:
    async with running(plan("sleep", "60")) as (it, _):
        size = fcntl.fcntl(output_of(it), fcntl.F_GETPIPE_SZ)
        assert size in (65_536, launch_room.PIPE_SIZE)
        assert stat.S_ISFIFO(os.fstat(output_of(it)).st_mode)


@pytest.mark.parametrize("holes", [(0,), (3,), (4,), (3, 4), (0, 1, 2), (0, 1, 2, 3, 4)])
def test_any_low_descriptor_of_the_daemon_may_be_free(holes: tuple[int, ...]) -> None:
    """Then its pipes get the very numbers that the child uses, in some order."""
    script = f"""
import os
from haftd.host.launch.gate import best_gate
from haftd.host.launch.spawn import launch
from haftd.launch_spec import LaunchSpec
best_gate()
for fd in range(5):
    try:
        os.fstat(fd)
    except OSError:
        os.open("/dev/null", os.O_RDONLY)
for fd in {holes}:
    os.close(fd)
env = {{"PATH": "/bin:/usr/bin"}}
plan = LaunchSpec(("sh", "-c", "cat; echo err >&2; echo out"), "/", env, stdin="pipe", output="events")
it = launch(plan, lambda _: None)
os.write(it.stdin, b"in\\n")
it.close_stdin()
os.waitid(os.P_PID, it.pid, os.WEXITED | os.WNOWAIT)
said = os.read(it.stdout, 99), os.read(it.stderr, 99), it.reap().code
os._exit(17 if said == (b"in\\nout\\n", b"err\\n", 0) else 1)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 17


async def test_a_hundred_starts_leak_nothing(terminal: bool) -> None:
    async with running(plan("true")):
        pass
    before = open_fds()
    for _n in range(50):
        async with running(plan("true", terminal=terminal, stdin="pipe")) as (it, _):
            await it.wait_exit()
    assert open_fds() == before and not leaders


def test_environment_values_are_in_no_repr() -> None:
    assert "hunter2" not in repr(LaunchSpec(("a",), "/", {"TOKEN": "hunter2"}))
