"""The guardian sweeps at the daemon's death, and at nothing else."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from haftd.host.process.own_tag import make_instance
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.guardian import Guardian
from tests.faults.harness import Crowd, until
from tests.processes import is_running

HOME = secrets.token_hex(6)  # tests that run concurrently have another tag

DAEMON = """
import sys, time
from pathlib import Path
from haftd.host.recovery.guardian import Guardian
folder = Path(sys.argv[1])
guardian = Guardian.start(home=sys.argv[2], instance=sys.argv[3], journal=folder / "handles.lock", lock=folder / "recover.lock")
print(guardian.pid, flush=True)
sys.stdin.read(1)
guardian.stop()
print("dismissed", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def instance() -> str:
    return make_instance()


@pytest.fixture
def daemon_(tmp_path: Path, instance: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that has a guardian and does nothing else."""
    child = subprocess.Popen(
        [sys.executable, "-c", DAEMON, tmp_path, HOME, instance],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "HAFT_HANDLE": f"{HOME}.{instance}.0"},
    )
    yield child
    if child.poll() is None:
        child.kill()
    child.communicate()


def guardian_pid(daemon_: subprocess.Popen[bytes]) -> int:
    assert daemon_.stdout is not None
    return int(daemon_.stdout.readline())


def watching(pid: int) -> bool:
    """Return true once the guardian waits in its single read."""
    try:
        return (
            b"main" in Path(f"/proc/{pid}/cmdline").read_bytes()
            and (os.readlink(f"/proc/{pid}/cwd") == "/")
            and Path(f"/proc/{pid}/wchan").read_text() in ("pipe_read", "anon_pipe_read")
        )
    except OSError:
        return False


def test_after_a_kill_the_guardian_sweeps_at_once_and_exits(
    daemon_: subprocess.Popen[bytes], instance: str
) -> None:
    with Crowd() as crowd:
        guardian = guardian_pid(daemon_)
        until(lambda: watching(guardian), "the guardian watches")
        child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
        other = crowd.start(["sleep", "60"], ProcessTag(HOME, make_instance(), 1))
        daemon_.kill()
        assert child.wait(20) == -9
        until(lambda: not is_running(guardian), "the guardian has gone")
        assert other.poll() is None


def test_a_daemon_that_dies_while_its_guardian_starts_is_swept(
    daemon_: subprocess.Popen[bytes], instance: str
) -> None:
    with Crowd() as crowd:
        child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
        guardian_pid(daemon_)
        daemon_.kill()
        assert child.wait(10) == -9


def test_a_clean_stop_dismisses_the_guardian_without_a_sweep(
    daemon_: subprocess.Popen[bytes], instance: str
) -> None:
    with Crowd() as crowd:
        child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
        guardian = guardian_pid(daemon_)
        assert daemon_.stdin is not None and daemon_.stdout is not None
        daemon_.stdin.write(b"x")
        daemon_.stdin.flush()
        assert daemon_.stdout.readline() == b"dismissed\n"
        assert not is_running(guardian)
        assert child.poll() is None


def test_P20_a_stopped_daemon_is_alive(daemon_: subprocess.Popen[bytes], instance: str) -> None:
    with Crowd() as crowd:
        child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
        guardian = guardian_pid(daemon_)
        until(lambda: watching(guardian), "the guardian watches")
        daemon_.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, daemon_.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.2)
        assert watching(guardian)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_broadcast_signal_does_not_end_the_guardian(
    daemon_: subprocess.Popen[bytes], signum: int
) -> None:
    guardian = guardian_pid(daemon_)
    until(lambda: watching(guardian), "the guardian watches")
    os.kill(guardian, signum)
    assert watching(guardian)


def test_the_guardian_holds_only_its_pipe_and_carries_no_tag(
    daemon_: subprocess.Popen[bytes],
) -> None:
    guardian = guardian_pid(daemon_)
    until(lambda: watching(guardian), "the guardian watches")
    links = [
        os.readlink(f"/proc/{guardian}/fd/{name}") for name in os.listdir(f"/proc/{guardian}/fd")
    ]
    assert sorted(links)[:2] == ["/dev/null", "/dev/null"] and links[0].startswith("pipe:")
    assert len(links) == 3
    assert Path(f"/proc/{guardian}/environ").read_bytes() == b""
    assert os.getsid(guardian) == guardian


def test_the_guardian_imports_only_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); sys.path.insert(0, sys.argv[1]);"
        "import haftd.host.recovery.guardian;"
        "print(sorted({m.partition('.')[0] for m in set(sys.modules) - before}"
        " - set(sys.stdlib_module_names)))"
    )
    root = Path(sys.modules["haftd.host.recovery.guardian"].__file__ or "").parents[3]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, root], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['haftd']\n"


def test_the_guardian_can_be_dismissed_twice_and_after_its_death(
    tmp_path: Path, instance: str
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    journal, lock = tmp_path / "handles.lock", tmp_path / "recover.lock"
    guardian = Guardian.start(home=HOME, instance=instance, journal=journal, lock=lock)
    os.kill(guardian.pid, signal.SIGKILL)
    guardian.stop()
    guardian.stop()
    assert len(os.listdir("/proc/self/fd")) == before
