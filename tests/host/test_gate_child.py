"""A start that soon follows another leaves a child at its gate for the next one, which keeps nothing of the daemon's but the
socket, runs nothing by itself, and ends half a second later, or with the daemon."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio.testing

from haftd.host import timer
from haftd.host.launch import gate_child
from haftd.host.launch.gate import Gate, interpreter_gate, machine_gate
from haftd.host.launch.gate_child import GateChild, keep_spare, leave_spare, take
from haftd.host.launch.launched_process import Exit
from haftd.host.launch.program import LaunchFailed
from haftd.host.launch.spawn import launch
from haftd.host.process.ancestry import abandoned, helpers, list_children
from haftd.host.process.identity import Identity, read_stat
from haftd.host.tree.process_tree import ProcessTree
from haftd.host.tree.reaper import Reaper
from tests.host.launch_helpers import (
    new_mark,
    no_record,
    open_fds,
    plan,
    run,
    running,
)
from tests.patience import PATIENCE_S
from tests.processes import is_running


@pytest.fixture
def gate() -> Gate:
    found = machine_gate()
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a start leave a child that waits, also on a busy machine."""
    assert gate_child._MAX_AGE_S == 0.5
    monkeypatch.setattr(gate_child, "_MAX_AGE_S", PATIENCE_S)
    monkeypatch.setattr(gate_child._spare, "started_s", float("inf"))


@pytest.fixture
def kept(gate: Gate) -> Iterator[None]:
    with keep_spare():
        yield


@asynccontextmanager
async def reaping() -> AsyncIterator[None]:
    """Run a reaper that waits for ever before it reaps a child that may be a library's: the kernel shows no
    other end behind such a child's, so those that other tests have left are reaped before."""
    reap_zombies()
    async with trio.open_nursery() as nursery:
        await nursery.start(Reaper(delay_s=1e6).run)
        yield
        nursery.cancel_scope.cancel()


def reap_zombies() -> None:
    for pid in list_children(os.getpid()):
        stat = read_stat(pid)
        if stat is not None and stat.state == "Z":
            os.waitpid(pid, 0)


async def until_reaped(pid: int) -> None:
    with trio.fail_after(PATIENCE_S):
        while pid in helpers or pid in abandoned or is_running(pid):
            await trio.sleep(0.001)
    assert not Path(f"/proc/{pid}").exists(), "the status was not taken"


def drop(child: GateChild) -> None:
    """Close a shut gate, and take the status."""
    child.close()
    os.waitpid(child.pid, 0)
    os.close(child.pidfd)


def spare() -> int:
    child = gate_child._spare.child
    assert child is not None
    return child.pid


def has_ended(pidfd: int, within_ms: float = PATIENCE_S * 1000) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(within_ms))


@pytest.mark.usefixtures("kept")
async def test_a_start_runs_in_the_child_that_the_last_one_has_left() -> None:
    async with running(plan("true")) as (first, _):
        waiting = spare()
        assert waiting != first.pid
    recorded: list[Identity] = []
    async with running(plan("cat", stdin="pipe"), record=recorded.append) as (second, _):
        assert second.pid == recorded[0].pid == waiting and second.identity == recorded[0]
        assert os.getsid(second.pid) == second.pid
        assert spare() != waiting


async def test_no_child_is_left_unless_one_is_to_be_kept(gate: Gate) -> None:
    timer.cancel(int)  # makes the loop's timer
    before = open_fds()
    async with running(plan("true")):
        assert gate_child._spare.child is None
    with keep_spare():
        async with running(plan("true")):
            pidfd = os.pidfd_open(spare())
    assert has_ended(pidfd) and not helpers
    os.close(pidfd)
    assert open_fds() == before


async def test_no_child_is_left_where_the_next_start_follows_at_once() -> None:
    is_wanted = False
    with keep_spare(lambda: is_wanted):
        async with running(plan("true")):
            assert gate_child._spare.child is None
        is_wanted = True
        async with running(plan("true")):
            assert is_running(spare())


@pytest.mark.usefixtures("kept")
async def test_a_start_that_comes_alone_leaves_no_child(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_child._spare, "started_s", float("-inf"))
    async with running(plan("true")):
        assert gate_child._spare.child is None
    later_s = gate_child._spare.started_s + PATIENCE_S
    with monkeypatch.context() as patched:
        patched.setattr(gate_child, "_read_clock_s", lambda: later_s)
        async with running(plan("true")):
            assert gate_child._spare.child is None
    monkeypatch.setattr(gate_child._spare, "started_s", gate_child._read_clock_s())
    async with running(plan("true")):
        assert is_running(spare())


@pytest.mark.usefixtures("kept")
async def test_a_waiting_child_has_one_descriptor_no_variable_and_little_memory(gate: Gate) -> None:
    leave_spare(gate)
    folder = Path(f"/proc/{spare()}")
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    while status["State"].split()[0] != "S":
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    assert [name.name for name in (folder / "fd").iterdir()] == ["3"]
    assert (folder / "fd" / "3").readlink().name.startswith("socket:")
    assert (folder / "environ").read_bytes() == b""
    assert int(status["VmRSS"].split()[0]) <= 128, "KiB"


@pytest.mark.usefixtures("kept")
async def test_a_killed_spare_is_replaced(gate: Gate) -> None:
    timer.cancel(int)  # makes the loop's timer
    before = open_fds()
    for reaped in (False, True):
        leave_spare(gate)
        pid = spare()
        os.kill(pid, signal.SIGKILL)
        if reaped:  # as by the reaper
            os.waitpid(pid, 0)
            helpers.discard(pid)
        else:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        child = take(gate)
        assert child.pid != pid and child.can_run() and not is_running(pid)
        assert not helpers and not abandoned
        drop(child)
        assert open_fds() == before


@pytest.mark.usefixtures("kept")
async def test_a_stopped_spare_holds_no_start_up(gate: Gate) -> None:
    async with reaping():
        leave_spare(gate)
        stopped = spare()
        os.kill(stopped, signal.SIGSTOP)
        os.waitid(os.P_PID, stopped, os.WSTOPPED | os.WNOWAIT)
        child = take(gate)
        assert child.pid != stopped
        drop(child)
        await until_reaped(stopped)


@pytest.mark.usefixtures("kept")
async def test_an_old_spare_is_not_used_and_its_end_not_waited_for(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be older than its time, as on a machine that was suspended."""
    options: list[int] = []
    waitid = os.waitid

    def note(kind: int, id: int, flags: int) -> os.waitid_result | None:
        options.append(flags)
        return waitid(kind, id, flags)

    async with reaping():
        leave_spare(gate)
        old = spare()
        with monkeypatch.context() as patched:
            patched.setattr(gate_child, "_read_clock_s", lambda: gate_child._spare.until_s)
            patched.setattr(os, "waitid", note)
            child = take(gate)
        assert child.pid != old and options and all(flags & os.WNOHANG for flags in options)
        drop(child)
        await until_reaped(old)


async def test_a_spare_for_which_no_start_comes_ends(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_child, "_MAX_AGE_S", 0.01)
    timer.cancel(int)  # makes the loop's timer
    async with reaping():
        before = open_fds()
        with keep_spare():
            leave_spare(gate)
            pid = spare()
            await until_reaped(pid)
            assert gate_child._spare.child is None and open_fds() == before


@pytest.mark.usefixtures("kept")
async def test_a_spare_is_left_only_where_a_timer_ends_it(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer, "call_in", lambda *of: False)
    leave_spare(gate)
    assert gate_child._spare.child is None


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("is_moved", [False, True])
async def test_a_program_begins_when_its_gate_opens(gate: Gate, *, is_moved: bool) -> None:
    """Its process is older by the time that the child has waited."""
    times: list[float] = []

    def note(_: object) -> None:
        times.append(time.clock_gettime(time.CLOCK_BOOTTIME))

    group: Any = SimpleNamespace(add=note) if is_moved else None
    leave_spare(gate)
    waiting = spare()
    launched = launch(plan("true"), note, gate, group)
    await launched.finish_start()
    note(None)
    assert launched.pid == waiting and len(times) == 2 + is_moved
    assert times[-2] <= launched.began_s <= times[-1]
    assert await launched.wait_exit() == Exit(code=0)
    launched.close()


async def test_a_child_that_is_killed_at_its_gate_has_started_nothing(gate: Gate) -> None:
    """The exit shows it, not the opening of the gate."""

    def kill(identity: Identity) -> None:
        os.kill(identity.pid, signal.SIGKILL)
        os.waitid(os.P_PID, identity.pid, os.WEXITED | os.WNOWAIT)

    launched = launch(plan("true"), kill, gate)
    await launched.finish_start()
    assert await launched.wait_exit() == Exit(signal="KILL")
    launched.close()


@pytest.mark.usefixtures("kept")
async def test_a_spare_that_cannot_be_forked_fails_no_start(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_spare(gate)

    def refuse(*_: object, **__: object) -> int:
        raise BlockingIOError("no process")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    assert await run(plan("echo", "ran"), gate) == "ran\n"
    assert gate_child._spare.child is None
    with pytest.raises(LaunchFailed):
        launch(plan("true"), no_record, gate)


@pytest.mark.usefixtures("kept")
async def test_another_gate_does_not_take_the_spare(gate: Gate) -> None:
    leave_spare(gate)
    waiting = spare()
    assert await run(plan("echo", "ran"), interpreter_gate()) == "ran\n"
    assert spare() == waiting


@pytest.mark.usefixtures("kept")
async def test_other_tasks_have_a_turn_before_the_start_of_a_program_that_runs_already(
    gate: Gate,
) -> None:
    """They see the pending state, of which subscribers are told."""
    leave_spare(gate)
    launched = launch(plan("true"), no_record, gate)
    os.waitid(os.P_PID, launched.pid, os.WEXITED | os.WNOWAIT)
    with trio.testing.assert_checkpoints():
        await launched.finish_start()
    assert await launched.wait_exit() == Exit(code=0)
    launched.close()


@pytest.mark.usefixtures("kept")
async def test_a_spare_is_no_process_of_any_handle(gate: Gate) -> None:
    mark = new_mark()
    reap_zombies()
    async with running(plan("true", mark=mark)) as (launched, _):
        tree = ProcessTree(launched, mark)
        assert await launched.wait_exit() == Exit(code=0)
        assert is_running(spare()) and tree.members() == () and tree.check_over()


@pytest.mark.parametrize("is_spare", [False, True])
async def test_words_as_many_as_linux_takes(gate: Gate, *, is_spare: bool) -> None:
    """Far more than a socket holds; and more than it takes, which is refused."""
    words = ["x" * 100_000] * 15
    with keep_spare():
        if is_spare:
            leave_spare(gate)
        script = 'for word; do printf %s "$word"; done | wc -c'
        assert await run(plan("sh", "-c", script, "sh", *words), gate) == "1500000\n"
        for number in (60, 100):
            with pytest.raises(LaunchFailed) as caught:
                await run(plan("true", *["x" * 100_000] * number), gate)
            assert caught.value.reason == "size"


async def test_words_of_characters_with_several_bytes(gate: Gate) -> None:
    """Each address counts bytes, also behind bytes that are no UTF-8."""
    odd = os.fsdecode(b"\xff")
    script = 'printf %s "$0 $1 $MINE" | od -An -v -tx1 | tr -d " \\n"'
    spec = plan("sh", "-c", script, f"é{odd}", "→", env={"MINE": f"ü{odd}€"})
    expected = b"\xc3\xa9\xff \xe2\x86\x92 \xc3\xbc\xff\xe2\x82\xac"
    assert await run(spec, gate) == expected.hex()


def test_a_spare_ends_with_its_daemon() -> None:
    script = """
import os, signal, trio
from haftd.host.launch.gate import best_gate
from haftd.host.launch.gate_child import _spare, keep_spare, leave_spare
async def main():
    with keep_spare():
        for _ in range(2):
            leave_spare(best_gate())
        print(_spare.child.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
trio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    try:
        pidfd = os.pidfd_open(int(done.stdout))
    except ProcessLookupError:
        return
    assert has_ended(pidfd), "the child outlived its daemon"
    os.close(pidfd)
