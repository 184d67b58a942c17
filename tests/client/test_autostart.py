"""Starting a daemon where none answers, with a fake one as the program."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from haft import Haft, NotRunning, StartFailed, autostart
from tests.client.fake import FakeDaemon, hello

FAKE = Path(__file__).with_name("fake.py")


@pytest.fixture
def place(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for socket and state; every daemon that was started there is ended."""
    monkeypatch.setenv("XDG_STATE_HOME", str(short_tmp / "state"))
    monkeypatch.setenv("A_SECRET", "canary-7c1f")
    monkeypatch.setattr(
        autostart, "daemon_command", lambda path: [sys.executable, str(FAKE), "--socket", path]
    )
    yield short_tmp
    for pid in begun(short_tmp):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def begun(place: Path) -> list[int]:
    file = place / "begun"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def test_a_started_daemon_is_detached_from_its_starter(place: Path) -> None:
    folder = os.getcwd()
    with open(place / "inherited", "w") as file:
        os.set_inheritable(file.fileno(), True)
        with Haft.connect(str(place / "s"), autostart=True, timeout=20) as client:
            assert client.ping().pong
    assert os.getcwd() == folder
    (pid,) = begun(place)
    facts = json.loads((place / "facts").read_text())
    assert facts["cwd"] == "/"
    assert facts["sid"] not in (os.getsid(0), pid)
    assert facts["fds"][0] == "/dev/null"
    assert facts["fds"][1] == facts["fds"][2] == str(place / "state" / "haft" / "haftd.log")
    # The folder's own listing holds a descriptor.
    assert len(facts["more"]) == 1
    assert "A_SECRET" not in facts["env"]
    assert facts["env"]["PATH"] == os.environ["PATH"]
    parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
    assert int(parent) != os.getpid()


def test_the_log_is_private_and_has_no_secret(place: Path) -> None:
    with Haft.connect(str(place / "s"), autostart=True, timeout=20) as client:
        client.ping()
    log = place / "state" / "haft" / "haftd.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    assert "starting" in log.read_text()
    assert "canary" not in log.read_text()


def test_many_clients_at_once_start_one_daemon_and_are_answered(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = autostart.daemon_command
    starts: list[str] = []

    def counted(path: str) -> list[str]:
        starts.append(path)
        return command(path)

    monkeypatch.setattr(autostart, "daemon_command", counted)

    def one(_: int) -> bool:
        with Haft.connect(str(place / "s"), autostart=True, timeout=20) as client:
            return client.ping().pong

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(one, range(24)))
    assert len(starts) == len(begun(place)) == 1


def test_a_client_that_loses_the_race_connects_to_the_winner(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of our log does not bind daemons that others start: ours then exits 75."""
    daemons: list[FakeDaemon] = []

    def after_the_loss(seconds: float) -> None:
        # Only between two attempts after the started daemon has ended.
        if not daemons:
            daemons.append(FakeDaemon(place / "s", lambda request, peer: hello(request)))

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=after_the_loss)
    monkeypatch.setattr(autostart, "time", clock)
    with open(place / "daemon.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with Haft.connect(str(place / "s"), autostart=True, timeout=20) as client:
            assert client.server.pid == os.getpid()
    assert len(begun(place)) == 1
    daemons[0].close()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ('{"event": "the configuration\\nis wrong", "level": "error"}', "configuration is wrong"),
        ('{"event": "no start", "reason": "no room"}', "no start: no room"),
        ("Traceback\nImportError: no haftd", "its last message: ImportError: no haftd"),
    ],
)
def test_a_daemon_that_fails_at_start_is_reported_at_once_with_its_stderr(
    place: Path, monkeypatch: pytest.MonkeyPatch, words: str, shown: str
) -> None:
    monkeypatch.setattr(
        autostart,
        "daemon_command",
        lambda path: ["/bin/sh", "-c", 'printf %s "$0" >&2; exit 78', words],
    )
    began = time.monotonic()
    with pytest.raises(StartFailed, match=f"exit 78.*{shown}"):
        Haft.connect(str(place / "s"), autostart=True, timeout=20)
    assert time.monotonic() - began < 10


def test_the_wait_for_a_silent_daemon_is_bounded(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        autostart,
        "daemon_command",
        lambda path: ["/bin/sh", "-c", f"echo $$ >> {place}/begun; exec sleep 60"],
    )
    with pytest.raises(StartFailed, match=r"haftd\.log"):
        Haft.connect(str(place / "s"), autostart=True, timeout=0.3)


def test_a_connection_attempt_takes_no_longer_than_the_start_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bounds: list[float] = []

    def refuse(chosen: str | None, seconds: float) -> None:
        bounds.append(seconds)
        raise NotRunning("no daemon")

    monkeypatch.setattr(autostart, "open_daemon", refuse)
    monkeypatch.setattr(autostart, "time", SimpleNamespace(monotonic=lambda: 100.0))
    assert autostart._try(None, 105.0) is None and autostart._try(None, 90.0) is None
    assert bounds == [5.0, autostart._STEP_S]


def test_an_unwritable_state_folder_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "file"))
    with pytest.raises(NotRunning, match=r"haftd\.log cannot be written"):
        Haft.connect(str(place / "s"), autostart=True)


def test_the_command_is_that_of_this_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    assert autostart.daemon_command("/s") == [
        sys.executable,
        "-P",
        "-m",
        "haftd",
        "--socket",
        "/s",
    ]
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StartFailed, match="PATH"):
        autostart.daemon_command("/s")
