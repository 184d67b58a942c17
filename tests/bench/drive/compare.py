"""Every task in every way, in turns, and the table of what it took.

Rules: in each round a task is done in all ways, in random order, on equal folders. What is timed
reaches from the first call to the last; the daemon and the tmux server run before. Medians are
those of the runs that succeeded.
"""

from __future__ import annotations

import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.report import Section, spell
from tests.running import RunningDaemon

from .account import Account
from .expect import Expect
from .haft import Haft
from .task import Task
from .tmux import Server, Tmux

__all__ = ["Outcome", "compare", "once", "table"]

_Driver = Haft | Tmux | Expect


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run; `wrong` says what is, if anything."""

    wrong: str | None
    seconds: float
    account: Account


def once(task: Task, driver: _Driver, folder: Path) -> Outcome:
    """Do `task` in a folder that is prepared for it, and check."""
    began = time.perf_counter()
    answer, wrong = "", None
    try:
        match driver:
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
        "pexpect": lambda place: Expect(place, env),
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
    """That of the daemon and so of what it starts, without what git is told by others."""
    kept = {name: value for name, value in daemon.env.items() if not name.startswith("TMUX")}
    return {**kept, "LANG": "C.UTF-8", "EDITOR": "vim"}


def table(found: Mapping[str, Outcomes]) -> Section:
    """One row a task and way."""
    section = Section(
        "Driving programs",
        "",
        ["", "", "succeeded", "calls", "sleeps", "bytes read", "whole replies", "time"],
    )
    for title, outcomes in found.items():
        for way in ("haft", "tmux", "pexpect"):
            if way in outcomes:
                section.rows.append([title, way, *_cells(outcomes[way])])
                title = ""
    return section


def _cells(outcomes: Sequence[Outcome]) -> list[str]:
    good = [one for one in outcomes if one.wrong is None]
    of = good or outcomes

    def median(value: Callable[[Outcome], float]) -> float:
        return statistics.median(map(value, of))

    return [
        f"{len(good)} of {len(outcomes)}",
        f"{median(lambda one: one.account.calls):.0f}",
        f"{median(lambda one: one.account.sleeps):.0f}",
        f"{median(lambda one: one.account.read):,.0f}",
        f"{median(lambda one: one.account.whole):,.0f}",
        spell(median(lambda one: one.seconds)),
    ]
