"""Startup times: the daemon's first answer, and a command of the client."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.running_daemon import RunningDaemon

from . import wires
from .interleaved_timer import Case, interleave
from .report import Section, timings


def commands(daemon: RunningDaemon, folder: Path, seconds: float) -> Section:
    """Against a Python that starts and does nothing."""
    fresh = RunningDaemon(folder / "start")
    haft = Path(sys.executable).with_name("haft")
    env = daemon.env

    def nothing() -> None:
        subprocess.run([sys.executable, "-c", ""], env=env, check=True)

    def ps() -> None:
        subprocess.run([haft, "ps"], env=env, check=True, stdout=subprocess.DEVNULL)

    def start() -> None:
        fresh.start(wait=False, as_child=True)  # a program of its own, not a fork
        until_answered(fresh)

    baseline = Case("`python -c ''`", nothing)
    cases = [
        baseline,
        Case("`haft ps`, the whole command", ps),
        Case("`haftd`, from its start to its first answer", start, after=fresh.stop),
    ]
    try:
        interleave(cases, rounds=12, seconds=seconds)
    finally:
        fresh.close()
    return timings("Start", "Wall time. Baseline: the interpreter alone.", cases, baseline)


def until_answered(daemon: RunningDaemon) -> None:
    """Retry until the daemon answers."""
    end = time.monotonic() + 20
    while True:
        try:
            with wires.lines(daemon.socket) as exchange:
                exchange(wires.message("ping"))
            return
        except OSError:
            if time.monotonic() > end:
                raise AssertionError(daemon.log_text()) from None
            time.sleep(0.001)
