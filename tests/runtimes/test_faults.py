"""A fault after the launch leaves no process."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from haftd.runtimes.base import Call, ExecutionControl, Runtime
from haftd.runtimes.process.runtime import ProcessRuntime
from haftd.runtimes.terminal.runtime import TerminalRuntime
from haftd.testing import Recorder
from tests.patience import PATIENCE_S

from . import kit


class _Broken(Exception):
    """A fault of a start listener."""


class _Deaf(Recorder):
    def started(self, control: ExecutionControl) -> None:
        raise _Broken


async def _breaks(runtime: Runtime, call: Call, port: Recorder) -> None:
    before = kit.fds()
    with trio.fail_after(PATIENCE_S), pytest.raises((_Broken, OSError)):
        await runtime.run(call, port)
    assert kit.lives(call) == []
    assert kit.fds() == before


@pytest.mark.parametrize("output", ["raw", "outcome", "events"])
async def test_a_failing_start_listener_leaves_no_process(output: str) -> None:
    call = kit.shell("exec sleep 1000", output=output, stdin="pipe")
    await _breaks(ProcessRuntime(), call, _Deaf(grace_s=0.1))


async def test_a_failing_start_listener_leaves_no_process_on_a_terminal() -> None:
    call = kit.shell("exec sleep 1000", terminal=True)
    await _breaks(TerminalRuntime(), call, _Deaf(grace_s=0.1))


async def test_a_live_tool_with_an_unreadable_context_leaves_no_process(tmp_path: Path) -> None:
    told = {"HAFT_CALL": str(tmp_path / "gone.json")}
    call = kit.shell("exec sleep 1000", output="events", env=told)
    await _breaks(ProcessRuntime(), call, Recorder(grace_s=0.1))
