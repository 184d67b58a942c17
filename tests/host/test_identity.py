"""A pid is not an identity: only the same process verifies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from haftd.host.process import identity
from haftd.host.process.identity import Identity, has_ended, identify_child, open_verified
from tests.faults.harness import Crowd, needs_namespaces


def test_the_same_process_verifies_and_is_signalled_through_its_pidfd() -> None:
    with Crowd() as crowd:
        child = crowd.start(["sleep", "60"])
        pidfd = open_verified(crowd.identity(child))
        assert pidfd is not None and not has_ended(pidfd)
        assert identity.send_signal(pidfd, signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM
        assert has_ended(pidfd)
        assert not identity.send_signal(pidfd, signal.SIGTERM)
        os.close(pidfd)


@pytest.mark.parametrize(
    "forged",
    [
        {"ticks": 1},
        {"inode": 1},
        {"boot": "another"},
        {"ns": 1},
        {"pid": 1},
        {"pid": 0},
        {"pid": 1 << 40},
        {"pid": (1 << 64) - 1},
    ],
)
def test_a_record_with_one_wrong_fact_verifies_nothing(forged: dict[str, object]) -> None:
    with Crowd() as crowd:
        who = crowd.identity(crowd.start(["sleep", "60"]))
        assert open_verified(who._replace(**forged)) is None  # type: ignore[arg-type]


def test_without_inodes_the_ticks_decide() -> None:
    """Before Linux 6.9 every pidfd has the same inode; such a record holds 0."""
    with Crowd() as crowd:
        who = crowd.identity(crowd.start(["sleep", "60"]))._replace(inode=0)
        pidfd = open_verified(who)
        assert pidfd is not None
        os.close(pidfd)
        assert open_verified(who._replace(ticks=who.ticks + 1)) is None


def test_an_ended_process_keeps_its_identity_until_reaped() -> None:
    with Crowd() as crowd:
        child = crowd.start(["true"])
        who = crowd.identity(child)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        pidfd = open_verified(who)
        assert pidfd is not None and has_ended(pidfd)
        os.close(pidfd)
        child.wait()
        assert open_verified(who) is None


def test_a_thread_is_no_process() -> None:
    code = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); print(1, flush=True)"
    with Crowd() as crowd:
        child = crowd.start([sys.executable, "-S", "-c", code], ready=True)
        threads = {int(name) for name in os.listdir(f"/proc/{child.pid}/task")} - {child.pid}
        who = crowd.identity(child)
        for thread in threads:
            assert open_verified(who._replace(pid=thread, inode=0)) is None


def test_verification_leaves_no_descriptor() -> None:
    with Crowd() as crowd:
        who = crowd.identity(crowd.start(["sleep", "60"]))
        before = len(os.listdir("/proc/self/fd"))
        for wrong in (who._replace(ticks=1), who._replace(inode=1), who._replace(pid=1 << 30)):
            assert open_verified(wrong) is None
        assert len(os.listdir("/proc/self/fd")) == before


def test_without_descriptors_to_look_a_process_is_not_reported_gone() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Crowd() as crowd:
        who = crowd.identity(crowd.start(["sleep", "60"]))
        identity.read_pidfd_inode(0)  # its single read of the kernel is remembered
        taken = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                while True:
                    taken.append(os.open("/dev/null", os.O_RDONLY))
            with pytest.raises(OSError, match="Too many open files"):
                open_verified(who)
            with pytest.raises(OSError, match="Too many open files"):
                identity.read_stat(who.pid)
        finally:
            for fd in taken:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_name_full_of_parentheses_does_not_move_the_fields(short_tmp: os.PathLike[str]) -> None:
    program = os.path.join(short_tmp, "a) S 1 (b")
    os.symlink("/bin/sleep", program)
    with Crowd() as crowd:
        child = crowd.start([program, "60"])
        os.stat(f"/proc/{child.pid}")
        stat = identity.read_stat(child.pid)
        assert stat is not None
        assert (stat.parent, stat.group, stat.session) == (os.getpid(), child.pid, child.pid)


def test_ancestors_reach_from_this_process_to_the_first() -> None:
    found = identity.ancestors()
    assert {os.getpid(), os.getppid()} <= found
    assert identity.own_proc()


def test_another_users_environment_is_not_ours(tmp_path: os.PathLike[str]) -> None:
    if os.getuid() != 0:
        assert identity.read_environ(1) is None
        return
    with Crowd() as crowd:
        child = crowd.start(
            ["setpriv", "--reuid=65534", "sh", "-c", "echo; exec sleep 60"], "x", ready=True
        )
        assert identity.read_environ(child.pid) is None


_REUSE = """
import os, sys, time
from haftd.host.process.identity import identify_child, open_verified
rounds, gap = int(sys.argv[1]), float(sys.argv[2])

def start():
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sleep", ["sleep", "60"])
    return pid

def of(pid):
    fd = os.pidfd_open(pid)
    try:
        return identify_child(pid, fd)
    finally:
        os.close(fd)

reused = same_ticks = 0
for _ in range(rounds):
    pid = start(); who = of(pid)
    os.kill(pid, 9); os.waitpid(pid, 0)
    time.sleep(gap)
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(pid - 1))
    other = start()
    if other == pid:
        reused += 1
        same_ticks += of(other).ticks == who.ticks
        assert open_verified(who) is None, "a stranger was taken for the process of the record"
    os.kill(other, 9); os.waitpid(other, 0)
print(reused, same_ticks)
"""


def _reuse(rounds: int, gap_s: float) -> tuple[int, int]:
    enclosed = ["unshare", "-pf", "--kill-child", "--mount-proc", sys.executable, "-c", _REUSE]
    done = subprocess.run(
        [*enclosed, str(rounds), str(gap_s)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    reused, same = done.stdout.split()
    return int(reused), int(same)


@needs_namespaces
@pytest.mark.parametrize(
    "rounds", [150, pytest.param(10_000, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_P08_a_number_reused_within_the_same_tick_is_another_process(rounds: int) -> None:
    begun = time.monotonic()
    reused, same_ticks = _reuse(rounds, 0.0)
    assert reused > rounds * 0.9
    # The fault is real: pid and ticks alone would have taken the stranger.
    assert same_ticks > 0 or time.monotonic() - begun > rounds * 0.02


@needs_namespaces
@pytest.mark.parametrize(
    "rounds", [40, pytest.param(10_000, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_P07_a_reused_number_is_another_process(rounds: int) -> None:
    reused, _same = _reuse(rounds, 0.011)
    assert reused > rounds * 0.9


def test_equal_identities_are_the_same_process() -> None:
    with Crowd() as crowd:
        child = crowd.start(["sleep", "60"])
        assert crowd.identity(child) == crowd.identity(child)
        assert isinstance(crowd.identity(child), Identity)
        pidfd = os.pidfd_open(child.pid)
        assert identify_child(child.pid, pidfd) == crowd.identity(child)
        os.close(pidfd)
