"""A sandboxed program gets what was granted and nothing else, as root and as another user.

Each attempt of `attacks` is a test; all are made in one process for each user. The same attempts without a
sandbox show that they are real.
"""

from __future__ import annotations

import errno
import os
import platform
import shutil
import signal
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from haftd.host.launch import (
    gate_child,
    landlock,
    launched_process,
    rule_path,
    spawn,
    syscall_filter,
)
from haftd.host.launch.gate import Gate, interpreter_gate, machine_gate
from haftd.host.launch.program import LaunchFailed
from haftd.host.process.identity import Identity
from haftd.host.tree.process_tree import ProcessTree
from haftd.launch_spec import Grant, LaunchSpec, Sandbox
from tests.patience import PATIENCE_S

from .attacks import ATTEMPTS
from .launch_helpers import new_mark, open_fds, plan, run
from .sandbox_attempts import READ, WRITE, attack, attack_as, make_folders, sandbox_of

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86_64"),
    pytest.mark.skipif(landlock.abi() < 6, reason="needs a kernel with Landlock 6"),
]

NOBODY = 65534
REFUSALS = {
    "EACCES", "EPERM",
    "EXDEV",  # a link or a move that would widen what may be done
    "ENOSYS",  # clone3 and io_uring, which a filter cannot look into
    "EBADF",  # no descriptor to be had
}  # fmt: skip
HARMLESS = [name for name in ATTEMPTS if not name.endswith("_")]
REFUSED_ANYWAY = {
    "use_an_inherited_descriptor": "EBADF",
    "open_a_handle_of_a_file": "ESTALE",
    "read_a_neighbours_memory": "EFAULT",
    "advise_on_a_neighbours_memory": "ENOMEM",
    "ask_a_device_that_may_be_written": "ENOTTY",
    "make_a_pair_of_any_other_kind": "EAFNOSUPPORT",
    "reconnect_one_socket_of_a_pair": "EISCONN",
    "reconnect_the_rest_of_a_pair": "EISCONN",
}
"""Attempts that fail without a sandbox, too, by another error or because of the gate."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that every user can enter, with the folders of the attempts."""
    base = Path(tempfile.mkdtemp(prefix="haft-"))
    base.chmod(0o777)
    make_folders(base)
    yield base
    shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[str, str]:
    return attack(folder, sandbox_of(folder))


@pytest.fixture(scope="module")
def anothers_outcomes(outcomes: dict[str, str]) -> Iterator[dict[str, str]]:
    if os.geteuid() != 0:
        pytest.skip("only root can change to another user")
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")
    if python is None or not os.stat(os.path.realpath(python)).st_mode & stat.S_IXOTH:
        pytest.skip("the interpreter is not readable for another user")
    base = Path(tempfile.mkdtemp(prefix="haft-"))
    base.chmod(0o777)
    make_folders(base)
    yield attack_as(NOBODY, base, sandbox_of(base), python)
    shutil.rmtree(base, ignore_errors=True)


def test_a_path_that_is_exchanged_while_the_rules_are_made_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_fds()

    def readlink(path: str, *, dir_fd: int | None = None) -> str:
        raise OSError(errno.EINVAL, "Invalid argument", path)

    (tmp_path / "link").symlink_to("/bin")
    monkeypatch.setattr(os, "readlink", readlink)
    with pytest.raises(landlock.CannotEnforce, match="exchanged while the rules were made"):
        landlock.make_ruleset(Sandbox("/"), f"{tmp_path}/link/true")
    monkeypatch.undo()
    assert open_fds() == before


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_to_leave_the_sandbox_is_refused(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] in REFUSALS


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_as_another_user_is_refused(
    anothers_outcomes: dict[str, str], name: str
) -> None:
    assert anothers_outcomes[name] in REFUSALS


def test_the_attempts_are_refused_with_the_proxy_alone(tmp_path: Path) -> None:
    """The sandbox with rules for single hosts, whose `connect` a supervisor answers."""
    make_folders(tmp_path)
    report = attack(tmp_path, sandbox_of(tmp_path)._replace(is_proxied=True))
    assert {name: end for name, end in report.items() if end not in REFUSALS} == {}


def test_the_attempts_succeed_without_a_sandbox(tmp_path: Path) -> None:
    make_folders(tmp_path)
    only = [name for name in HARMLESS if os.geteuid() == 0 or "capabilit" not in name]
    report = attack(tmp_path, None, only)
    refused = {name: end for name, end in report.items() if not end.startswith("reached")}
    assert refused.items() <= REFUSED_ANYWAY.items()


def sandboxed(*argv: str, sandbox: Sandbox, cwd: Path, terminal: bool = False) -> LaunchSpec:
    return plan(*argv, cwd=cwd, terminal=terminal, mark=new_mark())._replace(sandbox=sandbox)


def output(spec: LaunchSpec, gate: Gate | None = None) -> str:
    return trio.run(run, spec, gate)


def refusal(spec: LaunchSpec) -> str:
    before = open_fds()
    with pytest.raises(LaunchFailed) as caught:
        output(spec)
    assert caught.value.reason == "sandbox"
    # A gate is kept, and made for the first program of its kind.
    assert {fd for fd in open_fds() - before if "haft-gate" not in fd} == set()
    return caught.value.message


USUAL = (
    "echo in >new && cat new && mkdir -p a/b && ln new a/b/ && rm new && chmod 640 a/b/new && rm -r a; "
    "echo err >/dev/stderr; cat <(echo piped) </dev/zero; head -c 1 /dev/urandom >/dev/null; "
    "read -r name </proc/$$/comm; echo $name; nosuch() { :; }; ulimit -n 64; wait"
)


@pytest.mark.parametrize("kind", ["machine", "interpreter"])
def test_what_is_granted_works(tmp_path: Path, kind: str) -> None:
    """Files, moves between folders, modes, devices, pipes of the shell, and its own /proc."""
    confinement = syscall_filter.confinement(
        network="none", metadata=True, capabilities=syscall_filter.permitted_capabilities()
    )
    gate = (machine_gate if kind == "machine" else interpreter_gate)(confinement)
    assert gate is not None and gate.kind == kind
    spec = sandboxed(
        "bash",
        "-c",
        USUAL,
        sandbox=Sandbox(str(tmp_path), (Grant(str(tmp_path), WRITE),)),
        cwd=tmp_path,
    )
    assert output(spec, gate) == "in\nerr\npiped\nbash\n"


@pytest.mark.parametrize("kind", ["all", "proxy", "none"])
def test_names_of_hosts_and_certificates_are_read_with_a_network(tmp_path: Path, kind: str) -> None:
    sandbox = Sandbox(str(tmp_path), network=kind == "all", is_proxied=kind == "proxy")
    spec = sandboxed("cat", "/etc/hosts", sandbox=sandbox, cwd=tmp_path)
    assert ("Permission denied" in output(spec)) is (kind == "none")


@pytest.mark.parametrize("is_left", [False, True])
async def test_a_sandboxed_start_takes_ends_and_leaves_no_child_at_the_usual_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_left: bool
) -> None:
    monkeypatch.setattr(gate_child, "_MAX_AGE_S", PATIENCE_S)
    monkeypatch.setattr(gate_child._spare, "started_s", float("inf"))
    spec = sandboxed(
        "grep", "Seccomp:", "/proc/self/status", sandbox=Sandbox(str(tmp_path)), cwd=tmp_path
    )
    gate = machine_gate()
    assert gate is not None
    with gate_child.keep_spare():
        if is_left:
            gate_child.leave_spare(gate)
        before = gate_child._spare.child
        assert await run(spec) == "Seccomp:\t2\n", "the program's system calls were not confined"
        assert gate_child._spare.child is before
        assert before is None or before.can_run()


def test_a_terminal_works_in_a_sandbox(tmp_path: Path) -> None:
    script = "stty size </dev/tty; tty >/dev/tty; echo done >/dev/stdout; cat /etc/hostname"
    lines = output(
        sandboxed("sh", "-c", script, sandbox=Sandbox(str(tmp_path)), cwd=tmp_path, terminal=True)
    ).splitlines()
    assert lines[0] == "24 80" and lines[1].startswith("/dev/pts/") and lines[2] == "done"
    assert "Permission denied" in lines[3]


def test_programs_of_one_sandbox_signal_each_other(tmp_path: Path) -> None:
    script = "sleep 1000 & kill $! && wait $! 2>/dev/null; echo $?"
    assert output(sandboxed("sh", "-c", script, sandbox=Sandbox("/"), cwd=tmp_path)).endswith(
        "143\n"
    )


def test_the_network_is_open_where_it_is_granted_and_other_programs_sockets_are_not(
    tmp_path: Path,
) -> None:
    make_folders(tmp_path)
    sandbox = sandbox_of(tmp_path)._replace(network=True)
    report = attack(
        tmp_path,
        sandbox,
        [
            name
            for name in ATTEMPTS
            if "socket" in name
            or "tcp" in name
            or name in ("send_a_datagram", "listen_on_a_port", "ask_for_routes")
        ],
    )
    reached = {name for name, end in report.items() if end.startswith("reached")}
    assert reached == {
        "connect_by_tcp", "connect_by_tcp_over_ipv6", "send_a_datagram", "listen_on_a_port",
        "ask_for_routes",
    }  # fmt: skip


def test_a_writer_makes_no_program_with_its_owners_id(tmp_path: Path) -> None:
    """Neither by a mode nor in place of one that was there."""
    there = tmp_path / "there"
    there.touch()
    there.chmod(0o4755)
    sandbox = Sandbox(str(tmp_path), (Grant(str(tmp_path), WRITE),))
    script = (
        "touch new; chmod 4755 new; chmod g+s new; chmod 1755 new && echo changed; echo x >there"
    )
    printed = output(sandboxed("sh", "-c", script, sandbox=sandbox, cwd=tmp_path))
    assert printed.count("not permitted") == 2 and printed.endswith("changed\n")
    assert (tmp_path / "new").stat().st_mode & 0o7777 == 0o1755
    assert there.stat().st_mode & 0o7777 == 0o755


def test_a_reader_changes_no_modes_owners_or_times(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sandbox = Sandbox(str(tmp_path), (Grant(str(tmp_path), READ),))
    script = "chmod 600 file; touch -d 2000-01-01 file; chown 1 file"
    printed = output(sandboxed("sh", "-c", script, sandbox=sandbox, cwd=tmp_path))
    assert printed.count("Permission denied") == 3


@pytest.mark.parametrize("request_", ["0x40086602", "0x401c5820"])
def test_a_reader_changes_no_attributes(tmp_path: Path, request_: str) -> None:
    (tmp_path / "file").touch()
    sandbox = Sandbox(str(tmp_path), (Grant(str(tmp_path), READ),))
    script = (
        f"import fcntl\nwith open('file') as file:\n fcntl.ioctl(file, {request_}, bytearray(64))"
    )
    printed = output(
        sandboxed(
            shutil.which("python3", path="/usr/bin") or "python3",
            "-c",
            script,
            sandbox=sandbox,
            cwd=tmp_path,
        )
    )
    assert "[Errno 1] Operation not permitted" in printed


def test_open_files_leave_the_rest_of_the_sandbox(tmp_path: Path) -> None:
    make_folders(tmp_path)
    sandbox = Sandbox(str(tmp_path), None)
    report = attack(
        tmp_path,
        sandbox,
        ["read_by_absolute_path", "read_a_neighbours_environment", "connect_to_a_socket_by_path"],
    )
    assert report == {
        "read_by_absolute_path": "reached: secret",
        "read_a_neighbours_environment": "EACCES",
        "connect_to_a_socket_by_path": "EACCES",
    }


@pytest.mark.parametrize("target", ["../secret", "inner"])
def test_a_rule_follows_no_link_that_the_tool_could_have_placed(
    tmp_path: Path, target: str
) -> None:
    """The tool may change `work`; between two calls it makes `work/out` a link."""
    work = tmp_path / "work"
    for folder in (work, work / "inner", tmp_path / "secret"):
        folder.mkdir()
    (work / "out").symlink_to(target)
    grants = (Grant(str(work), WRITE), Grant(str(work / "out"), READ | {"execute"}))
    spec = sandboxed("true", sandbox=Sandbox(str(tmp_path), grants), cwd=tmp_path)
    message = refusal(spec)
    assert f"{work}/out goes through the link {work}/out, which a tool" in message


@pytest.mark.parametrize("target", ["/etc", "inner"])
def test_a_rule_follows_no_link_that_another_tool_could_have_placed(
    tmp_path: Path, target: str
) -> None:
    """Out of the root or into another folder of the root: another rule may let another tool change the root."""
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "alias").symlink_to(target)
    for path in (root / "alias", root / "alias/below"):
        grants = (Grant(str(path), READ),)
        message = refusal(sandboxed("true", sandbox=Sandbox(str(root), grants), cwd=root))
        assert f"goes through the link {root}/alias" in message


def test_links_of_the_system_and_of_the_root_itself_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "real/inner/file").write_text("read")
    root = tmp_path / "root"
    root.symlink_to("real")
    grants = tuple(Grant(path, READ) for path in (f"{root}/inner", "/bin/sh", "/var/run"))
    spec = sandboxed("cat", "inner/file", sandbox=Sandbox(str(root), grants), cwd=root)
    assert output(spec) == "read"


def test_a_rule_for_the_own_proc_is_refused(tmp_path: Path) -> None:
    """It would be the daemon's."""
    for path in ("/proc/self", "/proc/self/status", "/dev/fd"):
        sandbox = Sandbox("/", (Grant(path, READ),))
        message = refusal(sandboxed("true", sandbox=sandbox, cwd=tmp_path))
        assert f"the rule for {path} " in message


def test_with_proc_granted_neighbours_keep_their_secrets(tmp_path: Path) -> None:
    """Names and arguments of processes are seen then, and nothing behind the check of ptrace."""
    make_folders(tmp_path)
    sandbox = sandbox_of(tmp_path)
    grants = (*(sandbox.grants or ()), Grant("/proc", READ))
    report = attack(
        tmp_path,
        sandbox._replace(grants=grants),
        [name for name in ATTEMPTS if "neighbour" in name],
    )
    reached = {name for name, end in report.items() if end.startswith("reached")}
    assert reached == {
        "read_a_neighbours_arguments",
        "list_a_neighbours_descriptors",  # their numbers
    }
    spec = sandboxed(
        "sh",
        "-c",
        "cat /proc/self/comm; ls /proc/self/fd; true",
        sandbox=Sandbox("/", (Grant("/proc", READ),)),
        cwd=tmp_path,
    )
    assert output(spec) == "cat\n0\n1\n2\n3\n"


def test_a_denial_by_another_name_of_a_granted_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data/secret").mkdir(parents=True)
    (tmp_path / "alias").symlink_to("data/secret")
    grants = (Grant(str(tmp_path / "data"), READ),)
    for name, denied in (("alias", True), ("data/secret", True), ("data2", False)):
        denials = (Grant(str(tmp_path / name), READ),)
        sandbox = Sandbox("/", grants, denials=denials)
        spec = sandboxed("echo", "ran", sandbox=sandbox, cwd=tmp_path)
        if denied:
            assert f"{tmp_path}/{name} denies read" in refusal(spec)
        else:
            assert output(spec) == "ran\n"
    sandbox = Sandbox("/", (), denials=(Grant("/var/run/../../usr/x", READ),))
    assert "denies read" in refusal(sandboxed("true", sandbox=sandbox, cwd=tmp_path))


@pytest.mark.parametrize("name", ["tool", "folder/tool"])
def test_a_program_replaced_by_a_link_is_not_granted(tmp_path: Path, name: str) -> None:
    """Otherwise the grant of the own file would be one of any executable file."""
    work, secret = tmp_path / "work", tmp_path / "secret"
    work.mkdir()
    secret.mkdir()
    (secret / "tool").write_text("#!/bin/sh\necho secret\n")
    (secret / "tool").chmod(0o755)
    (work / "tool").symlink_to(secret / "tool")
    (work / "folder").symlink_to(secret)
    sandbox = Sandbox(str(work), (Grant(str(work), WRITE | {"execute"}),))
    with pytest.raises(LaunchFailed) as caught:
        output(sandboxed(f"./{name}", sandbox=sandbox, cwd=work))
    assert caught.value.reason == "permission"
    # A link that the tool cannot change is followed.
    sandbox = Sandbox(str(work), (Grant(str(work), READ | {"execute"}),))
    assert output(sandboxed(f"./{name}", sandbox=sandbox, cwd=work)) == "secret\n"


def test_writing_at_a_missing_path_is_refused_and_reading_is_not(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    spec = sandboxed("true", sandbox=Sandbox("/", (Grant(missing, WRITE),)), cwd=tmp_path)
    assert f"the rule for {missing} grants writing" in refusal(spec)
    readable = Sandbox("/", (Grant(missing, READ),))
    assert output(sandboxed("echo", "ran", sandbox=readable, cwd=tmp_path)) == "ran\n"


def test_a_rule_follows_no_link_of_the_system_out_of_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_path, "_is_trusted", lambda folder, path: True)
    (tmp_path / "out").symlink_to("/etc")
    sandbox = Sandbox(str(tmp_path), (Grant(f"{tmp_path}/out", READ),))
    with pytest.raises(landlock.CannotEnforce, match="leads out of the root"):
        landlock.make_ruleset(sandbox, "/bin/true")


@pytest.mark.parametrize(
    ("path", "is_trusted"),
    [
        *((path, True) for path in ("/", "/home", "/var", "/etc", "/usr/bin", "/nix/store/x")),
        *((path, False) for path in ("/home/x", "/tmp", "/usr/local", "/usr/local/bin", "/etc/x")),
    ],
)
def test_root_trusts_the_links_of_the_systems_folders(
    monkeypatch: pytest.MonkeyPatch, path: str, is_trusted: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert rule_path._is_trusted(-1, path) == is_trusted


@pytest.mark.parametrize(
    ("abi", "size", "last"), [(3, 8, 14), (4, 16, 14), (5, 16, 15), (6, 24, 15), (7, 24, 15)]
)
@pytest.mark.parametrize("network", [True, False])
def test_a_ruleset_holds_every_right_and_scope_that_the_kernel_knows(
    monkeypatch: pytest.MonkeyPatch, abi: int, size: int, last: int, network: bool
) -> None:
    """Also those that the filter of system calls keeps back already, as each is a wall of its own."""
    made: list[tuple[bytes, int]] = []

    def syscall(number: int, *words: Any) -> int:
        if number == 444:
            attributes, given, _ = words
            made.append((attributes, given.value))
            return os.open("/dev/null", os.O_RDONLY)
        return 0

    monkeypatch.setattr(landlock, "abi", lambda: abi)
    monkeypatch.setattr(landlock, "_libc", SimpleNamespace(syscall=syscall))
    os.close(landlock.make_ruleset(Sandbox("/", network=network), "/bin/true"))
    [(attributes, given)] = made
    handled, ports, scopes = struct.unpack("=QQQ", attributes)
    assert (given, handled, ports, scopes) == (size, (2 << last) - 1, 0 if network else 3, 3)


@pytest.mark.parametrize("abi", [0, 1, 2])
def test_a_kernel_that_cannot_enforce_refuses_and_is_named(
    tmp_path: Path, abi: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: abi)
    marker = tmp_path / "ran"
    message = refusal(sandboxed("touch", str(marker), sandbox=Sandbox("/"), cwd=tmp_path))
    assert "access.fs" in message and f"Linux {os.uname().release}" in message
    assert not marker.exists()


def test_an_unknown_machine_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscall_filter, "confinement", lambda **_: None)
    assert "this machine" in refusal(sandboxed("true", sandbox=Sandbox("/"), cwd=tmp_path))


@pytest.mark.parametrize("kind", ["machine", "interpreter"])
def test_a_failed_confinement_runs_nothing(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An invalid filter stands for any refusal of the kernel."""
    broken = syscall_filter.Confinement(bytes(8), 0, (126, 317))
    gate = (machine_gate if kind == "machine" else interpreter_gate)(broken)
    assert gate is not None
    monkeypatch.setattr(spawn, "best_gate", lambda _: gate)
    marker = tmp_path / "ran"
    message = refusal(sandboxed("touch", str(marker), sandbox=Sandbox("/"), cwd=tmp_path))
    assert os.strerror(errno.EINVAL).lower() in message
    assert not marker.exists()


def test_root_with_fewer_capabilities_keeps_those_that_it_has() -> None:
    """In a container root lacks some; asking for them fails."""
    kept = syscall_filter.confinement(network="none", metadata=True, capabilities=0b11)
    none = syscall_filter.confinement(network="none", metadata=True, capabilities=0)
    assert kept is not None and kept.capabilities == 0b11
    assert none is not None and none.capabilities == 0


def test_an_interpreter_outside_of_the_sandbox_is_explained(tmp_path: Path) -> None:
    shutil.copy("/bin/sh", tmp_path / "shell")
    (tmp_path / "tool").write_text(f"#!{tmp_path}/shell\necho ran\n")
    (tmp_path / "tool").chmod(0o755)
    with pytest.raises(LaunchFailed) as caught:
        output(sandboxed("./tool", sandbox=Sandbox(str(tmp_path)), cwd=tmp_path))
    assert "`read` and `execute` in `access.fs`" in caught.value.message
    more = Sandbox(str(tmp_path), (Grant(str(tmp_path / "shell"), READ | {"execute"}),))
    assert output(sandboxed("./tool", sandbox=more, cwd=tmp_path)) == "ran\n"


def test_the_virtual_environment_of_the_own_program_is_read(tmp_path: Path) -> None:
    """As of a program that pipx has installed; but not of one that the tool itself has written."""
    venv, work = tmp_path / "venv", tmp_path / "work"
    for folder in (venv / "bin", venv / "lib", work):
        folder.mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("home = /nowhere\n")
    (venv / "lib/module").write_text("module")
    (venv / "secret").write_text("secret")
    for folder in (venv / "bin", work):
        (folder / "program").write_text(f"#!/bin/sh\ncat {venv}/lib/module {venv}/secret\n")
        (folder / "program").chmod(0o755)
    (tmp_path / "link").symlink_to(venv / "bin/program")
    (work / "link").symlink_to(venv / "bin/program")
    sandbox = Sandbox(str(work), (Grant(str(work), WRITE | {"execute"}),))
    for program in (venv / "bin/program", tmp_path / "link"):
        printed = output(sandboxed(str(program), sandbox=sandbox, cwd=work))
        assert printed.startswith("module") and "Permission denied" in printed
    assert output(sandboxed("./program", sandbox=sandbox, cwd=work)).count("denied") == 2
    # A folder of the environment that another tool has replaced by a link.
    (venv / "lib").rename(tmp_path / "lib")
    (venv / "lib").symlink_to(tmp_path / "lib")
    printed = output(sandboxed(str(venv / "bin/program"), sandbox=sandbox, cwd=work))
    assert printed.count("Permission denied") == 2
    with pytest.raises(LaunchFailed):
        output(sandboxed("./link", sandbox=sandbox, cwd=work))


@pytest.mark.parametrize("kind", ["plain", "sandboxed", "proxied"])
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_gate_that_is_killed_or_stopped_runs_nothing_and_ends(
    tmp_path: Path, kind: str, signum: signal.Signals
) -> None:
    """By another program of the user, in the moment before the tool is let in."""
    sandbox = Sandbox(str(tmp_path), (Grant(str(tmp_path), WRITE),), is_proxied=kind == "proxied")
    spec = plan("touch", "ran", cwd=tmp_path, mark=new_mark())
    spec = spec._replace(sandbox=None if kind == "plain" else sandbox)

    def strike(identity: Identity) -> None:
        os.kill(identity.pid, signum)
        # Of the possible orders the one in which the pipe that lets the tool in has no reader.
        os.waitid(os.P_PID, identity.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)

    launched = spawn.launch(spec, strike)
    tree = ProcessTree(launched, spec.env["HAFT_HANDLE"])
    if signum == signal.SIGKILL:
        await launched.finish_start()
    else:
        with trio.CancelScope() as scope:
            scope.cancel()  # as an abort does
            await launched.finish_start()
    assert await tree.end(0) == ()
    assert launched.exit == launched_process.Exit(signal="KILL")
    launched.close()
    assert not (tmp_path / "ran").exists()


def test_a_sandbox_never_starts_behind_a_gate_without_one(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the gate confines"):
        output(sandboxed("true", sandbox=Sandbox("/"), cwd=tmp_path), interpreter_gate())
