"""Compare this checkout's commit with another, interleaved in one run. Each commit is exported
and served by a daemon of its own, in this environment's interpreter. A ratio is taken within
a round; the interval is a bootstrap over the rounds. Exits with 1 where an interval lies
wholly above `--bound`."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.running_daemon import RunningDaemon

from . import wires
from .interleaved_timer import Case, interleave
from .report import spell
from .startup import until_answered

ROOT = Path(__file__).parents[2]
SOURCES = ("daemon", "protocol", "clients")
RESAMPLES = 2000


class Side:
    """A commit: exported sources, a daemon that runs them, and a connection to the daemon."""

    def __init__(self, commit: str, folder: Path) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", str(self.tree)], input=archive, check=True)
        path = ":".join(str(self.tree / name) for name in SOURCES)
        self.daemon = RunningDaemon(folder / "d", env={"PYTHONPATH": path})
        self.fresh = RunningDaemon(folder / "f", env={"PYTHONPATH": path})
        self._check()

    def _check(self) -> None:
        """Check that the daemon runs this commit's sources."""
        code = "import haftd, haft, haft_protocol as p; print(haftd.__file__, haft.__file__, p.__file__)"
        files = self.run("-c", code).split()
        assert all(file.startswith(str(self.tree)) for file in files), files

    def run(self, *arguments: str) -> str:
        """Run Python on these sources and return the output."""
        return subprocess.run(
            [sys.executable, *arguments],
            env=self.daemon.env,
            cwd="/",
            check=True,
            capture_output=True,
            text=True,
        ).stdout


def compare(base: Side, head: Side, seconds: float) -> list[tuple[Case, Case]]:
    """Time the same steps on both sides, interleaved; return the cases of each step, the base
    first."""
    with ExitStack() as stack:
        for side in (base, head):
            side.daemon.start()
            stack.callback(side.daemon.close)
            stack.callback(side.fresh.close)
        before, after = (_steps(side, stack) for side in (base, head))
        pairs = [(before[name], after[name]) for name in before]
        for pair in pairs:
            interleave(pair, rounds=60, seconds=seconds)
    return pairs


def _steps(side: Side, stack: ExitStack) -> dict[str, Case]:
    exchange = stack.enter_context(wires.lines(side.daemon.socket))

    def call(method: str, **params: object) -> Callable[[], bytes]:
        request = wires.message(method, **params)
        reply = json.loads(exchange(request))
        assert "result" in reply, reply
        return lambda: exchange(request)

    ping = wires.message("ping")
    batch = b"[%b]" % b",".join([ping] * 10)
    call("spawn", tool="run", id="pipe", args={"argv": ["cat"]}, wait="none")
    quiet = ["sh", "-c", "stty -echo && echo ready && exec cat"]
    call(
        "spawn",
        tool="run",
        id="tty",
        args={"argv": quiet, "terminal": True},
        wait="pattern",
        pattern="ready",
    )
    call("spawn", tool="shell", id="sh", wait="input")
    line = {"input": {"line": "six times seven"}, "wait": "output"}
    true = {"tool": "run", "args": {"argv": ["true"]}, "wait": "stopped"}
    true_tty = {**true, "args": {"argv": ["true"], "terminal": True}}

    def connect() -> None:
        with wires.lines(side.daemon.socket) as other:
            other(ping)

    def start() -> None:
        side.fresh.start(wait=False)
        until_answered(side.fresh)

    daemon = side.daemon.pid
    steps: dict[str, tuple[Callable[[], object], int, Callable[[], object] | None]] = {
        "ping": (call("ping"), 200, None),
        "ping, on a new connection": (connect, 50, None),
        "a batch of ten pings": (lambda: exchange(batch), 100, None),
        "fetch of a small handle": (call("fetch", id="pipe"), 200, None),
        "a line to cat on a pipe": (call("apply", id="pipe", **line), 50, None),
        "a line to cat on a terminal": (call("apply", id="tty", **line), 50, None),
        "a command to the shell": (call("apply", id="sh", input={"line": "true"}), 10, None),
        "true, from spawn to stopped": (call("spawn", id="t", **true), 10, None),
        "the same on a terminal": (call("spawn", id="u", **true_tty), 10, None),
        "haft ps": (lambda: side.run("-m", "haft", "ps"), 2, None),
        "haftd, start to answer": (start, 1, side.fresh.stop),
    }
    return {
        name: Case(name, step, daemon, per_round, after)
        for name, (step, per_round, after) in steps.items()
    }


def ratios(base: Case, head: Case) -> list[float]:
    """Return the head's duration over the base's, per round."""
    pairs = zip(head.rounds, base.rounds, strict=True)
    return [statistics.median(times) / statistics.median(others) for times, others in pairs]


def interval(values: Sequence[float], seed: int = 1) -> tuple[float, float]:
    """Return the bootstrap interval of 95 % of the median.

    >>> interval([1.0] * 9)
    (1.0, 1.0)
    """
    chance = random.Random(seed)
    medians = sorted(
        statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    return medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]


def main() -> int:
    """Compare, print a table, and exit with 1 if anything is slower."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.commits", description=__doc__)
    parser.add_argument("base", help="a commit to compare with")
    parser.add_argument("head", nargs="?", default="HEAD", help="the commit that is compared")
    parser.add_argument("--seconds", type=float, default=12.0, help="about, for each step")
    parser.add_argument("--bound", type=float, default=1.05, help="of the ratio (%(default)s)")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hc-"))
    slower = []
    try:
        base, head = Side(options.base, folder / "b"), Side(options.head, folder / "h")
        print(f"| step | {options.base} | {options.head} | ratio | interval |")
        print("| --- | ---: | ---: | ---: | --- |")
        for before, after in compare(base, head, options.seconds):
            of_rounds = ratios(before, after)
            low, high = interval(of_rounds)
            middle = statistics.median(of_rounds)
            print(
                f"| {before.name} | {spell(before.median)} | {spell(after.median)} | {middle:.2f} "
                f"| {low:.2f} to {high:.2f}{' **slower**' if low > options.bound else ''} |"
            )
            slower += [before.name] if low > options.bound else []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
