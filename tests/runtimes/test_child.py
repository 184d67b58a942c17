"""A process and its output after detachment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio

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


async def test_a_sum_whose_files_may_wait_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    def memory(pids: Iterable[int], bound: float) -> int:
        threads.append(threading.current_thread())
        return 2

    monkeypatch.setattr(usage, "memory", memory)
    child = cast(Any, SimpleNamespace(_limits=ResourceLimits({"memory": 1})))
    assert await Child._passed_limit(child, (os.getpid(),)) == "memory"
    assert threads != [threading.current_thread()]
