from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cases.conftest import Desk, text
from tests.faults.harness import until
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire


@pytest.mark.parametrize("count", [5, pytest.param(20, marks=pytest.mark.soak)])
def test_RB_051_many_first_calls_at_once_start_one_daemon(
    make_daemon: Callable[..., RunningDaemon], count: int
) -> None:
    daemon = make_daemon()

    def first_call(number: int) -> subprocess.CompletedProcess[str]:
        words = [
            "--json",
            "spawn",
            "run",
            "--id",
            f"n{number}",
            "--args",
            '{"command": "echo $PPID"}',
            "--wait",
            "stopped",
        ]
        return run_haft(words, env=daemon.env)

    try:
        with ThreadPoolExecutor(count) as pool:
            calls = list(pool.map(first_call, range(count)))
        assert [call.returncode for call in calls] == [0] * count, [call.stderr for call in calls]

        pids = {json.loads(call.stdout)["result"].strip() for call in calls}
        assert len(pids) == 1, "every command has the same daemon as its parent"
        inode = daemon.socket.stat().st_ino
        second = subprocess.run(
            [sys.executable, "-m", "haftd"],
            env=daemon.env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert second.returncode == 75 and "haftd" in second.stderr
        assert daemon.socket.stat().st_ino == inode
        with daemon.connect() as wire:
            assert wire.call("daemon/status")["pid"] == int(pids.pop())
    finally:
        run_haft(["stop"], env=daemon.env)


def test_RB_052_a_folder_too_long_for_a_socket_path_works(short_tmp: Path) -> None:
    daemons = []
    for letter in "de":
        daemon = RunningDaemon(
            short_tmp / letter, env={"XDG_RUNTIME_DIR": str(short_tmp / (letter * 120))}
        )
        (short_tmp / (letter * 120)).mkdir(mode=0o700)
        daemons.append(daemon)
    sockets = set()
    try:
        for daemon in daemons:
            shown = run_haft(["--json", "tools"], env=daemon.env)
            assert shown.returncode == 0, shown.stderr
            status = run_haft(["--json", "status"], env=daemon.env)

            path = Path(json.loads(status.stdout)["socket"])
            assert len(str(path)) <= 107
            assert path.parent.stat().st_mode & 0o777 == 0o700
            assert path.stat().st_mode & 0o777 == 0o600
            sockets.add(path)
        assert len(sockets) == 2
    finally:
        for daemon in daemons:
            run_haft(["stop"], env=daemon.env)


def test_RB_054_environment_and_folder_are_the_callers(
    make_daemon: Callable[..., RunningDaemon], tmp_path: Path
) -> None:
    one, other = tmp_path / "A", tmp_path / "B"
    one.mkdir()
    other.mkdir()
    tool = other / "tool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    daemon = make_daemon(env={"VENV": "a", "ONLY_A": "1"}).start()
    env = {"PATH": os.environ["PATH"], "VENV": "b"}
    with daemon.connect() as wire:
        state = wire.call(
            "spawn",
            tool="run",
            id="x",
            root=str(other),
            env=env,
            wait="stopped",
            args={"command": "echo $VENV-$ONLY_A; pwd; ./tool"},
        )
        assert state["result"] == f"b-\n{other}\nmine\n"
        state = wire.call(
            "spawn",
            tool="run",
            id="x",
            root=str(one),
            wait="stopped",
            args={"command": "echo $VENV-$ONLY_A; pwd"},
        )
        assert state["result"] == f"a-1\n{one}\n"
    words = ["spawn", "run", "--id", "y", "--args", '{"argv": ["./tool"]}', "--wait", "stopped"]
    cli = run_haft(words, env=daemon.env, cwd=other)
    assert cli.stdout == "mine\n", cli.stderr


@pytest.mark.parametrize("pty", [False, True])
def test_RB_055_no_descriptor_of_the_daemon_reaches_a_child(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk], pty: bool
) -> None:
    daemon = make_daemon().start()
    others = [daemon.connect() for _ in range(3)]
    desk = open_desk(daemon)
    listing = "import os; print(sorted(os.listdir('/proc/self/fd'), key=int))"
    state = desk.done(desk.spawn(sys.executable, "-S", "-c", listing, pty=pty))
    assert text(state).strip() == "['0', '1', '2', '3']", "3 is the listing's own"
    desk.spawn("setsid", "sleep", "90", pty=pty)
    daemon.kill9()
    daemon.start()
    assert open_desk(daemon).wire.call("ping") == {"pong": True}
    for one in others:
        one.close()


def test_RB_056_disconnecting_clients_harm_nothing(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    daemon = make_daemon().start()
    desk = open_desk(daemon)
    keep = desk.spawn("sleep", "60")
    before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    for number in range(100):
        gone = Wire(daemon.socket)
        if number == 50:
            gone.send_raw(b"{")
        else:
            gone.start("fetch", id=keep, wait="stopped", timeout_ms=5000)
        gone.close()
    assert [one["id"] for one in desk.list()] == [keep]
    assert desk.fetch(keep)["state"] == "running"
    until(
        lambda: desk.wire.call("daemon/status")["connections"] == 1,
        "the end of the gone clients' connections",
    )
    assert len(os.listdir(f"/proc/{daemon.pid}/fd")) <= before + 1


def test_RB_058_a_waiting_call_delays_no_other_on_its_connection(desk: Desk) -> None:
    handle = desk.spawn("sleep", "60")
    wire = desk.wire
    waiting = wire.start(
        "fetch", session=desk.session, id=handle, wait="stopped", timeout_ms=600_000
    )
    wire.call("handles/list", session=desk.session)
    assert wire._kept == [], "the waiting call has not been answered, and held nobody up"
    assert wire.call("abort", session=desk.session, id=handle)["state"] == "stopped"
    state = wire.finish(waiting)
    assert state["state"] == "stopped" and state["ended_by"]["by"] == "abort"


@pytest.mark.parametrize("pty", [False, True])
def test_RB_074_default_signals_and_blocking_output(desk: Desk, pty: bool) -> None:
    state = desk.done(desk.spawn("bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}", pty=pty))
    assert text(state).split() == ["y", "141"]
    state = desk.done(desk.spawn("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", pty=pty))
    fields = dict(line.split(":\t") for line in text(state).splitlines())
    assert {key: int(value, 16) for key, value in fields.items()} == {"SigBlk": 0, "SigIgn": 0}
    handle = desk.spawn("seq", "1", "300000", pty=pty)
    state = desk.done(handle, view="tail")
    lines = 300000 if pty else 0
    assert state["exit"] == {"code": 0} and state["cursor"] == 1988895 + lines
    assert text(state).split()[-1] == "300000"


def test_RB_075_an_argument_above_the_kernels_limit(desk: Desk) -> None:
    handle = desk.spawn(sh=": " + "x" * 200_000 + "\necho end")
    state = desk.done(handle)
    assert text(state) == "end\n" and state["exit"] == {"code": 0}
    with pytest.raises(Refused) as caught:
        desk.spawn("/bin/true", "x" * 131072)
    assert caught.value.code == -32009
    assert "131072" in caught.value.message and "131071" in caught.value.message


def test_RB_078_a_bare_start_still_finds_tools_and_speaks_utf8(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    daemon = make_daemon()
    binaries = daemon.home / "bin"
    binaries.mkdir()
    (binaries / "mytool").write_text("#!/bin/sh\necho mytool\n")
    (binaries / "mytool").chmod(0o755)
    (binaries / "viaenv").write_text("#!/usr/bin/env mytool\n")
    (binaries / "viaenv").chmod(0o755)
    (daemon.home / ".profile").write_text('PATH="$HOME/bin:$PATH"\n')
    full = daemon.env
    bare: dict[str, Any] = dict.fromkeys(os.environ)
    for key in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME"):
        bare[key] = full[key]
    daemon._env = bare | {"PATH": "/usr/bin:/bin", "SHELL": "/bin/bash"}
    daemon.start()
    desk = open_desk(daemon)
    assert text(desk.done(desk.spawn("mytool"))) == "mytool\n"
    assert text(desk.done(desk.spawn(str(binaries / "viaenv")))) == "mytool\n"
    say = "import sys;print('é',sys.stdout.encoding)"
    assert text(desk.done(desk.spawn(sys.executable, "-c", say))).lower() == "é utf-8\n"


def test_RB_079_secrets_of_the_daemon_reach_no_child(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    daemon = make_daemon(
        "[websocket]\nport = 0\n",
        env={"DAEMON_AUTH_TOKEN": "s3cr3t-A", "OPENAI_API_KEY": "s3cr3t-B"},
    ).start()
    desk = open_desk(daemon)
    handle = desk.spawn("env", env={"PATH": os.environ["PATH"], "MINE": "s3cr3t-C"})
    shown = text(desk.done(handle))
    assert "s3cr3t-A" not in shown and "s3cr3t-B" not in shown and "MINE=s3cr3t-C" in shown
    assert "s3cr3t" not in text(desk.done(desk.spawn("env"))).replace("s3cr3t-C", "s3cr3t")
    running = desk.spawn("sleep", "5", env={"PATH": os.environ["PATH"], "MINE": "s3cr3t-C"})
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            assert b"s3cr3t" not in line
    token = daemon.socket.with_name("token").read_text().strip()
    for folder in (daemon.runtime, daemon.state):
        for path in folder.rglob("*"):
            if path.is_file():
                assert path.stat().st_mode & 0o077 == 0, path
                content = path.read_bytes()
                assert b"s3cr3t-A" not in content and b"s3cr3t-B" not in content, path
                # A tool's printed text is its output, which is saved when cut.
                assert path.parent.name == "spool" or b"s3cr3t-C" not in content, path
                assert path.name == "token" or token.encode() not in content
    assert "s3cr3t" not in daemon.log_text() and token not in daemon.log_text()
    desk.abort(running)


def test_RB_055_a_restart_succeeds_with_a_stopped_child(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    daemon = make_daemon().start()
    desk = open_desk(daemon)
    desk.spawn("sleep", "90")
    os.kill(desk.list()[0]["pid"], signal.SIGSTOP)
    daemon.kill9()
    daemon.start()
    assert open_desk(daemon).list()[0]["ended_by"] == {"by": "lost"}


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="no systemd-tmpfiles")
@pytest.mark.parametrize("cleaned", ["the runtime folder", "what is above it"])
def test_RB_084_an_age_cleaner_removes_nothing_of_a_running_daemon(
    daemon: RunningDaemon, cleaned: str
) -> None:
    folder = daemon.socket.parent
    before = {path.name: path.stat().st_ino for path in folder.iterdir()}
    assert {"daemon.lock", "handles.lock", "recover.lock", "haftd.sock"} <= set(before)
    above = folder if cleaned == "the runtime folder" else folder.parent
    (above / "old").touch()
    conf = daemon.base / "tmpfiles.conf"
    # An age of a microsecond: everything is old enough.
    conf.write_text(f"d {above} 0700 - - 1us\n")
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="work", args={"argv": ["cat"]}, wait="none")
        subprocess.run(["systemd-tmpfiles", "--clean", str(conf)], check=True)
        assert not (above / "old").exists(), "it cleans at all"
        assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before
        assert wire.call("fetch", id="work")["state"] == "running"
