from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import Ground, needs_namespaces, until
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

MakeDaemon = Callable[..., RunningDaemon]

HAFT = (sys.executable, "-m", "haft")
HAFTD = (sys.executable, "-m", "haftd")
TOOL = '[tools.x]\noutput = "raw"\ncommand = ["echo", "ran"]\n'


def haft(daemon: RunningDaemon, *words: str, **env: str | None) -> subprocess.CompletedProcess[str]:
    """Run the command line as this daemon's user, with variables changed or, if None, unset."""
    changed = {**daemon.env, **env}
    whole = {name: value for name, value in changed.items() if value is not None}
    return run_haft(words, env=whole, cwd=Path("/"))


def holder(daemon: RunningDaemon) -> dict[str, Any]:
    """Return the holder that the lock of the daemon's state folder names."""
    (lock,) = (daemon.state / "haft").glob("daemon-*.lock")
    document: dict[str, Any] = json.loads(lock.read_bytes())
    return document


def run(wire: Wire, *argv: str, **params: Any) -> dict[str, Any]:
    params = {"id": "t", "wait": "stopped", "timeout_ms": 60_000, **params}
    state: dict[str, Any] = wire.call("spawn", tool="run", args={"argv": list(argv)}, **params)
    return state


ESCAPES = {
    "as it is": ("env",),
    "without its socket": ("env", "-u", "HAFT_SOCKET"),
    "without anything of ours": ("env", "-u", "HAFT_SOCKET", "-u", "HAFT_HANDLE"),
    "elsewhere": ("env", "-u", "HAFT_SOCKET", "-u", "HAFT_HANDLE", "XDG_RUNTIME_DIR={other}"),
    "at another socket": ("env", "-u", "HAFT_HANDLE", "HAFT_SOCKET={other}/s"),
    "in a session of its own": ("env", "HAFT_SOCKET={other}/s", "setsid", "-w"),
}


@pytest.mark.parametrize("way", ESCAPES)
def test_a_handles_program_cannot_trust_a_root_through_its_own_daemon(
    make_daemon: MakeDaemon, tmp_path: Path, way: str
) -> None:
    daemon = make_daemon().start()
    (tmp_path / ".haft" / "tools").mkdir(parents=True)
    (tmp_path / ".haft" / "tools" / "x.toml").write_text(TOOL)
    other = daemon.base / "other"
    other.mkdir(mode=0o700)
    escape = [word.format(other=other) for word in ESCAPES[way]]
    with daemon.connect() as wire:
        state = run(wire, *escape, *HAFT, "trust", "--yes", root=str(tmp_path))
        assert state["exit"]["code"] != 0
        assert wire.call("trust/list") == {"roots": []}
    assert list(other.rglob("*.sock")) == []
    assert holder(daemon)["pid"] == daemon.pid


def test_a_handles_program_starts_no_daemon(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    own = daemon.base / "own"
    own.mkdir(mode=0o700)
    away = ("env", "-i", f"HOME={own}", f"XDG_RUNTIME_DIR={own}", f"PATH={os.environ['PATH']}")
    with daemon.connect() as wire:
        state = run(wire, *away, *HAFT, "tools")
    assert state["exit"] == {"code": 3}
    assert "A program that haftd runs does not start another one" in state["content"]
    assert list(own.iterdir()) == []


def test_a_second_daemon_over_the_same_state_folder_is_refused(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    assert daemon.second("--socket", str(daemon.base / "second.sock")) == 75
    # The first daemon may report that it serves after the second has been refused.
    printed = daemon.log_text()
    (refusal,) = [line for line in printed.splitlines() if f"process {daemon.pid}" in line]
    for part in (str(daemon.socket), str(daemon.state), "XDG_STATE_HOME"):
        assert part in refusal
    with daemon.connect() as wire:
        assert wire.call("ping") == {"pong": True}


def test_a_client_with_another_runtime_folder_finds_the_daemon(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon().start()
    elsewhere = str(daemon.base / "elsewhere")
    for words in (("status",), ("tools",), ("attach", "none")):
        done = haft(daemon, *words, XDG_RUNTIME_DIR=elsewhere)
        assert "is not running" not in done.stderr, words
    assert json.loads(haft(daemon, "--json", "status", XDG_RUNTIME_DIR=elsewhere).stdout)[
        "pid"
    ] == (daemon.pid)
    daemon.stop()
    gone = haft(daemon, "status", XDG_RUNTIME_DIR=elsewhere)
    assert gone.returncode == 3 and elsewhere in gone.stderr


def test_a_client_with_a_chosen_socket_is_pointed_to_the_daemon(
    make_daemon: MakeDaemon,
) -> None:
    daemon = make_daemon().start()
    chosen = str(daemon.base / "chosen.sock")
    for done in (
        haft(daemon, "--socket", chosen, "tools"),
        haft(daemon, "tools", HAFT_SOCKET=chosen),
    ):
        assert done.returncode == 3
        assert f"at {daemon.socket}, so none was started at {chosen}" in done.stderr
    assert not Path(chosen).exists()


ANOTHER_MACHINE = 'mount --bind "$1" /etc/machine-id && shift && exec "$@"'


@needs_namespaces
def test_machines_that_share_a_home_have_a_daemon_each(
    make_daemon: MakeDaemon, tmp_path: Path
) -> None:
    """Neither removes the other's files in the state folder."""
    first = make_daemon().start()
    with first.connect() as wire:
        printed = "x" * 50_000
        cut = run(wire, "echo", printed, max_bytes=1000)["truncated"]["path"]
        run(wire, "sh", "-c", "exec cat", "y" * 70_000, id="long", wait="none")
        calls = list((first.state / "haft" / "calls").iterdir())
        second = make_daemon()
        second.runtime, second.state = first.runtime, first.state
        (tmp_path / "id").write_text("0123456789abcdef0123456789abcdef\n")
        second.process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", ANOTHER_MACHINE, "sh", str(tmp_path / "id"), *HAFTD],
            env={**second.env, "XDG_RUNTIME_DIR": str(second.base / "run")},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        second.socket = second.base / "run" / "haft" / "haftd.sock"
        second.wait_until_up()
        assert Path(cut).read_text() == printed + "\n"
        assert calls and list((first.state / "haft" / "calls").iterdir()) == calls
        with second.connect() as other:
            assert other.call("daemon/status")["pid"] != first.pid


@pytest.mark.parametrize("end", ["abort", "stop", "crash"])
def test_a_daemon_in_a_handle_ends_with_the_handle_and_all_its_processes(
    make_daemon: MakeDaemon, end: str
) -> None:
    """Also those that left their session, parent and environment."""
    daemon = make_daemon().start()
    inner = make_daemon()
    hidden = "(env -i setsid sleep 3000 &); (setsid sleep 3001 &); exec sleep 3002"
    with Ground() as ground, daemon.connect() as wire:
        env = [f"{name}={value}" for name, value in inner.env.items() if name.startswith("XDG")]
        run(wire, *ground.within(["env", *env, *HAFTD, "--socket", str(inner.socket)]), wait="none")
        until(inner.is_up, "the inner daemon serves")
        with inner.connect() as nested:
            run(nested, "sh", "-c", ground.tagged(hidden), wait="none")
            pid = nested.call("daemon/status")["pid"]
            until(
                lambda: sum("sleep 300" in survivor for survivor in ground.survivors()) == 3,
                "all of it runs",
            )
            if end == "crash":
                daemon.kill9()
            else:
                os.kill(pid, 9)
                if end == "abort":
                    wire.call("abort", id="t", grace_ms=0)
                else:
                    daemon.stop()
            until(lambda: ground.survivors() == [], "nothing of it is left")
