"""`wait: input` never reports `input` while a program works, whatever the program prints, nor
between an input and its effect. The programs note their actions, so that each reply can be
judged."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.busy_programs import C_WORKER, LEAN, WORKING
from tests.e2e.prompt_programs import TURNS, Notes, compiled
from tests.e2e.test_prompts import BOUND_MS, Program, both_cores_busy
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

AT_ONCE = 6
SOAK_RUNS = 12
PAUSE_MS = 50


@dataclass
class Tally:
    """Counts of replies."""

    runs: int = 0
    programs: set[str] = field(default_factory=set)
    replies: int = 0
    others: int = 0
    """Replies of waits that ended otherwise, by quiet or a bound: no word on input."""
    false: list[object] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.runs} runs of {len(self.programs)} programs, {self.replies} replies `input`, "
            f"{self.others} others, {len(self.false)} false"
        )


def watch(wire: Wire, folder: Path, argv: tuple[str, ...], tally: Tally) -> None:
    """Wait for a program's two questions; every reported question must be real."""
    notes = Notes(folder / "notes")
    argv = tuple(str(notes.path) if word == "NOTES" else word for word in argv)
    one = Program(wire, folder, argv)
    tally.runs += 1
    tally.programs.add(f"{argv[0]} {argv[-1]}")
    for name in ("one", "two"):
        printed = ""
        end = time.monotonic() + BOUND_MS / 1000
        while True:
            printed += one.shown
            reads = notes.reads_since() is not None
            if one.state.get("waited") == "input":
                tally.replies += 1
                if not reads or not printed.endswith(f"still at work\n{name}? "):
                    tally.false.append((argv[0], argv[-1], name, printed, one.state))
                    one.end()
                    return
                break
            tally.others += 1
            assert one.state["state"] == "running" and time.monotonic() < end, one.state
            # While a program is silent, each wait ends at once.
            one.wait_for_output(PAUSE_MS)
            printed += one.shown
            one.wait()
        one.give({"line": "x"})
    one.end()


@pytest.fixture(scope="module")
def c_worker(tmp_path_factory: pytest.TempPathFactory) -> str | None:
    program = compiled(tmp_path_factory.mktemp("worker"), C_WORKER)
    return None if program is None else str(program)


def watch_all(
    daemon: RunningDaemon, tmp: Path, c_worker: str | None, names: Iterable[str], times: int = 1
) -> Tally:
    """Watch each of these programs some times, several at once."""
    jobs = [
        (number, (c_worker, *argv[1:]) if argv[0] == "C" and c_worker else argv)
        for number, argv in enumerate([WORKING[name] for name in names] * times)
        if (c_worker if argv[0] == "C" else shutil.which(argv[0]))
    ]
    tally = Tally()

    def run(job: tuple[int, tuple[str, ...]]) -> None:
        number, argv = job
        folder = tmp / str(number)
        folder.mkdir()
        with Wire(daemon.socket, timeout=BOUND_MS / 1000 + 10) as wire:
            watch(wire, folder, argv, tally)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(run, jobs))
    return tally


def test_a_working_program_is_not_waiting(
    shared_daemon: RunningDaemon, tmp_path: Path, c_worker: str | None
) -> None:
    tally = watch_all(shared_daemon, tmp_path, c_worker, LEAN)
    assert not tally.false, tally.false
    assert tally.replies == 2 * tally.runs


def take_turns(wire: Wire, folder: Path, mode: str, turns: int) -> list[object]:
    """Send an input after another; return the replies that came before the effect."""
    notes = Notes(folder / "notes")
    one = Program(wire, folder, (sys.executable, "-I", "-S", "-c", TURNS, str(notes.path), mode))
    early: list[object] = []
    for turn in range(turns):
        key = "abc"[turn % 3]
        one.give({"line": key} if mode == "line" else {"text": key})
        whole = re.search(rf"got {key}\n{turn + 1}\? $", one.shown)
        if one.state["waited"] != "input" or notes.reads_since() is None or not whole:
            early.append(one.state)
    one.end()
    return early


@pytest.mark.parametrize("mode", ["line", "raw"])
def test_no_reply_comes_between_an_input_and_its_effect(
    mode: str, shared_daemon: RunningDaemon, tmp_path: Path
) -> None:
    with shared_daemon.connect() as wire:
        assert not take_turns(wire, tmp_path, mode, 25)


@pytest.mark.soak
@pytest.mark.parametrize("busy", [False, True], ids=["alone", "both cores busy"])
@pytest.mark.parametrize("mode", ["line", "raw"])
def test_in_many_turns_no_reply_comes_between_an_input_and_its_effect(
    mode: str,
    busy: bool,
    shared_daemon: RunningDaemon,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with shared_daemon.connect() as wire, both_cores_busy(busy):
        early = take_turns(wire, tmp_path, mode, 500)
    with capsys.disabled():
        print(f"\n{mode}s{', both cores busy' * busy}: 500 applies, {len(early)} early")
    assert not early


@pytest.mark.soak
@pytest.mark.parametrize("busy", [False, True], ids=["alone", "both cores busy"])
def test_in_many_runs_no_working_program_is_waiting(
    busy: bool,
    shared_daemon: RunningDaemon,
    tmp_path: Path,
    c_worker: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with both_cores_busy(busy):
        tally = watch_all(shared_daemon, tmp_path, c_worker, WORKING, SOAK_RUNS)
    with capsys.disabled():
        print(f"\nfalse prompts{', both cores busy' * busy}: {tally}")
        for false in tally.false:
            print(false)
    assert tally.runs >= 500 and not tally.false
