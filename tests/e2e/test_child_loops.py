"""A program that runs short children in a loop is not waiting: neither by silence, nor in
moments without a foreground job."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.child_loops import LOOPS, QUICK
from tests.e2e.test_prompts import both_cores_busy
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

AT_ONCE = 6
SOAK_WAITS = 80
FETCHES = 5
QUIET_MS = 500
WAIT_MS = 1000

_numbers = itertools.count()


def watch(wire: Wire, folder: Path, name: str, waits: int) -> Counter[str]:
    """Wait for a loop's input repeatedly, with fetches in between; count the replies: `false`
    are those that claim a prompt, or end for silence."""
    loop, session = LOOPS[name], f"loop{next(_numbers)}"
    folder.mkdir()
    loop.make(folder)

    def call(method: str, **params: Any) -> dict[str, Any]:
        state: dict[str, Any] = wire.call(method, session=session, id="p", **params)
        return state

    args = {"argv": list(loop.argv), "terminal": True}
    start = {"wait": "input", "timeout_ms": 60_000} if loop.line else {"wait": "none"}
    state = call("spawn", tool="run", root=str(folder), args=args, **start)
    if loop.line:
        assert state["waited"] == "input", state
        call("apply", input={"line": loop.line}, wait="none")
        # Its end is read as well: from now on all output is the loop's.
        call("fetch", wait="quiet", quiet_ms=100, timeout_ms=5_000)
    said: Counter[str] = Counter()
    for _ in range(waits):
        states = [call("fetch", wait="input", quiet_ms=QUIET_MS, timeout_ms=WAIT_MS)]
        states += [call("fetch") for _ in range(FETCHES)]
        assert all(state["state"] == "running" for state in states), states[-1]
        said["waits"] += 1
        said["fetches"] += FETCHES
        said["false"] += states[0]["waited"] != "deadline"
        said["false"] += sum(state.get("input_wanted") is not None for state in states)
    call("abort", grace_ms=0)
    return said


def watch_all(
    daemon: RunningDaemon, tmp: Path, names: Iterable[str], waits: int
) -> dict[str, Counter[str]]:
    """Watch each of these loops, several at once."""
    present = [name for name in names if shutil.which(LOOPS[name].argv[0])]

    def run(name: str) -> Counter[str]:
        with Wire(daemon.socket, timeout=70) as wire:
            return watch(wire, tmp / str(present.index(name)), name, waits)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(present, pool.map(run, present), strict=True))


def test_a_loop_of_short_programs_is_not_waiting(
    shared_daemon: RunningDaemon, tmp_path: Path
) -> None:
    counts = watch_all(shared_daemon, tmp_path, QUICK, 1)
    assert sum(one["waits"] for one in counts.values()) >= 5
    assert not {name: one for name, one in counts.items() if one["false"]}


@pytest.mark.soak
@pytest.mark.parametrize("busy", [False, True], ids=["alone", "both cores busy"])
def test_in_many_waits_no_loop_is_waiting(
    busy: bool,
    shared_daemon: RunningDaemon,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with both_cores_busy(busy):
        counts = watch_all(shared_daemon, tmp_path, LOOPS, SOAK_WAITS)
    whole = sum(counts.values(), Counter[str]())
    false = {name: one["false"] for name, one in counts.items() if one["false"]}
    with capsys.disabled():
        print(
            f"\nloops{', both cores busy' * busy}: {len(counts)} loops, {whole['waits']} waits, "
            f"{whole['fetches']} fetches, {whole['false']} false {false or ''}"
        )
    assert len(counts) >= 20 and whole["waits"] >= 2000 and not false
