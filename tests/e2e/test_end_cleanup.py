"""A handle's record, call file and cgroup are removed at its end."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from haftd.host.cgroup import Cgroup
from haftd.host.recovery.journal import read_records
from tests.faults.harness import Ground, needs_cgroup, until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

MakeDaemon = Callable[..., RunningDaemon]
ENDS = ["exit", "failure", "abort", "limit", "left behind", "terminal", "asked away"]


def recorded(daemon: RunningDaemon) -> list[str]:
    """The ids with a live record, as the next daemon would read them."""
    return sorted(record.id for record in read_records(daemon.socket.with_name("handles.lock")))


def files(daemon: RunningDaemon) -> list[Path]:
    return list((daemon.state / "haft" / "calls").iterdir())


def end(wire: Wire, name: str, how: str) -> None:
    """Run a tool with an argument that fills a call file, check the file, and end the run in the
    given way."""
    script = {
        "exit": "read a",
        "failure": "read a; exit 3",
        "abort": "sleep 300",
        "limit": "sleep 300",
        "left behind": "sleep 300 >/dev/null 2>&1 & read a",
        "terminal": "read a",
        "asked away": "sleep 300",
    }[how]
    args = {
        # Many arguments: a single one would exceed the kernel's limit for an argument.
        "argv": ["sh", "-c", f"echo $HAFT_CALL; {script}", *["x" * 1000] * 100],
        "terminal": how == "terminal",
    }
    if how == "limit":
        args["timeout_s"] = 1
    state = wire.call(
        "spawn", tool="run", id=name, args=args, wait="pattern", pattern="/.*\n", timeout_ms=20_000
    )
    file = Path(state["content"].strip())
    assert file.parent.name == "calls" and file.stat().st_mode & 0o777 == 0o600
    assert len(json.loads(file.read_text())["tool"]["arguments"]["argv"]) == 103
    if how == "abort":
        wire.call("abort", id=name)
    elif how == "asked away":
        wire.call("session/close")
    elif how == "limit":
        wire.call("fetch", id=name, wait="stopped", timeout_ms=20_000)
    else:
        params = {"input": {"line": ""}, "wait": "stopped", "timeout_ms": 20_000}
        assert wire.call("apply", id=name, **params)["state"] == "stopped"
        if how == "left behind":
            wire.call("abort", id=name)


@pytest.mark.parametrize("how", ENDS)
def test_an_end_leaves_no_record_and_no_call_file(daemon: RunningDaemon, how: str) -> None:
    with daemon.connect() as wire:
        args = {"argv": ["cat"]}
        wire.call("spawn", session="other", tool="run", id="lives", args=args, wait="none")
        end(wire, "h", how)
        until(lambda: recorded(daemon) == ["lives"], "only what lives is recorded")
        until(lambda: not files(daemon), "no call file is left")
        assert wire.call("fetch", session="other", id="lives")["state"] == "running"
    assert daemon.stop() == 0
    assert recorded(daemon) == []


def test_a_failed_start_leaves_neither_record_nor_call_file(daemon: RunningDaemon) -> None:
    with daemon.connect() as wire:
        for argv in (["/no/such/program"], ["/"]):
            with pytest.raises(Refused, match="-32012"):
                args = {"argv": [*argv, *["x" * 1000] * 100]}
                wire.call("spawn", tool="run", id="h", args=args)
        assert files(daemon) == [] and recorded(daemon) == []


def test_a_call_file_left_by_a_crash_is_gone_after_the_next_start(daemon: RunningDaemon) -> None:
    with daemon.connect() as wire:
        args = {"argv": ["sleep", "300", *["0" * 1000] * 100]}
        wire.call("spawn", tool="run", id="h", args=args, wait="none")
    assert len(files(daemon)) == 1 and recorded(daemon) == ["h"]
    daemon.kill9()
    daemon.start()
    assert files(daemon) == [] and recorded(daemon) == []


# -- with a cgroup for each handle


@pytest.fixture
def ground() -> Iterator[Ground]:
    with Ground() as one:
        yield one


@pytest.fixture
def base(ground: Ground) -> Iterator[Path]:
    """A cgroup for the daemon's handles."""
    one = Cgroup.create(ground.cgroup.path, "told")
    yield one.path
    until(lambda: one.empty(1) and one.remove(), "the test's own cgroup is empty")


def below(base: Path) -> list[str]:
    return [path.name for path in base.iterdir() if path.is_dir()]


@needs_cgroup
@pytest.mark.parametrize("how", ENDS)
def test_a_handles_cgroup_is_removed_with_the_handle(
    make_daemon: MakeDaemon, base: Path, how: str
) -> None:
    daemon = make_daemon(f'[daemon]\ncgroup = "{base}"\n').start()
    with daemon.connect() as wire:
        status = wire.call("daemon/status")
        assert status["containment"] == "cgroup" and status["problems"] == []
        args = {"argv": ["cat"]}
        wire.call("spawn", session="other", tool="run", id="lives", args=args, wait="none")
        (row,) = wire.call("handles/list", session="other")["handles"]
        (mine,) = below(base)
        assert (base / mine / "cgroup.procs").read_text().split() == [str(row["pid"])]
        end(wire, "h", how)
        until(lambda: below(base) == [mine], "the cgroup of what has ended is removed")
    assert daemon.stop() == 0
    assert below(base) == []


@needs_cgroup
def test_a_failed_start_leaves_no_cgroup(make_daemon: MakeDaemon, base: Path) -> None:
    daemon = make_daemon(f'[daemon]\ncgroup = "{base}"\n').start()
    with daemon.connect() as wire, pytest.raises(Refused, match="-32012"):
        wire.call("spawn", tool="run", id="h", args={"argv": ["/no/such/program"]})
    until(lambda: below(base) == [], "nothing is left of it")


@needs_cgroup
@pytest.mark.parametrize("record", ["kept", "lost"])
def test_a_restart_ends_a_process_known_only_by_its_cgroup(
    make_daemon: MakeDaemon, base: Path, ground: Ground, record: str
) -> None:
    """Without tag, session, parent and guardian, the cgroup alone identifies the owner."""
    daemon = make_daemon(f'[daemon]\ncgroup = "{base}"\n').start()
    with daemon.connect() as wire:
        script = ground.tagged("(env -i setsid sleep 300 >/dev/null 2>&1 &); echo up; sleep 301")
        args = {"argv": ["sh", "-c", script]}
        wire.call("spawn", tool="run", id="h", args=args, wait="output", timeout_ms=20_000)
    until(lambda: len(asleep(base)) == 2, "both sleep")
    # Neither the daemon nor its guardian gets to clean up.
    processes = [daemon.pid, *guardians(daemon.pid)]
    assert len(processes) == 2
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    for pid in reversed(processes):
        os.kill(pid, signal.SIGKILL)
    assert daemon.process is not None
    daemon.process.wait(20)
    assert len(asleep(base)) == 2
    if record == "lost":
        daemon.socket.with_name("handles.lock").unlink()
    daemon.start()
    until(lambda: not asleep(base), "nothing of it is left")
    until(lambda: below(base) == [], "and no cgroup")
    if record == "kept":
        with daemon.connect() as wire:
            assert wire.call("fetch", id="h")["ended_by"] == {"by": "lost"}


def asleep(base: Path) -> list[int]:
    return [pid for pid in Cgroup(base).procs() if psutil.Process(pid).name() == "sleep"]


def guardians(pid: int) -> list[int]:
    children = psutil.Process(pid).children()
    return [child.pid for child in children if "guardian" in " ".join(child.cmdline())]
