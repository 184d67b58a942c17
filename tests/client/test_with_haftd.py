"""The clients against the real daemon, which some of them start themselves."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from haft import Haft, RemoteError, aio
from haft.__main__ import main
from haft_protocol.states import Stopped
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon

Capture = pytest.CaptureFixture[str]
HAFT = [sys.executable, "-m", "haft"]


@pytest.fixture
def place(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folders of the test's own; a daemon started there is stopped."""
    for name in list(os.environ):
        if name.startswith(("HAFT_", "XDG_")):
            monkeypatch.delenv(name)
    for name, folder in (
        ("RUNTIME_DIR", "run"),
        ("STATE_HOME", "state"),
        ("CONFIG_HOME", "config"),
    ):
        (short_tmp / folder).mkdir(mode=0o700)
        monkeypatch.setenv(f"XDG_{name}", str(short_tmp / folder))
    yield short_tmp
    assert main(["stop"]) in (0, 3)


@pytest.fixture
def served(daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch) -> RunningDaemon:
    """A daemon that runs, and is the one of this process's clients."""
    for name in list(os.environ):
        if name.startswith(("HAFT_", "XDG_")):
            monkeypatch.delenv(name)
    for name, value in daemon.env.items():
        monkeypatch.setenv(name, value)
    return daemon


def test_many_commands_at_once_start_one_daemon_and_are_answered(place: Path) -> None:
    many = [subprocess.Popen([*HAFT, "tools", "--json"], stdout=subprocess.PIPE) for _ in range(6)]
    assert [target.wait(60) for target in many] == [0] * 6
    for target in many:
        assert target.stdout is not None
        target.stdout.close()
    log = (place / "state" / "haft" / "haftd.log").read_text()
    assert log.count('"serving"') == 1, log


def test_a_long_session_with_the_command_line(
    place: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("CLIENTS_OWN", "here")

    def haft(line: str, *more: str) -> tuple[int, str, str]:
        status = main([*line.split(), *more])
        out, err = capfdbinary.readouterr()
        return status, out.decode(), err.decode()

    spawn = "spawn run --wait stopped --timeout-ms 20000 --id"
    assert haft(f"{spawn} a -- sh -c", 'echo "$CLIENTS_OWN"; pwd')[:2] == (0, f"here\n{place}\n")
    status, out, err = haft(f"{spawn} b -- sh -c", "echo no; exit 3")
    assert (status, out) == (1, "no\n")
    assert err.startswith("b: stopped, exit 3, ")
    assert haft("spawn run --wait none --id c -- cat")[0] == 0
    status, out, _ = haft("apply c --wait pattern --pattern you --line", "to you")
    assert (status, out) == (0, "to you\n")
    status, out, _ = haft("ps")
    assert status == 0 and [row.split()[0] for row in out.splitlines()] == ["ID", "c", "b", "a"]
    assert haft("stop --if-idle") == (
        4,
        "",
        "haft stop: 1 handle still runs; `haft ps -a` shows it\n",
    )
    assert haft(f"{spawn} piped --stdin-from b -- tr a-z A-Z")[:2] == (0, "NO\n")
    with Haft.connect() as client:
        state = client.spawn("run", "again", {"command": "cat"}, stdin_from="piped", wait="stopped")
        assert isinstance(state, Stopped)
        assert state.result == "NO\n"
    assert haft("apply c --eof --wait stopped")[0] == 0
    assert haft("await a c")[0] == 0
    assert haft("logs c")[1] == "to you\n"
    assert haft("search ^no")[:2] == (0, "b:0: no\n")
    status, out, err = haft("abort c")
    assert (status, out) == (0, "") and err.endswith(", had ended already\n")
    assert haft("doctor")[0] == 0
    assert haft("version")[1].count("0.1.0") == 2
    assert haft("stop")[0] == 0
    assert haft("status")[0] == 3


@pytest.mark.usefixtures("served")
def test_a_follower_loses_no_byte_of_a_long_output() -> None:
    program = "for i in range(100_000): print(i, 'größe', 'x' * 48)"
    expected = "".join(f"{i} größe {'x' * 48}\n" for i in range(100_000)).encode()
    with Haft.connect(timeout=30) as client:
        client.spawn("run", "long", {"argv": [sys.executable, "-c", program]}, wait="none")
        followed = subprocess.run([*HAFT, "logs", "long", "-f"], capture_output=True, timeout=60)
        again = subprocess.run([*HAFT, "logs", "long"], capture_output=True, timeout=60)
        for one in (followed, again):
            assert one.returncode == 0
            assert len(one.stdout) == len(expected)
            assert hashlib.sha256(one.stdout).digest() == hashlib.sha256(expected).digest()
        # Nothing was marked as read: the session's first fetch has all of it.
        state = client.fetch("long", max_bytes=10 << 20)
        assert isinstance(state, Stopped) and state.result == expected.decode()


async def test_both_clients_see_the_same_daemon(place: Path) -> None:
    async with aio.connect(autostart=True, timeout=30, session="s") as one:
        await one.spawn("run", "x", {"argv": ["sleep", "60"]}, wait="none")
        with Haft.connect(session="s") as other:
            assert other.server == await one.server()
            (info,) = other.handles()
            assert info.state.id == "x" and info.command == "sleep 60"
            with pytest.raises(RemoteError) as refused:
                other.spawn("run", "x", {"argv": ["true"]})
            assert refused.value.kind == "handle_exists"
            assert isinstance(other.abort("x", grace_ms=100), Stopped)
        result = await one.await_(all=["x"])
        assert result.completed[0].id == "x"


@pytest.mark.usefixtures("served")
def test_a_programs_bytes_are_unchanged() -> None:
    assert (
        main(
            ["spawn", "run", "--id", "one", "--wait", "stopped", "--", "printf", r"\033[1mbold\377"]
        )
        == 0
    )
    raw = subprocess.run([*HAFT, "fetch", "one", "--view", "raw"], capture_output=True, check=True)
    assert raw.stdout == b"\x1b[1mbold\xff"
    text = run_haft(["fetch", "one"], env=os.environ)
    assert (text.returncode, text.stdout) == (0, "bold\ufffd")
