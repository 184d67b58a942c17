from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from haftd.host.input_state.read_state import ReadState, read_pipe_state
from haftd.host.launch.launched_process import LaunchedProcess
from tests.host.launch_helpers import plan, running
from tests.host.readings import DEADLINE_S, python


@asynccontextmanager
async def piped(*argv: str) -> AsyncIterator[tuple[LaunchedProcess, Callable[[], ReadState]]]:
    async with running(plan(*argv, stdin="pipe")) as (it, _):
        assert it.stdin is not None
        inode = os.fstat(it.stdin).st_ino
        yield it, lambda: read_pipe_state((it.pid,), inode)


async def until(look: Callable[[], ReadState], *states: str) -> ReadState:
    now = ReadState("unknown")
    with trio.move_on_after(DEADLINE_S):
        while (now := look()).state not in states:
            await trio.sleep(0.002)
        return now
    raise AssertionError(f"{now}, not {states}")


@pytest.mark.parametrize("way", ["cat", "poll", "child"])
async def test_a_process_waiting_on_the_pipe_reads(way: str) -> None:
    argv = {
        "cat": ("cat",),
        "poll": python("import select", "select.select([0], [], [], 50)"),
        "child": ("sh", "-c", "cat; :"),
    }[way]
    async with piped(*argv) as (it, look):
        now = await until(look, "reads")
        assert (now.kind, now.certain, now.within_ms is not None) == ("line", True, way == "poll")
        assert (now.pids == (it.pid,)) is (way != "child")


async def test_a_process_doing_something_else_does_not_read_its_pipe() -> None:
    lines = ("import os", "r, w = os.pipe()", "print('> ', flush=True)", "os.read(r, 1)")
    for argv in (python(*lines), ("sleep", "1000")):
        async with piped(*argv) as (_, look):
            for _ in range(20):
                now = await until(look, "busy", "reads")
                assert (now.state, now.certain) == ("busy", True)
                await trio.sleep(0.002)


async def test_a_pipe_reader_has_consumed_earlier_input() -> None:
    async with piped("cat") as (it, look):
        await until(look, "reads")
        assert it.stdin is not None and it.stdout is not None
        for turn in range(300):
            os.write(it.stdin, b"line %d\n" % turn)
            while look().state != "reads":
                await trio.lowlevel.checkpoint()
            assert os.read(it.stdout, 100) == b"line %d\n" % turn


async def test_a_pipe_without_a_program_is_unknown() -> None:
    assert read_pipe_state((), 1).state == "unknown"
    async with piped("true") as (it, look):
        await it.wait_exit()
        assert look().state == "unknown"
