"""A child at the gate runs nothing until released, and nothing at all once the daemon is gone."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import select
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from haftd.host.launch import gate as gate_room
from haftd.host.launch.gate import (
    REPORT_FD,
    Gate,
    best_gate,
    gate_memory,
    interpreter_gate,
    machine_gate,
)
from haftd.host.launch.gate_child import GateChild, fork
from haftd.host.launch.spawn_fds import SpawnFds


@pytest.fixture(params=["machine", "interpreter"])
def gate(request: pytest.FixtureRequest) -> Gate:
    if request.param == "interpreter":
        return interpreter_gate()
    found = machine_gate()
    assert found is not None, "the machine gate runs on every machine that CI has"
    return found


@dataclass
class Waiting:
    """A child at its gate."""

    child: GateChild
    pid: int
    report: int
    out: int

    def open(self) -> None:
        self.child.open()
        self.shut()

    def shut(self) -> None:
        self.child.close()

    def reported(self) -> int | None:
        data = os.read(self.report, 8)
        return struct.unpack("=i", data)[0] if data else None

    def said(self) -> bytes:
        with os.fdopen(os.dup(self.out), "rb") as file:
            return file.read()

    def wait(self) -> int:
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def waiting(
    gate: Gate, *argv: str, path: str | None = None, folder: str = "/", env: dict[str, str]
) -> Iterator[Waiting]:
    fds = SpawnFds()
    report, out = fds.pipe_from_child(REPORT_FD), fds.pipe_from_child(1)
    for fd in (report, out):
        os.set_blocking(fd, True)
    fds.open_for_child(os.devnull, os.O_RDWR, 0, 2)
    path = path or argv[0]
    if gate.kind == "machine":
        forked = fork(gate)
        forked.give(fds.release_child_side(), gate_memory(folder, path, argv, env))
    else:
        forked = fork(gate, gate.words(folder, path, argv, {}, env), env, fds.actions)
        forked.give(fds.release_child_side())
    child = Waiting(forked, forked.pid, report, out)
    try:
        yield child
    finally:
        child.shut()
        if child.pid:
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        os.close(forked.pidfd)
        fds.close()


def test_nothing_runs_when_the_gate_is_closed(gate: Gate, tmp_path: Path) -> None:
    with waiting(gate, "/bin/sh", "-c", f": >{tmp_path}/ran", env={}) as child:
        child.shut()
        assert child.wait() == 127
        assert child.reported() is None
    assert not (tmp_path / "ran").exists()


def test_the_program_gets_its_own_arguments_folder_and_environment(
    gate: Gate, tmp_path: Path
) -> None:
    """Nothing added or left out, including argv0 and bytes that are no UTF-8."""
    odd = os.fsdecode(b"\xff\xfe")
    script = "tr '\\0' '|' </proc/self/cmdline; cat /proc/$$/environ | tr '\\0' '|'; pwd"
    env = {"A": odd, "not-a-name": "1", "LC_ALL": "", "Z": "", "SHLVL": "7"}
    with waiting(
        gate, "my name", "-c", script, odd, path="/bin/sh", folder=str(tmp_path), env=env
    ) as child:
        child.open()
        assert child.reported() is None
        said = os.fsdecode(child.said())
        assert child.wait() == 0
    parts = said.split("|")
    expected = [f"{name}={value}" for name, value in env.items()]
    assert [part for part in parts if part in expected] == expected
    assert parts[-1] == f"{tmp_path}\n"
    with waiting(gate, "my name", "/proc/self/cmdline", odd, path="/bin/cat", env=env) as child:
        child.open()
        assert child.said().startswith(b"my name\0/proc/self/cmdline\0\xff\xfe")


def test_the_environment_is_exactly_the_given_one(gate: Gate) -> None:
    env = {"B": "2", "A": "1", "not-a-name": "x=y", "E": ""}
    with waiting(gate, "cat", "/proc/self/environ", path="/bin/cat", env=env) as child:
        child.open()
        assert child.said() == b"B=2\0A=1\0not-a-name=x=y\0E=\0"


@pytest.mark.parametrize(
    ("text", "mode", "code"),
    [
        (None, 0, errno.ENOENT),
        ("#!/no/such/interpreter\n", 0o755, errno.ENOENT),
        ("echo a script without a format\n", 0o755, errno.ENOEXEC),
        ("#!/bin/sh\n", 0o644, errno.EACCES),
    ],
)
def test_a_refused_execution_is_reported_below_zero(
    gate: Gate, tmp_path: Path, text: str | None, mode: int, code: int
) -> None:
    tool = tmp_path / "tool"
    if text is not None:
        tool.write_text(text)
        tool.chmod(mode)
    with waiting(gate, str(tool), env={}) as child:
        child.open()
        assert child.reported() == -code
        assert child.wait() == 127
        assert child.said() == b""


def test_a_folder_that_cannot_be_entered_is_reported_above_zero(gate: Gate, tmp_path: Path) -> None:
    with waiting(gate, "/bin/true", folder=str(tmp_path / "gone"), env={}) as child:
        child.open()
        assert child.reported() == errno.ENOENT
        assert child.wait() == 127


def test_a_stopped_gate_stays_shut(gate: Gate) -> None:
    """STOP and CONT interrupt its read, and open nothing."""
    with waiting(gate, "/bin/echo", "ran", env={}) as child:
        for _ in range(3):
            os.kill(child.pid, signal.SIGSTOP)
            assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
            os.kill(child.pid, signal.SIGCONT)
        assert os.waitpid(child.pid, os.WNOHANG) == (0, 0)
        child.open()
        assert child.said() == b"ran\n"


def test_inherited_descriptors_are_closed_at_the_gate(gate: Gate) -> None:
    leaked = fcntl.fcntl(0, fcntl.F_DUPFD, 300)
    try:
        with waiting(gate, "/bin/ls", "/proc/self/fd", env={}) as child:
            child.open()
            # 3 is the folder that ls itself has opened.
            assert child.said().split() == [b"0", b"1", b"2", b"3"]
    finally:
        os.close(leaked)


def test_the_machine_gate_cannot_be_written_to() -> None:
    gate = machine_gate()
    assert gate is not None
    fd = int(gate.program.rsplit("/", 1)[1])
    assert fd > REPORT_FD and not os.get_inheritable(fd)
    for change in (lambda: os.pwrite(fd, b"x", 0), lambda: os.ftruncate(fd, 0)):
        with pytest.raises(PermissionError):
            change()


def test_the_machine_gate_is_small_and_maps_nothing_writable() -> None:
    for machine, listing in gate_room._MACHINES.values():
        image = gate_room._image(machine, listing)
        assert len(image) < 600
        assert struct.unpack_from("<HH", image, 16) == (2, machine)
        assert [struct.unpack_from("<II", image, 64 + 56 * n)[1] & 2 for n in (0,)] == [0]


@pytest.fixture
def forgetful() -> Iterator[None]:
    """Detect the gate anew, and restore the state afterwards."""
    before = machine_gate()
    gate_room._machine_gates.clear()
    yield
    gate_room._machine_gates.clear()
    assert (machine_gate() is None) == (before is None)


@pytest.mark.usefixtures("forgetful")
def test_an_unknown_machine_gets_the_interpreters_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("haftd.host.launch.gate.architecture", lambda: "vax")
    assert best_gate().kind == "interpreter"
    gate_room._machine_gates.clear()
    monkeypatch.undo()


@pytest.mark.usefixtures("forgetful")
def test_a_shortage_of_descriptors_decides_one_start_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, flags: int) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    usual = best_gate().kind
    gate_room._machine_gates.clear()
    monkeypatch.setattr(os, "memfd_create", refuse)
    assert best_gate().kind == "interpreter"
    monkeypatch.undo()
    assert best_gate().kind == usual


@pytest.mark.usefixtures("forgetful")
def test_without_an_executable_memfd_the_interpreter_is_the_gate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str, flags: int) -> int:
        raise PermissionError(errno.EACCES, "sysctl vm.memfd_noexec")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert best_gate().kind == "interpreter"
    monkeypatch.undo()
    gate_room._machine_gates.clear()
    monkeypatch.setattr(gate_room, "_image", lambda *_: b"\x7fELF not really")
    before = len(os.listdir("/proc/self/fd"))
    assert best_gate().kind == "interpreter"
    assert len(os.listdir("/proc/self/fd")) == before
    gate_room._machine_gates.clear()
    monkeypatch.undo()


_WITHOUT_CLOSE_RANGE = """
import ctypes, struct
libc = ctypes.CDLL(None)
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 436), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7FFF0000)]
data = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in code))
program = struct.pack("@HP", len(code), ctypes.addressof(data))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
from haftd.host.launch.gate import best_gate
print(best_gate().kind)
"""


def test_a_kernel_without_close_range_gets_the_interpreters_gate() -> None:
    """The machine gate's descriptors would have other numbers."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_CLOSE_RANGE], capture_output=True, check=True
    )
    assert done.stdout == b"interpreter\n"


@pytest.mark.usefixtures("forgetful")
def test_a_machine_gate_for_another_machine_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[platform.machine()]
    monkeypatch.setattr("haftd.host.launch.gate.architecture", lambda: other)
    assert best_gate().kind == "interpreter"
    monkeypatch.undo()


@pytest.mark.parametrize(("machine", "runner"), [("aarch64", "qemu-aarch64")])
def test_other_machines_gates_behave_the_same(tmp_path: Path, machine: str, runner: str) -> None:
    """Run under an emulator: execution, error reports, and the exit when shut."""
    emulator = shutil.which(runner)
    if emulator is None:
        pytest.skip("qemu-aarch64 is not installed")
    file = tmp_path / "gate"
    file.write_bytes(gate_room._image(*gate_room._MACHINES[machine]))
    file.chmod(0o755)
    emulated = Gate("machine", emulator, (emulator, "-0", "haft-gate", str(file)))
    with waiting(emulated, "arg0", "out", path="/bin/echo", env={}) as child:
        child.open()
        assert (child.reported(), child.said(), child.wait()) == (None, b"out\n", 0)
    with waiting(emulated, "/no/such", env={}) as child:
        child.open()
        assert (child.reported(), child.wait()) == (-errno.ENOENT, 127)
    with waiting(emulated, "/bin/true", folder="/no/such", env={}) as child:
        child.open()
        assert (child.reported(), child.wait()) == (errno.ENOENT, 127)
    with waiting(emulated, "/bin/echo", "ran", env={}) as child:
        child.shut()
        assert (child.reported(), child.said(), child.wait()) == (None, b"", 127)


_DIES = """
import os, signal, sys
from haftd.host.launch.gate import best_gate, interpreter_gate
from haftd.host.launch.spawn import launch
from haftd.launch_spec import LaunchSpec
def record(identity):
    print(identity.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
gate = best_gate() if sys.argv[1] == "machine" else interpreter_gate()
launch(LaunchSpec(("/bin/sh", "-c", "touch $0", sys.argv[2]), "/", {"PATH": "/bin:/usr/bin"}), record, gate)
"""


def test_a_daemon_killed_at_the_gate_has_started_nothing(gate: Gate, tmp_path: Path) -> None:
    """P01 at its sharpest point: recorded, and not yet opened."""
    done = subprocess.run(
        [sys.executable, "-c", _DIES, gate.kind, str(tmp_path / "ran")],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    try:
        pidfd = os.pidfd_open(int(done.stdout))
    except ProcessLookupError:
        pass
    else:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        assert poll.poll(10_000), "the gate outlived its daemon"
        os.close(pidfd)
    assert not (tmp_path / "ran").exists()
