from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.cases.conftest import Desk
from tests.faults.harness import until
from tests.processes import is_running
from tests.running_daemon import RunningDaemon

SUBREAPER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
child = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
print(child, flush=True)
while True:
    try: os.waitpid(-1, 0)
    except ChildProcessError: signal.pause()
"""


def alive(*argv: str) -> list[int]:
    """The processes that run exactly this command."""
    return [
        one.pid
        for one in psutil.process_iter(["cmdline", "status"])
        if one.info["cmdline"] == list(argv) and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


def unique(seconds: int) -> str:
    """A number of seconds that no other test sleeps."""
    return f"{seconds}.{time.monotonic_ns()}"


def test_RB_011_a_child_that_ignores_TERM_is_killed_after_the_grace(desk: Desk) -> None:
    handle = desk.spawn(sh="trap '' TERM; echo up; while :; do sleep 0.2; done")
    desk.fetch(handle, wait="output")
    began = time.monotonic()
    state = desk.abort(handle, grace_ms=500)
    assert 0.5 <= time.monotonic() - began < 10
    assert state["exit"] == {"signal": "KILL"} and state["ended_by"]["by"] == "abort"


def test_RB_011_a_child_that_cleans_up_has_its_grace(desk: Desk, tmp_path: Path) -> None:
    handle = desk.spawn(
        sh="trap 'echo cleaned > f; exit 0' TERM; echo up; while :; do sleep 0.1; done",
        cwd=str(tmp_path),
    )
    desk.fetch(handle, wait="output")
    state = desk.abort(handle, grace_ms=60_000)
    assert (tmp_path / "f").read_text() == "cleaned\n"
    assert state["exit"] == {"code": 0} and state["ended_by"]["by"] == "abort"


def test_RB_011_a_stopped_process_is_ended(desk: Desk) -> None:
    handle = desk.spawn(sh="echo up; kill -STOP $$; sleep 60")
    desk.fetch(handle, wait="output")
    state = desk.abort(handle, grace_ms=60_000)
    assert state["exit"] == {"signal": "TERM"}, "it is let go on to its end, not killed in its stop"


@pytest.mark.parametrize("rounds", [15, pytest.param(100, marks=pytest.mark.soak)])
def test_RB_012_no_zombies(desk: Desk, rounds: int) -> None:
    handles = []
    for _ in range(rounds):
        handles.append(desk.spawn("true"))
        handles.append(desk.spawn("true", pty=True))
    for handle in handles:
        assert desk.done(handle)["exit"] == {"code": 0}
    children = psutil.Process(desk.daemon.pid).children()
    assert [child for child in children if child.status() == psutil.STATUS_ZOMBIE] == []


@pytest.mark.parametrize("rounds", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_RB_013_no_descriptor_leaks(desk: Desk, rounds: int) -> None:
    def counts() -> tuple[int, int]:
        """All descriptors of the daemon, and those of them that are terminals."""
        places = []
        for fd in Path(f"/proc/{desk.daemon.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                places.append(os.readlink(fd))
        return len(places), sum(place.endswith("/ptmx") for place in places)

    desk.done(desk.spawn("true", pty=True))
    before = counts()
    handles = [desk.spawn("true", pty=True, wait="stopped") for _ in range(rounds)]
    for _ in range(rounds):
        with pytest.raises(Exception, match="-32012"):
            desk.spawn("/no/such/program", pty=True)
    after = counts()
    assert after[0] - before[0] <= 5 and after[1] <= before[1]
    assert all(desk.fetch(handle)["exit"] == {"code": 0} for handle in handles)


def test_RB_014_jobs_left_behind_are_shown_and_can_be_ended(desk: Desk) -> None:
    tag = unique(500)
    handle = desk.spawn(sh=f"for i in 1 2 3; do sleep {tag} >/dev/null & done; exit 0")
    state = desk.done(handle)
    assert len(state["left_behind"]) == 3
    desk.left_behind(handle, [f"sleep {tag}"] * 3)
    listed = [one for one in desk.list() if one["id"] == handle]
    assert len(listed[0]["left_behind"]) == 3
    assert len(alive("sleep", tag)) == 3
    desk.abort(handle)
    assert alive("sleep", tag) == []


@pytest.mark.parametrize("how", ["", "setsid ", "env -i setsid "])
def test_RB_015_after_a_crash_nothing_is_left(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk], how: str
) -> None:
    tag = unique(611)
    daemon = make_daemon().start()
    desk = open_desk(daemon)
    handle = desk.spawn("sleep", tag)
    terminal = desk.spawn("sleep", tag, pty=True)
    desk.spawn(sh=f"{how}sleep {tag} </dev/null >/dev/null 2>&1 & echo up; sleep {tag}", as_="sh")
    desk.fetch("sh", wait="output")
    daemon.kill9()
    daemon.start()
    assert alive("sleep", tag) == []
    desk = open_desk(daemon)
    states = {one["id"]: one for one in desk.list()}
    for lost in (handle, terminal, "sh"):
        assert states[lost]["state"] == "stopped"
        assert states[lost]["ended_by"] == {"by": "lost"}


def test_RB_015_after_a_crash_nothing_is_left_below_a_subreaper(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    tag = unique(611)
    daemon = make_daemon()
    with daemon.log.open("ab") as log:
        reaper = subprocess.Popen(
            [sys.executable, "-c", SUBREAPER, sys.executable, "-m", "haftd"],
            env=daemon.env,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        assert reaper.stdout is not None
        pid = int(reaper.stdout.readline())
        daemon.process = reaper
        daemon.wait_until_up()
        open_desk(daemon).spawn("sleep", tag)
        os.kill(pid, 9)
        until(lambda: not is_running(pid), "the killed daemon has ended")
        daemon.process = None
        daemon.start()
        assert alive("sleep", tag) == []
    finally:
        reaper.kill()
        reaper.wait()
        assert reaper.stdout is not None
        reaper.stdout.close()


def test_RB_016_two_daemons_do_not_kill_each_others_processes(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    ours, theirs = unique(613), unique(614)
    one, other = make_daemon().start(), make_daemon().start()
    open_desk(one).spawn("sleep", ours)
    desk = open_desk(other)
    handle = desk.spawn("sleep", theirs)
    one.kill9()
    one.start()
    assert alive("sleep", ours) == []
    assert len(alive("sleep", theirs)) == 1
    assert desk.fetch(handle)["state"] == "running"
