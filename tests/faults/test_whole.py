"""The same promises, held by a whole `haftd` that is driven over the wire."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import Ground, Subject, needs_namespaces, until
from tests.wire import Refused, Wire

HIDDEN = "setsid sleep 301 & (env -i setsid sleep 302 &) ; exec sleep 300"


@pytest.fixture
def ground() -> Iterator[Ground]:
    with Ground() as ground:
        yield ground


def up(subject: Subject, ground: Ground | None = None) -> Subject:
    """Start the daemon; return once a call is answered."""
    subject.start(ground)

    def answers() -> bool:
        assert subject.process is not None and subject.process.poll() is None, subject.log_text()
        # A child of the previous daemon, on its way to exec, may hold its socket for a moment.
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.settimeout(5)
            probe.connect(str(subject.socket))
            probe.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            return b"result" in probe.recv(4096)
        return False

    until(answers, "haftd answers")
    return subject


def spawn(wire: Wire, ground: Ground, name: str, script: str = HIDDEN) -> None:
    args = {"argv": ["sh", "-c", ground.tagged(script)]}
    wire.call("spawn", tool="run", id=name, args=args, wait="none", view="tail")


def others(subject: Subject, ground: Ground) -> list[str]:
    """Return processes beside the daemon and its guardian."""
    assert subject.process is not None
    return [
        survivor
        for survivor in ground.survivors()
        if survivor.split()[0] != str(subject.process.pid) and "guardian" not in survivor
    ]


@pytest.mark.parametrize(
    "cycles", [3, pytest.param(200, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_P02_L03_killed_while_clients_spawn(short_tmp: Path, cycles: int) -> None:
    dice = random.Random(11)
    subject = Subject.haftd(short_tmp)
    last: Ground | None = None
    with contextlib.ExitStack() as stack:
        stack.callback(subject.close)
        for cycle in range(cycles):
            ground = stack.enter_context(Ground())
            up(subject, ground)
            if last is not None:
                until(lambda last=last: not last.survivors(), f"cycle {cycle}: nothing is left", 3)  # type: ignore[misc]
            with contextlib.closing(Wire(subject.socket)) as wire:
                deadline = time.monotonic() + dice.random() * 0.15
                n = 0
                while time.monotonic() < deadline:
                    n += 1
                    spawn(wire, ground, f"h{n}", "exit 3" if n % 3 == 0 else HIDDEN)
                wire.send(
                    {
                        "jsonrpc": "2.0",
                        "id": "x",
                        "method": "spawn",
                        "params": {
                            "tool": "run",
                            "id": "last",
                            "args": {"argv": ["sh", "-c", ground.tagged(HIDDEN)]},
                        },
                    }
                )
                subject.kill9()
            last = ground
        up(subject)
        assert last is not None
        until(lambda: not last.survivors(), "nothing is left", 3)
        assert subject.process is not None
        subject.process.send_signal(signal.SIGTERM)
        assert subject.wait() == 0


def test_lost_handles_are_still_listed(short_tmp: Path, ground: Ground) -> None:
    with Subject.haftd(short_tmp) as subject:
        up(subject, ground)
        with contextlib.closing(Wire(subject.socket)) as wire:
            spawn(wire, ground, "mine")
        subject.kill9()
        up(subject)
        with contextlib.closing(Wire(subject.socket)) as wire:
            try:
                state = wire.call("fetch", id="mine")
            except Refused as refused:
                pytest.fail(f"a handle that the daemon lost is not known any more: {refused}")
            assert state["ended_by"]["by"] == "lost"


def test_P20_a_second_daemon_exits_and_touches_nothing(short_tmp: Path, ground: Ground) -> None:
    with Subject.haftd(short_tmp) as first, Subject.haftd(short_tmp) as second:
        up(first, ground)
        with contextlib.closing(Wire(first.socket)) as wire:
            spawn(wire, ground, "h")
        until(
            lambda: sum(one.split()[1:2] == ["sleep"] for one in others(first, ground)) == 3,
            "all run",
        )
        before = others(first, ground)
        assert first.process is not None
        first.process.send_signal(signal.SIGSTOP)
        second.start()
        assert second.wait() == 75
        assert others(first, ground) == before
        first.process.send_signal(signal.SIGCONT)
        with contextlib.closing(Wire(first.socket)) as wire:
            assert wire.call("fetch", id="h")["state"] == "running"


def test_L01_a_lost_runtime_folder_ends_handles_and_daemon(short_tmp: Path, ground: Ground) -> None:
    """As after a logout, where a new folder cannot be made either."""
    with Subject.haftd(short_tmp) as subject:
        up(subject, ground)
        with contextlib.closing(Wire(subject.socket)) as wire:
            spawn(wire, ground, "h")
        shutil.rmtree(subject.runtime)
        subject.runtime.touch()
        assert subject.wait(60) == 0
        until(lambda: not ground.survivors(), "nothing is left", 2)


def test_P17_a_folder_writable_by_others_is_refused_with_a_sentence(short_tmp: Path) -> None:
    with Subject.haftd(short_tmp) as subject:
        subject.home.mkdir()
        subject.home.chmod(0o777)
        subject.start()
        assert subject.wait() not in (0, 75)
        assert "can be written to by others" in subject.log_text()
        assert "Traceback" not in subject.log_text()


@pytest.mark.parametrize("content", [b"", b"\0" * 9000, os.urandom(5000), b'{"v": 99}\n'])
def test_P15_a_corrupt_handle_file_prevents_no_start(short_tmp: Path, content: bytes) -> None:
    with Subject.haftd(short_tmp) as subject:
        subject.home.mkdir(mode=0o700)
        (subject.home / "handles.lock").write_bytes(content)
        up(subject)
        assert (subject.home / "handles.lock.bad-1").read_bytes() == content


def test_P15_handles_lost_by_the_file_are_swept(short_tmp: Path, ground: Ground) -> None:
    with Subject.haftd(short_tmp) as subject:
        up(subject, ground)
        with contextlib.closing(Wire(subject.socket)) as wire:
            spawn(wire, ground, "h")
        for guardian in [survivor for survivor in ground.survivors() if "guardian" in survivor]:
            os.kill(int(guardian.split()[0]), signal.SIGKILL)  # P37
        subject.kill9()
        (subject.home / "handles.lock").write_bytes(b"")
        up(subject)
        until(lambda: not ground.survivors(), "nothing is left", 3)


def test_P11_the_recovery_log_names_no_secrets(short_tmp: Path, ground: Ground) -> None:
    """The record holds the program's name, never its arguments or environment."""
    with Subject.haftd(short_tmp) as subject:
        up(subject, ground)
        with contextlib.closing(Wire(subject.socket)) as wire:
            spawn(wire, ground, "h", "exec sleep 300 # hunter2")
        assert b"hunter2" not in (subject.home / "handles.lock").read_bytes()
        lines = (subject.home / "handles.lock").read_bytes().splitlines()
        assert json.loads(lines[-1].split(b" ", 1)[1])["command"]


@needs_namespaces
@pytest.mark.parametrize("kind", ["proc -o subset=pid", "tmpfs"])
def test_P10_without_all_of_proc_the_daemon_does_not_start(short_tmp: Path, kind: str) -> None:
    """Otherwise the daemon would serve without being able to start anything."""
    with Subject.haftd(short_tmp) as subject:
        mounted = ["sh", "-c", f'mount -t {kind} none /proc && exec "$@"', "sh"]
        subject.start(before=["unshare", "-m", *mounted])
        assert subject.wait() == 78
        log = subject.log_text()
        assert "without all of /proc" in log and "Traceback" not in log
