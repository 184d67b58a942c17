"""A process and its output after detachment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from haftd.host.input_state.read_state import ReadState
from haftd.host.process import usage
from haftd.runtimes.process import child as room
from haftd.runtimes.process.child import Child, Output
from haftd.runtimes.process.interpreter import Plain
from haftd.runtimes.process.pipes import PipeControl
from haftd.runtimes.process.resource_limits import ResourceLimits
from haftd.testing import Recorder

from . import kit


async def test_unread_output_is_kept_when_detached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader has fallen behind: it waits for the processing of the first piece."""
    monkeypatch.setattr(room, "_DETACH_AFTER_S", 3600.0)
    for name in ("behind", "ended", "late"):
        os.mkfifo(tmp_path / name)
    late = "read x <ended; echo late; echo >late; exec sleep 60"
    call = kit.shell(f"cd {tmp_path}; echo first; ({late}) & read x <behind; exit 0")
    port = Recorder(grace_s=0.1)
    scope, behind = trio.CancelScope(), trio.Event()

    async def keep_up() -> None:
        behind.set()
        await trio.sleep_forever()

    async def run() -> None:
        with scope:
            async with await Child.start(call, port, ResourceLimits({})) as child:
                port.started(PipeControl(call, port, child))
                output = Output(child.stdout, child.emit, keep_up)
                await child.run([output], Plain())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await behind.wait()
        await trio.to_thread.run_sync((tmp_path / "behind").write_text, "\n")
        await port.until(lambda: port.end)
        await trio.to_thread.run_sync((tmp_path / "ended").write_text, "\n")
        await trio.to_thread.run_sync((tmp_path / "late").read_text)
        assert port.output == b"first\n"
        scope.cancel()
    assert port.output == b"first\nlate\n" and port.is_complete
    assert kit.lives(call) == []


async def ended_by(limits: dict[str, float]) -> str | None:
    """Return the limit that ends a program which sleeps."""
    call, port = kit.shell("exec sleep 60"), Recorder(grace_s=0.1)
    with trio.fail_after(30):
        async with await Child.start(call, port, ResourceLimits(limits)) as child:
            port.started(PipeControl(call, port, child))
            await child.run([Output(child.stdout, child.emit)], Plain())
    assert port.end is not None
    return port.end.limit


async def test_a_sum_whose_files_may_wait_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    def memory(pids: Iterable[int], bound: float) -> int:
        threads.append(threading.current_thread())
        return 2

    monkeypatch.setattr(usage, "measure_memory", memory)
    assert await ended_by({"memory": 1}) == "memory"
    assert threads and threading.current_thread() not in threads


async def test_processes_are_counted_while_a_sum_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    is_reading, is_ended = threading.Event(), threading.Event()

    def cpu_s(pids: Iterable[int]) -> float:
        if threading.current_thread() is not threading.main_thread():
            is_reading.set()
            is_ended.wait(60)
        return 0.0

    monkeypatch.setattr(usage, "read_cpu_s", cpu_s)
    monkeypatch.setattr(usage, "count_threads", lambda pids: 3 if is_reading.is_set() else 1)
    try:
        assert await ended_by({"processes": 2, "cpu_s": 60}) == "processes"
    finally:
        is_ended.set()


def test_the_age_of_a_program_on_a_pipe_is_that_since_its_gate_was_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[float] = []

    def note(pids: tuple[int, ...], inode: int, began_s: float) -> ReadState:
        times.append(began_s)
        return ReadState("unknown")

    monkeypatch.setattr("haftd.runtimes.process.pipes.read_state.read_pipe_state", note)
    reader, writer = os.pipe()
    try:
        launched = SimpleNamespace(stdin=writer, began_s=7.0)
        stage: Any = SimpleNamespace(
            child=SimpleNamespace(pid=1, ended=False, launched=launched),
            _writer=SimpleNamespace(closed=False, waiting=()),
            _has_printed=lambda: False,
        )
        PipeControl.input_state(stage)
    finally:
        os.close(reader)
        os.close(writer)
    assert times == [7.0]
