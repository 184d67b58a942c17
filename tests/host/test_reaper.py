"""Adopted children are reaped, and no status is stolen."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haftd.host.launch.gate import best_gate
from haftd.host.launch.launched_process import Exit, leaders
from haftd.host.launch.spawn import launch
from haftd.host.process import ancestry
from haftd.host.process.identity import read_stat
from haftd.host.tree.reaper import Reaper
from tests.host.launch_helpers import (
    new_mark,
    no_record,
    plan,
    running,
)
from tests.patience import PATIENCE_S
from tests.processes import is_running
from tests.subreaper import subreaper

from .test_process_tree import script


@pytest.fixture(autouse=True)
def adopting() -> Iterator[None]:
    with subreaper():
        yield
    assert not [pid for pid in ancestry.list_children(os.getpid()) if pid not in zombies()]
    for child in zombies():
        os.waitpid(child, 0)


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold SIGCHLD back until the end, when one is delivered for all."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def zombies() -> list[int]:
    states = {pid: read_stat(pid) for pid in ancestry.list_children(os.getpid())}
    return [pid for pid, stat in states.items() if stat is not None and stat.state == "Z"]


@pytest.mark.usefixtures("lists")
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.soak)])
async def test_P30_adopted_children_are_reaped_and_no_status_is_stolen(count: int) -> None:
    adopt = f"i=0; while [ $i -lt {count} ]; do (true & ); i=$((i+1)); done; exit 7"
    async with trio.open_nursery() as nursery:
        await nursery.start(Reaper().run)

        async def run_many() -> None:
            async with running(script(adopt)) as (it, kin):
                assert await it.wait_exit() == Exit(code=7)
                await kin.wait_ended()

        async def run_library() -> None:
            for _ in range(20):
                done = await trio.run_process(["sh", "-c", "exit 7"], check=False)
                assert done.returncode == 7

        async with trio.open_nursery() as inner:
            inner.start_soon(run_many)
            inner.start_soon(run_many)
            inner.start_soon(run_library)
        with trio.fail_after(PATIENCE_S):
            while zombies():
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


async def test_an_adopted_stranger_is_reaped_after_a_while(no_brand: None) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(Reaper(delay_s=0.02).run)
        async with running(script("(true & ); read x", mark="")) as (it, _):
            with trio.fail_after(PATIENCE_S):
                while not zombies():
                    await trio.sleep(0.001)
                while zombies():
                    await trio.sleep(0.001)
            assert is_running(it.pid)
        nursery.cancel_scope.cancel()


async def test_an_unawaited_leader_is_reaped_and_keeps_its_status() -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(Reaper().run)
        launched = launch(plan("sh", "-c", "exit 8", mark=new_mark()), no_record)
        await launched.finish_start()
        launched.close()
        with trio.fail_after(PATIENCE_S):
            while launched.exit is None:
                await trio.sleep(0.001)
        assert launched.exit == Exit(code=8) and launched.pid not in leaders
        nursery.cancel_scope.cancel()


async def test_an_awaited_end_costs_the_reaper_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    best_gate()  # tried by a process that no task awaits
    turns: list[Reaper] = []
    reap = Reaper.reap

    def count(reaper: Reaper) -> bool:
        turns.append(reaper)
        return reap(reaper)

    monkeypatch.setattr(Reaper, "reap", count)
    async with trio.open_nursery() as nursery:
        await nursery.start(Reaper().run)
        await wait_all_tasks_blocked()
        async with running(script("read x")) as (it, _):
            async with trio.open_nursery() as waiting:
                waiting.start_soon(it.wait_exit)
                await wait_all_tasks_blocked()
                it.close_stdin()
            await wait_all_tasks_blocked()
            assert it.exit == Exit(code=1) and len(turns) == 1
        nursery.cancel_scope.cancel()


async def test_an_orphan_behind_an_awaited_end_is_reaped() -> None:
    """The leader, adopted first, hides it from waitid; and the signal of both is one."""
    async with trio.open_nursery() as nursery:
        await nursery.start(Reaper().run)
        orphaned = "exec 3<&0; pid=$(cat <&3 >/dev/null & echo $!); echo $pid; read x"
        async with running(script(orphaned)) as (it, _):
            assert it.stdout is not None
            await trio.lowlevel.wait_readable(it.stdout)
            orphan = int(os.read(it.stdout, 100))
            async with trio.open_nursery() as waiting:
                waiting.start_soon(it.wait_exit)
                await wait_all_tasks_blocked()
                with signals_held():
                    it.close_stdin()
                    for pid in (it.pid, orphan):
                        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            with trio.fail_after(PATIENCE_S):
                while zombies():
                    await trio.sleep(0.001)
        nursery.cancel_scope.cancel()


async def test_an_end_that_is_no_longer_awaited_is_reaped() -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(Reaper().run)
        async with running(script("read x")) as (it, _):
            async with trio.open_nursery() as waiting:
                waiting.start_soon(it.wait_exit)
                await wait_all_tasks_blocked()
                it.close_stdin()
                os.waitid(os.P_PID, it.pid, os.WEXITED | os.WNOWAIT)
                waiting.cancel_scope.cancel()
            with trio.fail_after(PATIENCE_S):
                while it.exit is None:
                    await trio.sleep(0.001)
        nursery.cancel_scope.cancel()


async def test_children_awaited_elsewhere_are_left_alone() -> None:
    reaper = Reaper()
    child = subprocess.Popen(["sh", "-c", "exit 7"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert reaper.reap()
    assert child.wait() == 7
    assert not reaper.reap()


def test_a_daemon_whose_parent_ignored_SIGCHLD_still_gets_exits() -> None:
    code = (
        "import os, subprocess\n"
        "from haftd.host.process.ancestry import become_subreaper\n"
        "become_subreaper()\n"
        "pid = os.posix_spawn('/bin/sh', ['sh', '-c', 'exit 7'], {})\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        child = subprocess.Popen([sys.executable, "-c", code], restore_signals=False)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert child.wait() == 7


TRAPPED = (
    "import ctypes, os, signal, time\n"
    "fork and os.fork() and os._exit(0)\n"
    "while fork and os.getppid() != parent: time.sleep(0.001)\n"
    "ctypes.CDLL(None).ptrace(0, 0, 0, 0)\n"
    "os.write(1, b'%d\\n' % os.getpid())\n"
    "os.kill(os.getpid(), signal.SIGUSR1)\n"
    "time.sleep(1000)\n"
)
"""PTRACE_TRACEME: the parent gets each signal of the process as a change of state, as if it had ended."""


@pytest.mark.parametrize("fork", [False, True])
async def test_a_process_that_its_parent_traces_has_not_ended(fork: bool) -> None:
    """Also an adopted one: its tracer is the daemon."""
    code = f"fork, parent = {fork}, {os.getpid()}\n{TRAPPED}"
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    async with running(plan(python, "-c", code, mark=new_mark())) as (it, kin):
        assert it.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            await trio.lowlevel.wait_readable(it.stdout)
            line += os.read(it.stdout, 100)
        pid = int(line)
        with trio.fail_after(PATIENCE_S):
            while (stat := read_stat(pid)) is None or stat.state != "t":
                await trio.sleep(0.001)
        if fork:
            await it.wait_exit()
        Reaper().reap()
        assert is_running(pid) and pid in kin.members()
        assert fork or it.reap() is None
        os.kill(pid, signal.SIGKILL)
        if fork:
            with trio.fail_after(PATIENCE_S):
                await kin.wait_ended()
        else:
            assert await it.wait_exit() == Exit(signal="KILL")
