"""After a crash at any moment nothing is left and no other process is killed. The daemon is the
stand-in; rows of the same name run with a whole `haftd` in tests/faults/test_whole.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from haftd.host.recovery.journal import read_records
from tests.faults.harness import (
    Ground,
    Subject,
    needs_cgroup,
    needs_namespaces,
    needs_strace,
    short_folder,
    until,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ground() -> Iterator[Ground]:
    with Ground() as ground:
        yield ground


def facts(subject: Subject, event: str) -> dict[str, object]:
    """Return the next line of the stand-in with this event."""
    line = subject.wait_line()
    assert line, subject.log_text()
    document = json.loads(line)
    assert document.get("event") == event, document
    return document  # type: ignore[no-any-return]


def storm(short_tmp: Path, ground: Ground, cycles: int, kind: str, *more: str) -> dict[str, object]:
    folder = short_tmp / "haft"
    use_cgroups = "1" if "cgroups" in more else "0"
    more = tuple(word for word in more if word != "cgroups")
    argv = [sys.executable, "-m", "tests.faults.storm", str(folder), str(cycles), "7", kind]
    argv += [str(ground.cgroup.path), use_cgroups, *more]
    done = subprocess.run(
        ["unshare", "-pf", "--kill-child", "--mount-proc", *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@needs_cgroup
@needs_namespaces
@pytest.mark.parametrize(
    ("kind", "more", "cycles"),
    [
        ("session", [], 10),
        ("cleared", [], 6),
        ("cleared", ["cgroups"], 6),
        ("session", ["--guardian"], 3),
        pytest.param("plain", [], 10_000, marks=pytest.mark.soak),
        pytest.param("session", [], 10_000, marks=pytest.mark.soak),
        pytest.param("cleared", [], 10_000, marks=pytest.mark.soak),
        pytest.param("cleared", ["cgroups"], 10_000, marks=pytest.mark.soak),
        pytest.param("session", ["--guardian"], 300, marks=pytest.mark.soak),
    ],
)
def test_P02_killed_at_a_random_moment_of_a_spawn_storm(
    short_tmp: Path, ground: Ground, kind: str, more: list[str], cycles: int
) -> None:
    found = storm(short_tmp, ground, cycles, kind, *more)
    assert (found["leaks"], found["hit"], found["unconfirmed"]) == ([], [], 0)
    assert found["cycles"] == cycles


@needs_cgroup
@needs_namespaces
def test_P02_the_storm_detects_a_daemon_without_recovery(short_tmp: Path, ground: Ground) -> None:
    """A planted fault: a storm without detection would pass as well."""
    assert storm(short_tmp, ground, 2, "session", "--blind")["leaks"]


# Killed at every system call


class Point(NamedTuple):
    """A system call of a trace: its name, its ordinal among those of the name, and the line."""

    name: str
    when: int
    line: str


def trace(short_tmp: Path, subject: Subject, region: str) -> list[Point]:
    """The system calls between the flags of a region."""
    log = short_tmp / "trace"
    subject.argv += ["--region", str(short_tmp / "flag")]
    subject.start_traced(["-o", str(log)])
    facts(subject, "ready")
    while subject.wait_line() != '{"event": "done"}':
        pass
    subject.kill9()
    counts: dict[str, int] = {}
    points: list[Point] = []
    within = False
    for line in log.read_text(errors="replace").splitlines():
        match = re.match(r"(\w+)\(", line)
        if match is None:
            continue
        name = match[1]
        counts[name] = counts.get(name, 0) + 1
        if f"flag.begin-{region}" in line:
            within = True
        elif f"flag.end-{region}" in line:
            within = False
        elif within:
            points.append(Point(name, counts[name], line))
    assert points, "the region is not in the trace"
    return points


@pytest.fixture(scope="module")
def spawn_points() -> list[Point]:
    """The system calls of a spawn."""
    with short_folder() as folder:
        words = ["--count", "1", "--kind", "session"]
        return trace(folder, Subject.standin(folder / "t", *words), "spawn")


def injecting(point: Point, kind: str) -> list[str]:
    """Return the options of strace that do this at the point."""
    inject = f"inject={point.name}:{kind}:when={point.when}"
    return ["-o", "/dev/null", "-e", f"trace={point.name}", "-e", inject]


def sample(points: list[Point], count: int) -> list[Point]:
    """Return that many of them, evenly spaced, with the first and the last."""
    if count >= len(points):
        return points
    return [points[round(n * (len(points) - 1) / (count - 1))] for n in range(count)]


@needs_strace
@pytest.mark.parametrize(
    "count", [3, pytest.param(1000, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_P01_killed_at_every_system_call_of_a_spawn(
    short_tmp: Path, ground: Ground, spawn_points: list[Point], count: int
) -> None:
    words = ["--count", "1", "--kind", "session"]
    assert {"write", "pidfd_open"} <= {point.name for point in spawn_points}
    for n, point in enumerate(sample(spawn_points, count)):
        base = short_tmp / str(n)
        first = Subject.standin(base, *words)
        with first:
            first.start_traced(injecting(point, "signal=KILL"), ground)
            while first.wait_line() not in ("", '{"event": "done"}'):
                pass
            # The points shift by a few from run to run: then the kill comes after the last one.
            first.kill9()
        with Subject.standin(base) as second:
            second.start()
            facts(second, "ready")
            until(lambda: not ground.survivors(), f"nothing is left after {point}", 3)
        shutil.rmtree(base)


@needs_strace
@pytest.mark.parametrize(
    "count", [2, pytest.param(400, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_P21_killed_at_every_system_call_of_recovery(
    short_tmp: Path, ground: Ground, count: int
) -> None:
    def crash(base: Path) -> None:
        with Subject.standin(base, "--count", "2", "--kind", "session") as subject:
            subject.start(ground)
            facts(subject, "ready")
            while subject.wait_line() != '{"event": "done"}':
                pass
            subject.kill9()
        assert len(ground.survivors()) >= 2

    crash(short_tmp / "t")
    points = trace(short_tmp, Subject.standin(short_tmp / "t"), "recovery")
    assert not ground.survivors()
    for n, point in enumerate(sample(points, count)):
        base = short_tmp / str(n)
        crash(base)
        with Subject.standin(base) as second:
            second.start_traced(injecting(point, "signal=KILL"))
            while second.wait_line() not in ("", '{"event": "done"}'):
                pass
            second.kill9()
        with Subject.standin(base) as third:
            third.start()
            assert facts(third, "ready")["problems"] == []
            assert not ground.survivors(), f"left after recovery was killed at {point}"
            third.kill9()
        assert read_records(base / "run" / "haft" / "handles.lock") == []
        shutil.rmtree(base)


# Records that cannot be written


@needs_strace
@pytest.mark.parametrize(
    "error",
    [
        "ENOSPC",
        "EIO",
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("EROFS", "EDQUOT")),
    ],
)
def test_P16_an_unwritable_record_refuses_only_its_spawn(
    short_tmp: Path, ground: Ground, spawn_points: list[Point], error: str
) -> None:
    (record,) = [point for point in spawn_points if point.name == "write" and "start" in point.line]
    base = short_tmp / "b"
    with Subject.standin(base, "--count", "2", "--kind", "session") as subject:
        subject.start_traced(injecting(record, f"error={error}"), ground)
        facts(subject, "ready")
        assert facts(subject, "refused")["reason"] == "record"
        assert facts(subject, "started")["n"] == 2  # the daemon lives, and the next spawn runs
        until(lambda: len(sleepers(ground)) == 3, "the second one runs whole")
        assert len(ground.survivors()) == 4  # and nothing of the first, beside the daemon itself
        assert [one.id for one in read_records(subject.home / "handles.lock")] == ["h2"]
        subject.kill9()


@needs_strace
@pytest.mark.parametrize(
    "count", [2, pytest.param(1000, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_P16_any_failing_system_call_of_a_spawn_refuses_it_or_runs_whole(
    short_tmp: Path, ground: Ground, spawn_points: list[Point], count: int
) -> None:
    calls = ("write", "pipe2", "pidfd_open", "openat", "clone3", "vfork", "fcntl", "prlimit64")
    failing = [
        point for point in spawn_points if point.name in calls and "prlimit64(0" not in point.line
    ]
    for n, point in enumerate(sample(failing, count)):
        base = short_tmp / str(n)
        with Subject.standin(base, "--count", "2") as subject:
            subject.start_traced(injecting(point, "error=ENOMEM"), ground)
            facts(subject, "ready")
            line = subject.wait_line()
            assert line, f"{point}: {subject.log_text()}"
            first = json.loads(line)
            assert first["n"] == 1, f"{point}: {subject.log_text()}"
            assert facts(subject, "started")["n"] == 2, f"{point}: {subject.log_text()}"
            expected = 2 if first["event"] == "started" else 1
            until(lambda expected=expected: len(sleepers(ground)) == expected, f"after {point}", 3)  # type: ignore[misc]
            subject.kill9()
        with Subject.standin(base) as second:
            second.start()
            facts(second, "ready")
            until(lambda: not ground.survivors(), f"nothing is left after {point}", 3)
        shutil.rmtree(base)


def sleepers(ground: Ground) -> list[str]:
    return [survivor for survivor in ground.survivors() if survivor.split()[1:2] == ["sleep"]]


FULL = """
mount -t tmpfs -o size=16k,mode=700 none "$1" || exit 99
shift
exec "$@"
"""


@needs_cgroup
@needs_namespaces
def test_L10_a_full_disk_refuses_spawns_until_there_is_room(
    short_tmp: Path, ground: Ground
) -> None:
    """The runtime folder is a small tmpfs; each spawn costs some 300 bytes."""
    subject = Subject.standin(short_tmp / "t", "--count", "60")
    with subject:
        subject.start(ground, ["unshare", "-m", "sh", "-c", FULL, "full", str(subject.runtime)])
        facts(subject, "ready")
        document = [json.loads(subject.wait_line()) for _ in range(60)]
        events = [one["event"] for one in document]
        assert "refused" in events and "started" in events
        assert {one["reason"] for one in document if one["event"] == "refused"} == {"record"}
        # The last process may be on its way from the gate to its name.
        started = events.count("started")
        until(lambda: len(sleepers(ground)) == started, "what was started runs, and nothing else")
        facts(subject, "done")
        subject.kill9()


# Two daemons


CROWD = """
import os, sys, json
from tests.faults import standin
folder, count = sys.argv[1], int(sys.argv[2])
gate_in, gate_out = os.pipe()
children = {}
for n in range(count):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(gate_out)
            os.dup2(writer, 1)
            os.read(gate_in, 1)
            standin.run_forked([folder])
        except SystemExit as leaving:
            os._exit(leaving.code)
        finally:
            os._exit(70)
    os.close(writer)
    children[pid] = reader
os.close(gate_out)   # all at once
served = [pid for pid, reader in children.items() if b"ready" in os.read(reader, 4096)]
statuses = []
for pid in children:
    if pid in served:
        os.kill(pid, 9)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if pid not in served:
        statuses.append(status)
print(json.dumps([len(served), sorted(set(statuses)), len(statuses)]))
"""


@pytest.mark.parametrize(
    "rounds", [2, pytest.param(100, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_P18_of_fifty_daemons_started_at_once_one_serves(short_tmp: Path, rounds: int) -> None:
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", CROWD, short_tmp / "haft", "50"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout, done.stderr
        assert json.loads(done.stdout) == [1, [75], 49]


def test_P20_a_second_daemon_touches_nothing_of_a_stopped_first(
    short_tmp: Path, ground: Ground
) -> None:
    with Subject.standin(short_tmp, "--count", "2", "--kind", "session") as first:
        first.start(ground)
        facts(first, "ready")
        while first.wait_line() != '{"event": "done"}':
            pass
        until(lambda: len(sleepers(ground)) == 6, "all of it runs")
        before = sorted(ground.survivors())
        assert first.process is not None
        first.process.send_signal(signal.SIGSTOP)
        stopped = Path(f"/proc/{first.process.pid}/stat")
        until(lambda: stopped.read_text().rpartition(")")[2].split()[0] == "T", "it stops")
        journal = (first.home / "handles.lock").read_bytes()
        with Subject.standin(short_tmp) as second:
            second.start()
            assert json.loads(second.wait_line()) == {"held": first.process.pid}
            assert second.wait() == 75
        assert sorted(ground.survivors()) == before
        states = {
            Path(f"/proc/{process.split()[0]}/stat").read_text().rpartition(")")[2].split()[0]
            for process in sleepers(ground)
        }
        assert states == {"S"}
        assert (first.home / "handles.lock").read_bytes() == journal
        first.process.send_signal(signal.SIGCONT)


def test_P37_daemon_and_guardian_are_killed_and_the_next_start_cleans(
    short_tmp: Path, ground: Ground
) -> None:
    with Subject.standin(short_tmp, "--count", "2", "--kind", "session", "--guardian") as first:
        first.start(ground)
        guardian = facts(first, "ready")["guardian"]
        while first.wait_line() != '{"event": "done"}':
            pass
        assert isinstance(guardian, int)
        os.kill(guardian, signal.SIGKILL)
        first.kill9()
        until(lambda: len(sleepers(ground)) == 6, "all of it lives on")
    with Subject.standin(short_tmp) as second:
        second.start()
        assert facts(second, "ready")["ended"] == 2
        assert not ground.survivors()


def test_the_guardian_empties_the_tree_while_no_daemon_runs(
    short_tmp: Path, ground: Ground
) -> None:
    with Subject.standin(short_tmp, "--count", "2", "--kind", "session", "--guardian") as first:
        first.start(ground)
        facts(first, "ready")
        while first.wait_line() != '{"event": "done"}':
            pass
        first.kill9()
        until(lambda: not ground.survivors(), "the guardian has swept, and has gone", 5)
        assert len(read_records(first.home / "handles.lock")) == 2  # the guardian writes nothing
    with Subject.standin(short_tmp) as second:
        second.start()
        assert facts(second, "ready")["lost"] == 2


@needs_cgroup
@needs_namespaces
def test_P11_records_of_a_container_with_the_same_folder_are_dropped(
    short_tmp: Path, ground: Ground
) -> None:
    """Its pids mean other processes here; its own processes are seen from outside, and live."""
    enclosed = ["unshare", "-pf", "--mount-proc", "sh", "-c", '"$@" & wait $!; sleep 300', "sh"]
    with Subject.standin(short_tmp, "--count", "2") as first:
        first.start(ground, enclosed)
        facts(first, "ready")
        while first.wait_line() != '{"event": "done"}':
            pass
        # A child past its gate does not show as sleeping before exec.
        until(lambda: len(sleepers(ground)) == 2, "both of its children run")
        inner = [
            survivor
            for survivor in ground.survivors()
            if "standin.py" in survivor and "sh -c" not in survivor
        ]
        os.kill(int(inner[0].split()[0]), signal.SIGKILL)  # the daemon in there, not its processes
        before = {process.split()[0] for process in sleepers(ground)}
        with Subject.standin(short_tmp) as second:
            second.start()
            fields = facts(second, "ready")
            assert (fields["dropped"], fields["ended"], fields["lost"]) == (2, 0, 0)
            assert before <= {process.split()[0] for process in sleepers(ground)}
            second.kill9()
        assert first.process is not None
        first.process.kill()
