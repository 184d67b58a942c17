"""Run every task through every driver, in random order, and print a table. Time is taken from
the first call to the last; the daemon, `haft mcp` and the tmux server run before. Medians are those of
the runs that succeeded."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pexpect

from tests.bench.report import Section, spell
from tests.running_daemon import RunningDaemon

from .account import Account
from .expect import Expect
from .haft import Haft
from .mcp import HaftMcp
from .task import Task
from .tasks import TASKS
from .tmux import Server, Tmux

_WAYS = ("haft", "haft mcp", "tmux", "pexpect", "pexpect, tuned")
_OURS = ("haft", "haft mcp")

_Driver = Haft | HaftMcp | Tmux | Expect


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run; `wrong` names the fault."""

    wrong: str | None
    seconds: float
    account: Account


def once(task: Task, driver: _Driver, folder: Path) -> Outcome:
    """Prepare a folder, do `task` in the folder, and check."""
    began = time.perf_counter()
    answer, wrong = "", None
    try:
        match driver:
            case HaftMcp():
                answer = task.mcp(driver)
            case Haft():
                answer = task.haft(driver)
            case Tmux():
                answer = task.tmux(driver)
            case Expect():
                answer = task.pexpect(driver)
    except Exception as failed:
        wrong = f"{type(failed).__name__}: {failed}"
    seconds = time.perf_counter() - began
    driver.close()
    return Outcome(wrong or task.check(folder, answer), seconds, driver.account)


Outcomes = dict[str, list[Outcome]]
"""The runs of a task, by the way it was done."""


def compare(
    tasks: Sequence[Task], daemon: RunningDaemon, folder: Path, runs: int
) -> dict[str, Outcomes]:
    """Do every task so many times in each way that this machine has."""
    env = _environment(daemon)
    ways: dict[str, Callable[[Path], _Driver]] = {
        "haft": lambda place: Haft(daemon.socket, place),
        "haft mcp": lambda place: HaftMcp(daemon, place),
        "pexpect": lambda place: Expect(place, env),
        "pexpect, tuned": lambda place: Expect(place, env, tuned=True),
    }
    server = Server(folder, env) if shutil.which("tmux") else None
    if server is not None:
        ways["tmux"] = lambda place: Tmux(server, place)
    found: dict[str, Outcomes] = {task.title: {way: [] for way in ways} for task in tasks}
    try:
        for run in range(runs):
            for task in tasks:
                for way in random.sample(sorted(ways), len(ways)):
                    place = folder / f"{run}-{way}"
                    place.mkdir()
                    task.prepare(place, random.Random(run))
                    outcome = once(task, ways[way](place), place)
                    found[task.title][way].append(outcome)
                    if outcome.wrong:
                        print(f"{task.title}, {way}: {outcome.wrong}\n", file=sys.stderr)
                    shutil.rmtree(place)
    finally:
        if server is not None:
            server.close()
    return found


def _environment(daemon: RunningDaemon) -> dict[str, str]:
    """Return the daemon's environment, without variables that steer git."""
    kept = {name: value for name, value in daemon.env.items() if not name.startswith("TMUX")}
    return {**kept, "LANG": "C.UTF-8", "EDITOR": "vim"}


def drive(daemon: RunningDaemon, folder: Path, runs: int) -> Section:
    """The table of all tasks."""
    note = _note(runs)
    return table(compare(TASKS, daemon, folder, runs), note)


def table(found: Mapping[str, Outcomes], note: str) -> Section:
    """A row a task and way, and the sums."""
    # fmt: off
    columns = [
        "", "", "succeeded", "calls", "sleeps", "bytes read", "share", "floor", "whole replies", "time",
    ]
    # fmt: on
    section = Section("Driving programs", note, columns)
    costs = {
        title: {way: _median(_good(outcomes[way])) for way in _WAYS if way in outcomes}
        for title, outcomes in found.items()
    }
    for title, ways in costs.items():
        tried = {
            way: f"{sum(one.wrong is None for one in found[title][way])} of {len(found[title][way])}"
            for way in ways
        }
        section.rows += _rows(title, ways, tried)
    sums = {
        way: _Cost(
            *map(sum, zip(*(cost[way] for cost in costs.values() if way in cost), strict=True))
        )
        for way in _WAYS
        if any(way in cost for cost in costs.values())
    }
    section.rows += _rows("all of them", sums, dict.fromkeys(sums, ""))
    return section


def _rows(title: str, ways: Mapping[str, _Cost], tried: Mapping[str, str]) -> list[list[str]]:
    """Return a task's rows, with haft's bytes as a share of the better of the other drivers'."""
    better = min((cost.read for way, cost in ways.items() if way not in _OURS), default=0)
    rows: list[list[str]] = []
    for way, cost in ways.items():
        shares = ["", ""]
        if way in _OURS and better:
            shares = [f"{cost.read / better:.2f}", f"{cost.floor / better:.2f}"]
        counts = [f"{count:,.0f}" for count in (cost.calls, cost.sleeps, cost.read)]
        counts += [*shares, f"{cost.whole:,.0f}", spell(cost.seconds)]
        rows.append(["" if rows else title, way, tried[way], *counts])
    return rows


def _good(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    return [outcome for outcome in outcomes if outcome.wrong is None] or outcomes


class _Cost(NamedTuple):
    calls: float
    sleeps: float
    read: float
    floor: float
    whole: float
    seconds: float


def _median(outcomes: Sequence[Outcome]) -> _Cost:
    costs = [
        _Cost(
            outcome.account.calls,
            outcome.account.sleeps,
            outcome.account.read,
            outcome.account.floor,
            outcome.account.whole,
            outcome.seconds,
        )
        for outcome in outcomes
    ]
    return _Cost(*map(statistics.median, zip(*costs, strict=True)))


def _note(runs: int) -> str:
    tmux = "tmux is not here"
    if shutil.which("tmux"):
        tmux = subprocess.check_output(["tmux", "-V"], text=True).strip()
    return (
        f"The same work through haft, `haft mcp`, {tmux} and pexpect {pexpect.__version__}, {runs} times each, in "
        "turns; medians of the runs that succeeded, and their sums. What was done decides, checked alike "
        "for all. *calls*: requests to haft, runs of tmux, methods of pexpect that send or wait. *sleeps*: "
        "pauses because a script, or pexpect itself, cannot know when to go on. *bytes read*: of haft the "
        "output (view `answer`: without the echo of what was typed), screen and prompt of each reply, of "
        "`haft mcp` each reply's whole text, header line and all, of tmux the last capture of each step, of pexpect `before` and `after`. *tuned*: pexpect without the "
        "50 ms for which it pauses before each send, as these programs happen not to need them. *share*: "
        "haft's bytes of those of the better of the others; *floor*: the share of what the program itself "
        "says in the replies that are read, without "
        "echo and prompts, which no way of driving it can leave out, for `haft mcp` all but the header lines; "
        "`max_bytes` leaves out what need not be read beside haft's prompt, the others have to look at what "
        "they wait for. *whole replies*: with all of their JSON. The build prints what looks like "
        "questions, and pauses: the others take it for one when a second has passed in silence, and the "
        "longest pause of a build is drawn from half a second to one and a half. Load average before: "
        f"{' '.join(f'{load:.1f}' for load in os.getloadavg())}."
    )
