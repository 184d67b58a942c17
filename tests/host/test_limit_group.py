"""The kernel counts for the limits of a handle, and reports the one that it enforces."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haftd.host import limit_group
from haftd.host.cgroup import Cgroup, leftovers
from haftd.host.limit_group import Containment, Controllers, LimitGroup, enable_controllers
from tests.faults.harness import (
    Crowd,
    cgroup_base,
    controllers,
    needs_cgroup,
    needs_controllers,
    until,
)

HOME = "0123456789ab"
FORK = """
import os, time
for n in range({}):
    try:
        os.fork() or (time.sleep(60), os._exit(0))
    except OSError:
        print(n, flush=True)
        break
else:
    print(-1, flush=True)
time.sleep(60)
"""


class Member:
    """A Python program in a group of at most eight processes, which forks so often once told to."""

    def __init__(self, forks: int) -> None:
        found = controllers()
        assert found is not None
        name = f"{HOME}.1.{os.getpid()}"
        group = found.make_group(name, {"processes": 8}, None)
        assert group is not None and group.is_separate
        self.group, self.parent = group, found.base
        argv = [sys.executable, "-I", "-S", "-c", "input()" + FORK.format(forks)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        group.add(self.process.pid)

    def fork(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def forks(self) -> int:
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.group.cgroup.empty(5)
        with self.process:
            self.process.wait()
        until(self.group.cgroup.remove, "the group has no process")


@needs_controllers
async def test_the_kernel_bounds_the_processes_of_a_group_and_reports_it() -> None:
    with Member(forks=40) as member:
        assert member.group.find_passed() is None
        assert member.group.cgroup in leftovers(member.parent, HOME)
        reported: list[str] = []
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                reported.append(await member.group.wait_passed())

            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            member.fork()
        assert reported == ["processes"]
        assert member.group.find_passed() == "processes"
        assert member.forks() == 7
        assert len(member.group.cgroup.procs()) == 8


@needs_controllers
async def test_a_limit_that_was_passed_before_the_wait_is_reported() -> None:
    with Member(forks=40) as member:
        member.fork()
        assert member.forks() == 7
        assert await member.group.wait_passed() == "processes"


@needs_controllers
def test_a_group_whose_forks_are_stopped_starts_nothing() -> None:
    with Member(forks=1) as member:
        member.group.stop_forks()
        member.fork()
        assert member.forks() == 0


@needs_controllers
def test_a_further_run_of_the_handle_has_its_whole_limit() -> None:
    """A one-shot tool runs again with each answer, after the rest of the run before was ended."""
    with Member(forks=40) as member:
        member.group.stop_forks()
        member.fork()
        assert member.forks() == 0 and member.group.find_passed() == "processes"
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", "input()" + FORK.format(40)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as again:
            try:
                member.group.add(again.pid)
                assert member.group.find_passed() is None
                assert again.stdin is not None and again.stdout is not None
                again.stdin.write(b"\n")
                again.stdin.flush()
                assert again.stdout.readline() == b"6\n"
                assert member.group.find_passed() == "processes"
            finally:
                again.kill()
                assert member.group.cgroup.empty(5)


def test_a_group_of_version_2_is_the_handle_s_own(tmp_path: Path) -> None:
    own = Cgroup(tmp_path)
    for file in ("pids.max", "memory.max", "memory.swap.max", "memory.oom.group"):
        (tmp_path / file).touch()
    found = Controllers(tmp_path.parent, frozenset({"pids", "memory"}))
    assert found.make_group("mark", {"cpu_s": 3, "output": 4}, own) is None
    group = found.make_group("mark", {"processes": 40, "memory": 4096.0, "cpu_s": 3}, own)
    assert group is not None and group.cgroup == own and not group.is_separate
    assert group.limits == {"processes": 40, "memory": 4096}
    set_to = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set_to == {
        "pids.max": "40",
        "memory.max": "4096",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
    }
    (tmp_path / "pids.events").write_text("max 0\n")
    (tmp_path / "memory.events").write_text("low 0\nhigh 3\nmax 9\noom 1\noom_kill 0\n")
    assert group.find_passed() is None
    (tmp_path / "memory.events").write_text("low 0\nhigh 3\nmax 9\noom 1\noom_kill 2\n")
    assert group.find_passed() == "memory"
    (tmp_path / "pids.events").write_text("max 1\n")
    assert group.find_passed() == "processes"
    group.remove()
    assert tmp_path.exists()


def test_controllers_that_are_passed_on_count(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu io\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    assert enable_controllers("auto", tmp_path) == Controllers(tmp_path, frozenset({"memory"}))


def test_a_controller_is_asked_for(tmp_path: Path) -> None:
    """A plain folder has the request afterwards; the kernel, the controller."""
    (tmp_path / "cgroup.controllers").write_text("cpu io pids\n")
    control = tmp_path / "cgroup.subtree_control"
    control.write_text("")
    enable_controllers("auto", tmp_path)
    assert control.read_text() == "+pids"


def test_no_controllers_where_cgroups_are_off(tmp_path: Path) -> None:
    assert enable_controllers("off", tmp_path) is None


def test_a_service_manager_s_hierarchies_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit_group, "_SYSTEMD", tmp_path)
    assert enable_controllers("auto", None) is None


def test_recovery_looks_below_each_parent_once(tmp_path: Path) -> None:
    pids = Controllers(tmp_path / "pids", frozenset({"pids"}), is_version_1=True)
    own = Controllers(tmp_path / "own", frozenset({"pids"}))
    assert Containment().parents == ()
    assert Containment(tmp_path / "own", own).parents == (tmp_path / "own",)
    assert Containment(None, pids).parents == (tmp_path / "pids",)


def open_files(folder: str) -> list[str]:
    """Return this process's open files in a folder."""
    links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return [link for link in links if link.startswith(folder)]


@needs_cgroup
async def test_a_report_of_version_2_wakes_the_waiter(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another file of events, as the controllers may be those of version 1."""
    monkeypatch.setattr(limit_group, "_EVENTS", {"cgroup.events": ("processes", "populated")})
    base = cgroup_base()
    assert base is not None
    own = Cgroup.create(base, f"{HOME}.3.{secrets.randbelow(1 << 30)}")
    group, reported = LimitGroup(own, {"processes": 1}, is_separate=False), []
    with Crowd() as crowd:
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                reported.append(await group.wait_passed())

            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            assert not reported
            own.add(crowd.start(["sleep", "60"]).pid)
        assert reported == ["processes"]
        assert open_files(str(own.path)) == []
        assert own.empty(5)
    until(own.remove, "the group has no process")
