"""Recovery ends the processes of a dead daemon, as far as the kernel permits, and no others."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from haftd.host.cgroup import Cgroup
from haftd.host.files.lockfile import DaemonLock
from haftd.host.process import rlimit_tag
from haftd.host.process.identity import identify_child, read_environ
from haftd.host.process.machine import boot_id
from haftd.host.process.own_tag import make_instance
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery import kill_set, ownership
from haftd.host.recovery.record import Record
from haftd.host.recovery.recovery import Recovery, Report, recover
from tests.faults.harness import Crowd, Ground, cgroup_base, needs_cgroup, record_of, until

HOME = secrets.token_hex(6)
OTHER = secrets.token_hex(6)


@pytest.fixture
def instance() -> str:
    """Instance of the dead daemon, different in every test."""
    return make_instance()


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    with Crowd() as crowd:
        yield crowd


def gone(child: subprocess.Popen[bytes]) -> bool:
    return child.poll() is not None


def test_a_recorded_process_is_ended_with_its_group_and_its_descendants(
    crowd: Crowd, instance: str
) -> None:
    """P13 and P03: while the leader lives, its descendants are identifiable."""
    mark = ProcessTag(HOME, instance, 1)
    hidden = "env -i setsid sh -c 'sleep 61; :' & env -i sleep 62 & setsid sleep 63 & echo; wait"
    with Ground() as ground:
        leader = crowd.start(ground.within(["sh", "-c", hidden]), mark, ready=True)
        until(lambda: len(ground.survivors()) >= 5, "all of it runs")
        report = recover([record_of(crowd.identity(leader), mark)], home=HOME)
        assert [process.mark for process in report.ended] == [str(mark)]
        assert (report.lost, report.keep, report.unconfirmed, report.problems) == ((), (), (), ())
        assert ground.survivors() == []
        assert leader.wait() == -9


def test_P13_the_children_of_a_dead_leader_carry_the_tag(crowd: Crowd, instance: str) -> None:
    mark = ProcessTag(HOME, instance, 1)
    with Ground() as ground:
        leader = crowd.start(ground.within(["sh", "-c", "sleep 61 & setsid sleep 62 & :"]), mark)
        who = crowd.identity(leader)
        leader.wait()
        until(lambda: len(ground.survivors()) == 2, "both children run")
        report = recover([record_of(who, mark)], home=HOME)
        assert [process.mark for process in report.ended] == [str(mark)]
        assert ground.survivors() == []


def test_an_unrecorded_process_is_found_by_its_tag(crowd: Crowd, instance: str) -> None:
    child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 3))
    report = recover([], home=HOME)
    assert report.killed == 1
    assert child.wait() == -9


def test_a_process_that_slips_past_the_first_scan_is_killed_by_the_rest(
    crowd: Crowd, instance: str
) -> None:
    recovery = Recovery([], home=HOME)
    assert recovery.scan_first()
    child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 3))
    assert recovery.finish().killed == 1
    assert child.wait() == -9


def test_the_rest_spares_processes_that_the_living_daemon_starts_meanwhile(
    crowd: Crowd, instance: str
) -> None:
    recovery = Recovery([], home=HOME, live=instance)
    assert recovery.scan_first()
    child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 3))
    assert recovery.finish() == Report()
    assert _state(child) == "S"


def test_only_a_recovery_without_any_find_has_a_rest_for_later(
    crowd: Crowd, instance: str, tmp_path: Path
) -> None:
    gone = crowd.start(["true"])
    gone_record = record_of(crowd.identity(gone), ProcessTag(HOME, instance, 1))
    os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
    lost = Recovery([gone_record], home=HOME)
    assert not lost.scan_first()
    assert lost.finish().lost == (gone_record,)
    unlocked = Recovery([], home=HOME, lock=tmp_path / "absent" / "recover.lock")
    assert not unlocked.scan_first()
    unlocked.finish()
    child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 3))
    report = Recovery([], home=HOME)
    assert not report.scan_first()
    assert report.finish().killed == 1 and child.wait() == -9


def test_the_lock_is_held_until_the_rest_is_done(tmp_path: Path, instance: str) -> None:
    lock = tmp_path / "recover.lock"
    recovery = Recovery([], home=HOME, lock=lock)
    assert recovery.scan_first()
    with lock.open("rb") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        recovery.finish()
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_refused_lock_is_reported_with_its_reason(
    tmp_path: Path, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_fd: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("haftd.host.recovery.recovery.fcntl.flock", refuse)
    report = recover([], home=HOME, lock=tmp_path / "recover.lock")
    assert report.problems == ("recover.lock: No locks available",)


def test_a_report_may_be_asked_for_again(crowd: Crowd, instance: str) -> None:
    recovery = Recovery([], home=HOME, patience_s=0)
    child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 3))
    result = recovery.kill_set.add(crowd.identity(child), str(ProcessTag(HOME, instance, 3)))
    first = recovery.report()
    assert (result, first.unconfirmed, len(first.problems)) == ("new", (child.pid,), 1)
    assert recovery.report() == first
    recovery.close()


def test_P03_a_double_fork_in_a_session_of_its_own_is_found(crowd: Crowd, instance: str) -> None:
    with Ground() as ground:
        script = "(setsid sh -c 'sleep 61; :' &) & :"
        crowd.start(ground.within(["sh", "-c", script]), ProcessTag(HOME, instance, 1)).wait()
        until(lambda: len(ground.survivors()) == 2, "the grandchildren run")
        recover([], home=HOME)
        assert ground.survivors() == []


@needs_cgroup
def test_P04_with_an_empty_environment_a_process_is_ended_by_its_cgroup(
    crowd: Crowd, instance: str
) -> None:
    base = cgroup_base()
    assert base is not None
    with Ground() as ground:
        group = Cgroup.create(ground.cgroup.path, f"{HOME}.{instance}.1")
        join = ["sh", "-c", f'echo $$ > {group.path}/cgroup.procs; exec "$@"', "join"]
        script = "env -i setsid sh -c 'sleep 61; :' & env -i setsid sleep 62 &"
        crowd.start([*join, "sh", "-c", script], ProcessTag(HOME, instance, 1)).wait()
        until(lambda: len(ground.survivors()) == 3, "the hidden ones run")
        report = recover([], home=HOME, bases=[ground.cgroup.path])
        assert ground.survivors() == []
        until(lambda: not group.path.exists() or group.remove(), "those are reaped")
        assert report.unconfirmed == ()


@needs_cgroup
def test_P04_a_cgroup_known_only_by_a_record_is_emptied(crowd: Crowd, instance: str) -> None:
    """The setting has changed since."""
    mark = ProcessTag(HOME, instance, 1)
    with Ground() as ground:
        group = Cgroup.create(ground.cgroup.path, str(mark))
        join = ["sh", "-c", f'echo $$ > {group.path}/cgroup.procs; exec "$@"', "join"]
        leader = crowd.start([*join, "sh", "-c", "env -i setsid sleep 61 & :"], mark)
        who = crowd.identity(leader)
        leader.wait()
        until(lambda: len(ground.survivors()) == 1, "the hidden one runs")
        report = recover([record_of(who, mark, cgroup=str(group.path))], home=HOME)
        assert [process.mark for process in report.ended] == [str(mark)]
        assert ground.survivors() == []


def test_P04_without_a_cgroup_a_process_recorded_alive_is_ended(
    crowd: Crowd, instance: str
) -> None:
    mark = ProcessTag(HOME, instance, 1)
    with Ground() as ground:
        script = "env -i setsid sleep 61 & :"
        leader = crowd.start(ground.within(["sh", "-c", script]), mark)
        who = crowd.identity(leader)
        leader.wait()
        until(
            lambda: [survivor.split()[1:2] for survivor in ground.survivors()] == [["sleep"]],
            "it is hidden",
        )
        pid = int(ground.survivors()[0].split()[0])
        pidfd = os.pidfd_open(pid)
        kin = identify_child(pid, pidfd)
        os.close(pidfd)
        bare = record_of(who, mark)
        assert recover([bare], home=HOME).lost == (bare,)
        assert (
            len(ground.survivors()) == 1
        )  # documented: such a process cannot be told from a stranger
        record = record_of(who, mark, others=(kin,))
        assert recover([record], home=HOME).ended == (record,)
        assert ground.survivors() == []


def branded(
    crowd: Crowd, mark: ProcessTag, other: ProcessTag | None = None
) -> subprocess.Popen[bytes]:
    """A process without our tag that was started below a handle."""
    child = crowd.start(["sleep", "60"], other)
    bounds = rlimit_tag.limits_for(str(mark))
    if bounds is None:
        pytest.skip("the hard limit of real-time CPU time is not unlimited here")
    resource.prlimit(child.pid, rlimit_tag.RESOURCE, bounds)
    return child


def test_P04_a_process_without_its_tag_is_found_by_its_rlimit_tag(
    crowd: Crowd, instance: str
) -> None:
    child = branded(crowd, ProcessTag(HOME, instance, 7))
    recover([], home=HOME)
    assert child.wait() == -9


def test_P04_the_rlimit_tag_counts_for_its_record(crowd: Crowd, instance: str) -> None:
    mark = ProcessTag(HOME, instance, 7)
    leader = crowd.start(["true"], mark)
    record = record_of(crowd.identity(leader), mark)
    leader.wait()
    child = branded(crowd, mark)
    assert recover([record], home=HOME).ended == (record,)
    assert child.wait() == -9


def test_without_time_for_the_sweep_one_look_is_taken(crowd: Crowd, instance: str) -> None:
    """Else running processes would be reported gone, and their record dropped."""
    child, record = orphan(crowd, ProcessTag(HOME, instance, 7))
    report = recover([record], home=HOME, patience_s=0)
    assert child.wait() == -9
    assert report.lost == () and [process.mark for process in (*report.ended, *report.keep)] == [
        record.mark
    ]


def orphan(crowd: Crowd, mark: ProcessTag) -> tuple[subprocess.Popen[bytes], Record]:
    """A process known by its tag only, and the record of the dead leader."""
    leader = crowd.start(["true"], mark)
    record = record_of(crowd.identity(leader), mark)
    leader.wait()
    child = crowd.start(["sleep", "60"], mark)
    # exec closes the status pipe before the new environment can be read.
    until(lambda: read_environ(child.pid), "it shows its environment")
    return child, record


def test_slow_deaths_have_the_whole_patience(
    crowd: Crowd, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the killed wait for their turn to end."""
    child, record = orphan(crowd, ProcessTag(HOME, instance, 7))

    def slow(pidfd: int, signum: int, flags: int = 0) -> bool:
        if signum == signal.SIGKILL and late.ident is None:
            late.start()
        return True

    late = threading.Timer(1.5, child.kill)
    monkeypatch.setattr(kill_set, "send_signal", slow)
    try:
        assert recover([record], home=HOME) == Report(ended=(record,), killed=1)
    finally:
        late.join()
    assert child.wait() == -9


def test_without_a_look_the_records_stay(
    crowd: Crowd, instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _child, record = orphan(crowd, ProcessTag(HOME, instance, 7))

    def fail() -> Iterator[int]:
        raise OSError(errno.ENFILE, "Too many open files in system")

    monkeypatch.setattr("haftd.host.recovery.recovery.every_pid", fail)
    report = recover([record], home=HOME)
    assert (report.keep, report.lost) == ((record,), ())
    assert "Too many open files" in report.problems[0]


def test_a_foreign_daemon_started_in_a_handle_ends_with_it(crowd: Crowd, instance: str) -> None:
    """A test suite starts one; its tag differs, and the rlimit tag is the handle's."""
    child = branded(crowd, ProcessTag(HOME, instance, 7), ProcessTag(OTHER, instance, 0))
    apart = crowd.start(["sleep", "60"], ProcessTag(OTHER, instance, 0))
    recover([], home=HOME)
    assert child.wait() == -9 and _state(apart) == "S"


def test_a_live_instances_rlimit_tag_is_left_alone(crowd: Crowd, instance: str) -> None:
    mine = branded(crowd, ProcessTag(HOME, instance, 7))
    theirs = branded(crowd, ProcessTag(HOME, "cccccccccccc", 7))
    recover([], home=HOME, live=instance)
    assert theirs.wait() == -9 and not gone(mine)
    recover([], home=HOME, instance="dddddddddddd")
    assert not gone(mine)
    recover([], home=HOME, instance=instance)
    assert mine.wait() == -9


def test_a_tagged_zombie_does_not_prolong_recovery(crowd: Crowd, instance: str) -> None:
    child = branded(crowd, ProcessTag(HOME, instance, 7))
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    begun = time.monotonic()
    assert recover([], home=HOME, patience_s=60) == Report()
    assert time.monotonic() - begun < 30


def decoys(crowd: Crowd, instance: str) -> list[subprocess.Popen[bytes]]:
    """Processes that only look like the daemon's."""
    return [
        crowd.start(["sleep", "60"]),
        crowd.start(["sleep", "60"], ProcessTag(OTHER, instance, 1)),
        crowd.start(["sleep", "60"], f"x{HOME}.{instance}.1"),
        crowd.start(["sleep", "60"], f"{HOME}.{instance}"),
        crowd.start(["sh", "-c", f"HAFT_HANDLE={HOME}.{instance}.1; sleep 60; :"]),
    ]


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"boot": "another boot"}, id="P10 another boot"),
        pytest.param({"ns": 1}, id="P11 another pid namespace"),
        pytest.param({"uid": 4_000_000}, id="another user"),
        pytest.param({"mark": f"{OTHER}.aaaaaaaaaaaa.1"}, id="another home"),
        pytest.param({"mark": "junk"}, id="no mark"),
    ],
)
def test_P10_P11_a_foreign_record_is_dropped_and_no_process_signalled(
    crowd: Crowd, instance: str, forged: dict[str, object]
) -> None:
    child = crowd.start(["sleep", "60"])
    record = record_of(crowd.identity(child), ProcessTag(HOME, instance, 1), **forged)
    report = recover([record], home=HOME)
    assert (report.dropped, report.ended, report.keep) == ((record,), (), ())
    assert not gone(child)
    assert _state(child) == "S"


@pytest.mark.parametrize("forged", [{"ticks": 1}, {"inode": 1}, {"inode": 2, "ticks": 2}])
def test_P07_P08_a_record_with_a_reused_pid_signals_no_process(
    crowd: Crowd, instance: str, forged: dict[str, object]
) -> None:
    child = crowd.start(["sleep", "60"])
    record = record_of(crowd.identity(child), ProcessTag(HOME, instance, 1), **forged)
    report = recover([record], home=HOME)
    assert (report.lost, report.ended) == ((record,), ())
    assert _state(child) == "S"


def test_no_other_process_is_killed(crowd: Crowd, instance: str) -> None:
    standing = decoys(crowd, instance)
    ours = [crowd.start(["sleep", "60"], ProcessTag(HOME, instance, n)) for n in range(1, 6)]
    records = [
        record_of(crowd.identity(process), ProcessTag(HOME, instance, n))
        for n, process in enumerate(ours, 1)
    ]
    report = recover(records, home=HOME)
    assert len(report.ended) == 5
    assert all(process.wait() == -9 for process in ours)
    assert [_state(process) for process in standing] == ["S"] * len(standing)


def test_a_living_instance_is_left_alone(crowd: Crowd, instance: str) -> None:
    live = crowd.start(["sleep", "60"], ProcessTag(HOME, "cccccccccccc", 1))
    dead = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
    record = record_of(crowd.identity(live), ProcessTag(HOME, "cccccccccccc", 1))
    report = recover([record], home=HOME, live="cccccccccccc")
    assert report.keep == (record,)
    assert dead.wait() == -9 and not gone(live)


LIVING = """
import fcntl, os, sys, time
from haftd.host.process.privacy import become_private
held = open(sys.argv[1], "w")
fcntl.flock(held, fcntl.LOCK_EX)
become_private(sys.argv[2])
print(flush=True)
time.sleep(600)
"""
RECOVERS = """
import os, subprocess, sys, tempfile
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.recovery import recover
home, instance, living, kind = sys.argv[1:]
lock = tempfile.mkdtemp() + "/daemon.lock"
def start(argv, n, **more):
    env = {**os.environ, "HAFT_HANDLE": str(ProcessTag(home, instance, n))}
    return subprocess.Popen(argv, env=env, **more)
daemon = start([sys.executable, "-c", living, lock, instance], 0, stdout=subprocess.PIPE)
daemon.stdout.readline()
os.unlink(lock)
child = start(["sleep", "600"], 3)
if kind == "dead":
    daemon.kill()
    os.waitid(os.P_PID, daemon.pid, os.WEXITED | os.WNOWAIT)
report = recover([], home=home)
print(child.poll(), *report.problems)
for one in (child, daemon):
    one.kill()
    one.wait()
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs util-linux's setpriv")
@pytest.mark.parametrize(
    ("kind", "message"), [("alive", "None process {} is a daemon"), ("dead", "-9")]
)
def test_a_live_daemons_process_with_an_unreadable_environment_is_left_alone(
    instance: str, kind: str, message: str
) -> None:
    # Root may inspect every process unless these capabilities are dropped.
    drop = () if os.geteuid() else ("setpriv", "--bounding-set", "-sys_ptrace,-perfmon,-sys_admin")
    argv = [*drop, sys.executable, "-c", RECOVERS, HOME, instance, LIVING, kind]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert re.sub(r"\d+ is", "{} is", done.stdout).startswith(message), done.stdout


def test_a_guardian_ends_only_its_own_daemons_processes(crowd: Crowd, instance: str) -> None:
    mine = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
    later = crowd.start(["sleep", "60"], ProcessTag(HOME, "dddddddddddd", 1))
    recover([], home=HOME, instance=instance)
    assert mine.wait() == -9 and not gone(later)


def test_a_stopped_process_is_ended(crowd: Crowd, instance: str) -> None:
    mark = ProcessTag(HOME, instance, 1)
    child = crowd.start(["sh", "-c", "kill -STOP $$"], mark)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert len(recover([record_of(crowd.identity(child), mark)], home=HOME).ended) == 1
    assert child.wait() == -9


ANCESTOR = """
import os, subprocess, sys
from haftd.host.process.identity import identify_child
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.recovery import recover
from tests.faults.harness import record_of
mark = ProcessTag(*sys.argv[1].split(".")[:2], 1)
parent = os.getppid()
pidfd = os.pidfd_open(parent)
record = record_of(identify_child(parent, pidfd), mark)
sibling = subprocess.Popen(["sleep", "60"], start_new_session=True)
report = recover([record], home=mark.home)
assert sibling.wait() == -9, "what is no ancestor is ended"
assert report.spared == (parent,), report
assert report.keep == (record,), report
print("spared", flush=True)
"""


def test_an_ancestor_is_never_signalled(crowd: Crowd, instance: str) -> None:
    """The daemon was started again from within a handle that its predecessor left."""
    mark = ProcessTag(HOME, instance, 1)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        ["sh", "-c", '"$@"; echo "alive $?"', "sh", sys.executable, "-c", ANCESTOR, str(mark)],
        env={**os.environ, "HAFT_HANDLE": str(mark)},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.stdout == "spared\nalive 0\n", done.stderr


SELF_IN_CGROUP = """
import os, subprocess, sys
from pathlib import Path
from haftd.host.process import rlimit_tag
from haftd.host.cgroup import Cgroup
from haftd.host.recovery.recovery import recover
group = Cgroup(Path(sys.argv[1]))
group.add(os.getpid())
other = subprocess.Popen(["env", "-i", "setsid", "sleep", "60"])
report = recover([], home=sys.argv[2], bases=[group.path.parent])
assert other.wait() == -9
assert os.getpid() in report.spared, report
print("lives")
"""


@needs_cgroup
def test_a_cgroup_with_this_process_is_emptied_around_it(instance: str) -> None:
    with Ground() as ground:
        group = Cgroup.create(ground.cgroup.path, f"{HOME}.{instance}.1")
        done = subprocess.run(
            [sys.executable, "-c", SELF_IN_CGROUP, str(group.path), HOME],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "lives\n", done.stderr


LOCKLESS = """
import os, sys, time
from pathlib import Path
from haftd.host.files.lockfile import DaemonLock
lock = DaemonLock.acquire(Path(sys.argv[1]) / "daemon.lock")
print("x", flush=True)
time.sleep(60)
"""


def test_a_daemon_that_lives_without_its_lock_keeps_its_handles(
    crowd: Crowd, instance: str, tmp_path: Path
) -> None:
    """L01: its folder was deleted, a second daemon starts in the new folder; the first is still
    ending its handles."""
    argv = [sys.executable, "-c", LOCKLESS, str(tmp_path)]
    first = crowd.start(argv, ProcessTag(HOME, instance, 0), ready=True)
    handle = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
    orphan = crowd.start(["sleep", "60"], ProcessTag(HOME, "eeeeeeeeeeee", 1))
    (tmp_path / "daemon.lock").unlink()
    lock = DaemonLock.acquire(tmp_path / "daemon.lock")
    report = recover([record_of(crowd.identity(handle), ProcessTag(HOME, instance, 1))], home=HOME)
    assert not gone(first) and not gone(handle)
    assert orphan.wait() == -9
    assert len(report.keep) == 1 and str(first.pid) in report.problems[0]
    lock.close()


def test_a_process_with_a_daemons_own_tag_is_left_alone(crowd: Crowd, instance: str) -> None:
    """Another daemon in the middle of its start, or its login shell: no handle's."""
    child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 0))
    handles = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
    recover([], home=HOME)
    assert handles.wait() == -9 and not gone(child)


def test_an_unsignallable_process_is_named_and_stays_recorded(instance: str) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can start a process that another user cannot signal")
    code = """
import os, sys
from haftd.host.process.identity import Identity
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.recovery import recover
from tests.faults.harness import record_of
pid, ticks, inode = map(int, sys.argv[1:4])
from haftd.host.process.machine import boot_id, pid_namespace
record = record_of(Identity(pid, ticks, inode, boot_id(), pid_namespace()), ProcessTag.read(sys.argv[4]))
report = recover([record], home=ProcessTag.read(sys.argv[4]).home, patience_s=600)
assert report.unconfirmed == (pid,), report
assert report.keep == (record,) and not report.ended, report
assert "may not be signalled" in report.problems[0], report
print("named")
"""
    with Crowd() as crowd:
        who = crowd.identity(child := crowd.start(["sleep", "60"]))
        words = [str(who.pid), str(who.ticks), str(who.inode), str(ProcessTag(HOME, instance, 1))]
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", code, *words],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,  # Recovery does not wait for unsignallable processes.
        )
        if "ModuleNotFoundError" in done.stderr or "Permission denied" in done.stderr:
            pytest.skip("the interpreter is not readable for another user")
        assert done.stdout == "named\n", done.stderr
        assert not gone(child)


def test_a_second_recovery_finds_nothing_to_do(crowd: Crowd, instance: str) -> None:
    mark = ProcessTag(HOME, instance, 1)
    record = record_of(crowd.identity(crowd.start(["sleep", "60"], mark)), mark)
    assert recover([record], home=HOME).ended == (record,)
    assert recover([record], home=HOME) == Report(lost=(record,))


def test_recoveries_run_one_after_the_other(crowd: Crowd, instance: str, tmp_path: Path) -> None:
    lock = tmp_path / "recover.lock"
    fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
    code = (
        "import sys; from pathlib import Path; from haftd.host.recovery.recovery import recover;"
        "print('begin', flush=True); recover([], home=sys.argv[2], lock=Path(sys.argv[1]))"
    )
    waiting = subprocess.Popen(
        [sys.executable, "-c", code, lock, HOME], stdout=subprocess.PIPE, start_new_session=True
    )
    assert waiting.stdout is not None and waiting.stdout.readline() == b"begin\n"
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.15)
    os.close(fd)
    assert waiting.wait() == 0
    assert child.wait() == -9
    waiting.stdout.close()


def test_a_stuck_recovery_is_not_waited_for_forever(
    crowd: Crowd, instance: str, tmp_path: Path
) -> None:
    lock = tmp_path / "recover.lock"
    fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    child = crowd.start(["sleep", "60"], ProcessTag(HOME, instance, 1))
    report = recover([], home=HOME, lock=lock, patience_s=0.4)
    assert child.wait() == -9
    assert "another recovery" in report.problems[0]
    os.close(fd)


def test_with_few_descriptors_all_processes_are_ended(crowd: Crowd, instance: str) -> None:
    marks = [ProcessTag(HOME, instance, n) for n in range(1, 61)]
    children = [crowd.start(["sleep", "60"], mark) for mark in marks]
    records = [
        record_of(crowd.identity(process), mark)
        for process, mark in zip(children, marks, strict=True)
    ]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, hard))
    try:
        report = recover(records, home=HOME)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(report.ended) == 60 and report.problems == ()
    assert all(child.wait() == -9 for child in children)


HOPPER = r"""
#include <unistd.h>
#include <stdlib.h>
#include <signal.h>
#include <time.h>
int main(int argc, char **argv) {
    int us = atoi(argv[1]);
    time_t end = time(0) + 20;
    signal(SIGCHLD, SIG_IGN);
    write(1, "x", 1);
    close(1);
    while (time(0) < end) {
        if (fork()) _exit(0);
        setsid();
        if (us) usleep(us);
    }
}
"""


@pytest.fixture(scope="module")
def hopper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that becomes another process every few microseconds, in another session."""
    folder = tmp_path_factory.mktemp("hopper")
    (folder / "hopper.c").write_text(HOPPER)
    try:
        subprocess.run(
            ["cc", "-O1", "-w", "-o", folder / "hopper", folder / "hopper.c"], check=True
        )
    except FileNotFoundError:
        pytest.skip("no C compiler is installed")
    return folder / "hopper"


@needs_cgroup
@pytest.mark.parametrize("microseconds", [0, 200, 2000])
def test_P05_a_fork_chain_in_a_cgroup_ends_long_before_the_timeout(
    crowd: Crowd, instance: str, hopper: Path, microseconds: int
) -> None:
    with Ground() as ground:
        group = Cgroup.create(ground.cgroup.path, f"{HOME}.{instance}.1")
        join = ["sh", "-c", f'echo $$ > {group.path}/cgroup.procs; exec "$@"', "join"]
        argv = [*join, str(hopper), str(microseconds)]
        crowd.start(argv, ProcessTag(HOME, instance, 1), ready=True)
        begun = time.monotonic()
        report = recover([], home=HOME, bases=[ground.cgroup.path], patience_s=30)
        assert time.monotonic() - begun < 15
        assert (report.unconfirmed, report.problems) == ((), ())
        assert ground.survivors() == []


@pytest.mark.parametrize("microseconds", [0, 200, 2000])
def test_P05_without_a_cgroup_a_fork_chain_is_ended_or_named(
    crowd: Crowd, instance: str, hopper: Path, microseconds: int
) -> None:
    """A chain can slip through one recovery, which takes samples; each start makes another, and
    no chain slips through all."""
    with Ground() as ground:
        argv = ground.within([str(hopper), str(microseconds), ground.tag])
        crowd.start(argv, ProcessTag(HOME, instance, 1), ready=True)
        for _ in range(4):
            report = recover([], home=HOME, patience_s=1.5)
            if report.unconfirmed or not _seen(ground):
                return
        raise AssertionError("it lives, and nobody says so")


def _seen(ground: Ground) -> list[str]:
    """Return the living processes over several looks: a single look may fall between two lives."""
    return [survivor for _ in range(50) for survivor in ground.survivors()]


def test_a_record_of_this_boot_is_recognised_by_its_boot(crowd: Crowd, instance: str) -> None:
    child = crowd.start(["sleep", "60"])
    record: Record = record_of(crowd.identity(child), ProcessTag(HOME, instance, 1))
    assert record.boot == boot_id()
    assert recover([record], home=HOME).ended == (record,)


def test_no_descriptor_is_left(crowd: Crowd, instance: str, tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    marks = [ProcessTag(HOME, instance, n) for n in range(3)]
    children = [crowd.start(["sleep", "60"], mark) for mark in marks]
    records = [
        record_of(crowd.identity(process), mark)
        for process, mark in zip(children, marks, strict=True)
    ]
    recover(records, home=HOME, lock=tmp_path / "recover.lock")
    assert len(os.listdir("/proc/self/fd")) == before


def _state(child: subprocess.Popen[bytes]) -> str:
    stat = Path(f"/proc/{child.pid}/stat").read_text()
    state = stat.rpartition(")")[2].split()[0]
    return "S" if state == "R" else state


def test_a_process_without_a_tag_is_looked_at_twice(
    instance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look for living daemons is the first scan, and a second one confirms it."""
    looks: list[int] = []

    def read(pid: int) -> bytes | None:
        looks.append(pid)
        return read_environ(pid)

    monkeypatch.setattr(ownership, "read_environ", read)
    with subprocess.Popen(["sleep", "61"], env={}) as sleeper:
        assert recover([], home=HOME, live=instance).problems == ()
        sleeper.kill()
    assert looks.count(sleeper.pid) == 2
