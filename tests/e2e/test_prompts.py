"""`wait: input` misses no prompt of any program, and the reply to an input has the input's
effect. A prompt is missed when a call ends otherwise (`deadline`, `quiet`), or before the
program has handled the input."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.e2e.dialogues import DIALOGUES, Dialogue
from tests.e2e.prompt_programs import ASKING, C_WAYS, Notes, compiled
from tests.running_daemon import RunningDaemon
from tests.wire import Wire

BOUND_MS = 60_000
RUNS = 20

_numbers = itertools.count()
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[ -/]*[0-~])")


class Program:
    """A program on a terminal in its own session; every call waits for its input."""

    def __init__(
        self, wire: Wire, folder: Path, argv: tuple[str, ...], screen: bool = False
    ) -> None:
        self._wire, self._folder, self._screen = wire, folder, screen
        self._session = f"prompt{next(_numbers)}"
        self.took_s: list[float] = []
        args = {"argv": list(argv), "terminal": True}
        self.state = self._call("spawn", tool="run", root=str(folder), args=args)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        began = time.monotonic()
        state: dict[str, Any] = self._wire.call(
            method, session=self._session, id="p", wait="input", timeout_ms=BOUND_MS,
            view="screen" if self._screen else "delta", **params,
        )  # fmt: skip
        self.answered = time.monotonic_ns()
        self.took_s.append(time.monotonic() - began)
        return state

    def give(self, input: dict[str, Any]) -> None:
        self.state = self._call("apply", input=input)

    def wait(self) -> None:
        """Wait again."""
        self.state = self._call("fetch")

    def wait_for_output(self, timeout_ms: int) -> None:
        """Wait for more output, or for so long."""
        wait = {"wait": "output", "timeout_ms": timeout_ms}
        self.state = self._wire.call("fetch", session=self._session, id="p", **wait)

    def asks(self, pattern: str, why: object = "at the start") -> None:
        """Assert that the program waits for input and shows a prompt."""
        assert self.state.get("waited") == "input", (why, self.state)
        assert self.state["input_wanted"], (why, self.state)
        assert "certain" not in self.state["input_wanted"], (why, self.state)
        assert re.search(pattern, self.shown), (why, pattern, self.shown)

    @property
    def shown(self) -> str:
        if self._screen:
            return "\n".join(row.rstrip() for row in self.state["screen"]["lines"])
        return _ESCAPES.sub("", self.state["content"]).replace("\r\n", "\n").replace("\r", "\n")

    def end(self) -> None:
        if self.state["state"] != "stopped":
            self._wire.call("abort", session=self._session, id="p", grace_ms=0)


def hold(wire: Wire, folder: Path, dialogue: Dialogue) -> Program:
    """Have the dialogue."""
    dialogue.make(folder)
    one = Program(wire, folder, dialogue.argv, dialogue.screen)
    one.asks(dialogue.asks)
    for place, (input, shows) in enumerate(dialogue.steps):
        one.give(input)
        one.asks(shows, (place, input))
    one.end()
    return one


def ask(wire: Wire, folder: Path, argv: tuple[str, ...]) -> list[float]:
    """Hold the dialogue with a program that notes its reads; return each reply's delay after the
    program was ready, in seconds, where a clock exists."""
    notes = Notes(folder / "notes")
    one = Program(wire, folder, tuple(str(notes.path) if w == "NOTES" else w for w in argv))
    late = []
    for name, message in (("one", ""), ("two", "7"), ("three", "eight")):
        if message:
            one.give({"line": message})
        since = notes.reads_since()
        assert since is not None, (name, one.state, notes.path.read_text())
        one.asks(rf"got {message}\n{name}\? $" if message else rf"{name}\? $", name)
        if since:
            late.append((one.answered - since) / 1e9)
    one.end()
    return late


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = compiled(tmp_path_factory.mktemp("c"))
    if program is None:
        pytest.skip("no C compiler is installed")
    return str(program)


@pytest.fixture
def wire(shared_daemon: RunningDaemon) -> Iterator[Wire]:
    with Wire(shared_daemon.socket, timeout=BOUND_MS / 1000 + 10) as wire:
        yield wire


@contextmanager
def both_cores_busy(busy: bool) -> Iterator[None]:
    """Run a computing process per core, at the daemon's priority."""
    count = os.cpu_count() or 1
    spinning = [
        subprocess.Popen((sys.executable, "-I", "-S", "-c", "while True: pass"))
        for _ in range(count if busy else 0)
    ]
    yield
    for one in spinning:
        one.kill()
        one.wait()


@pytest.mark.parametrize("name", DIALOGUES)
def test_no_prompt_of_a_program_is_missed(name: str, wire: Wire, tmp_path: Path) -> None:
    missing = DIALOGUES[name].missing()
    if missing:
        pytest.skip(f"needs {missing}")
    hold(wire, tmp_path, DIALOGUES[name])


@pytest.mark.parametrize("name", ASKING)
def test_no_prompt_is_missed_or_reported_early(name: str, wire: Wire, tmp_path: Path) -> None:
    if shutil.which(ASKING[name][0]) is None:
        pytest.skip(f"needs {ASKING[name][0]}")
    ask(wire, tmp_path, ASKING[name])


@pytest.mark.parametrize("way", C_WAYS)
def test_no_prompt_in_c_is_missed(way: str, c_program: str, wire: Wire, tmp_path: Path) -> None:
    ask(wire, tmp_path, (c_program, "NOTES", way))


@pytest.mark.soak
@pytest.mark.parametrize("busy", [False, True], ids=["alone", "both cores busy"])
def test_in_many_runs_no_prompt_is_missed(
    busy: bool,
    c_program: str,
    wire: Wire,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [(name, dialogue) for name, dialogue in DIALOGUES.items() if not dialogue.missing()]
    asking = {name: argv for name, argv in ASKING.items() if shutil.which(argv[0])}
    asking |= {f"C: {way}": (c_program, "NOTES", way) for way in C_WAYS}
    missed: list[str] = []
    took: list[float] = []
    late: list[float] = []
    folders = (tmp_path / str(number) for number in itertools.count())
    with both_cores_busy(busy):
        for _ in range(RUNS):
            for name, dialogue in runs:
                folder = next(folders)
                folder.mkdir()
                try:
                    took += hold(wire, folder, dialogue).took_s
                except AssertionError as error:
                    missed.append(f"{name}: {error}")
            for name, argv in asking.items():
                folder = next(folders)
                folder.mkdir()
                try:
                    late += ask(wire, folder, argv)
                except AssertionError as error:
                    missed.append(f"{name}: {error}")
    programs = len(runs) + len(asking)
    with capsys.disabled():
        print(
            f"\nprompts{', both cores busy' * busy}: {programs * RUNS} runs of {programs} programs, "
            f"{len(took) + 3 * RUNS * len(asking)} prompts, {len(missed)} missed"
        )
        print(f"  from prompt to reply, {len(late)} with a clock: {figures(late)}")
        print(f"  a call, program and all: {figures(took)}")
    assert programs * RUNS >= 500 and programs >= 25 and not missed, missed


def figures(times: list[float]) -> str:
    ordered = sorted(times)
    return (
        f"median {median(ordered) * 1000:.1f} ms, p99 {ordered[int(len(ordered) * 0.99)] * 1000:.1f} ms, "
        f"most {ordered[-1] * 1000:.1f} ms"
    )
