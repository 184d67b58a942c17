"""One daemon per folder: the lock is held exactly while its daemon lives, stopped or not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from haftd.host.files.lockfile import DaemonLock, LockHeld, holds_daemon_lock
from tests.patience import PATIENCE_S

HOLDER = """
import sys, time
from pathlib import Path
from haftd.host.files.lockfile import DaemonLock
lock = DaemonLock.acquire(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def _holder(path: Path) -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", HOLDER, path], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"held\n"
    return child


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    assert child.stdout is not None
    child.stdout.close()


def test_a_second_daemon_learns_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    child = _holder(path)
    try:
        with pytest.raises(LockHeld, match=str(child.pid)) as caught:
            DaemonLock.acquire(path)
        assert caught.value.pid == child.pid
    finally:
        _end(child)


def test_P20_a_stopped_holder_is_alive(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    child = _holder(path)
    try:
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        with pytest.raises(LockHeld):
            DaemonLock.acquire(path)
    finally:
        _end(child)


def test_after_a_kill_the_lock_is_free_and_the_file_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    child = _holder(path)
    before = path.stat().st_ino
    _end(child)
    lock = DaemonLock.acquire(path)
    assert path.stat().st_ino == before
    assert json.loads(path.read_bytes())["pid"] == os.getpid()
    assert path.stat().st_mode & 0o777 == 0o600
    lock.close()
    DaemonLock.acquire(path).close()


def test_P19_no_child_gets_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    lock = DaemonLock.acquire(path)
    listing = ["sh", "-c", "ls -l /proc/self/fd"]
    child = os.posix_spawn(
        "/bin/sh",
        listing,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, tmp_path / "out", os.O_WRONLY | os.O_CREAT, 0o600)],
    )
    os.waitpid(child, 0)
    assert "daemon.lock" not in (tmp_path / "out").read_text()
    lock.close()


@pytest.mark.parametrize("reaped", [True, False])
def test_a_dead_daemons_lock_in_a_child_before_exec_is_waited_for(
    tmp_path: Path, reaped: bool
) -> None:
    """Between fork and exec a child holds the lock, and its parent may be dead by then."""
    path = tmp_path / "daemon.lock"
    code = HOLDER.replace(
        "time.sleep(60)", "import os\nif os.fork(): os._exit(0)\ntime.sleep(0.15)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"held\n"
    if reaped:
        child.wait()
    else:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    DaemonLock.acquire(path, patience_s=PATIENCE_S).close()
    child.wait()
    child.stdout.close()


def test_the_wait_for_a_child_before_exec_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    lock = DaemonLock.acquire(path)
    dead = {"pid": 4_000_000, "ticks": 1, "inode": 1, "boot": "b", "ns": 1}
    path.write_text(json.dumps(dead))
    with pytest.raises(LockHeld) as caught:
        DaemonLock.acquire(path, patience_s=0.02)
    assert caught.value.pid == 4_000_000
    lock.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\0" * 300, b'{"pid":"x"}', b"\xff"])
def test_a_holder_counts_as_alive_whatever_the_file_contains(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "daemon.lock"
    lock = DaemonLock.acquire(path)
    path.write_bytes(content)
    begun = time.monotonic()
    with pytest.raises(LockHeld):
        DaemonLock.acquire(path, patience_s=60)
    assert time.monotonic() - begun < 30
    lock.close()


def test_a_lock_on_a_replaced_file_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    lock = DaemonLock.acquire(path)
    assert lock.is_in_place()
    path.unlink()
    assert not lock.is_in_place()
    other = DaemonLock.acquire(path)
    assert other.is_in_place() and not lock.is_in_place()
    assert holds_daemon_lock(os.getpid())
    other.close()
    lock.close()
    assert not holds_daemon_lock(os.getpid())


def test_a_descriptor_closed_meanwhile_hides_no_daemon_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: ["999999", *listdir(folder)])
    lock = DaemonLock.acquire(tmp_path / "daemon.lock")
    assert holds_daemon_lock(os.getpid())
    lock.close()


def test_a_second_daemon_learns_the_socket_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    lock = DaemonLock.acquire(path)
    for socket in ("/run/user/1000/haft/haftd.sock", "/s" * 53, "/é\udcff" * 20, None):
        lock.announce(socket)
        with pytest.raises(LockHeld) as caught:
            DaemonLock.acquire(path)
        assert (caught.value.pid, caught.value.socket) == (os.getpid(), socket)
    lock.close()


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "daemon.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        DaemonLock.acquire(tmp_path / "daemon.lock")
    assert not (tmp_path / "elsewhere").exists()


def test_every_failure_leaves_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    lock = DaemonLock.acquire(path)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LockHeld):
        DaemonLock.acquire(path)
    assert len(os.listdir("/proc/self/fd")) == before
    lock.close()
