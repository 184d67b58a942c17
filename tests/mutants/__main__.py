"""`python -m tests.mutants`: draw faults, see which are caught, name the others.

Each fault is looked for by the test files near the changed file (see `near`). The faults that survive those are looked
for, with `--all`, by all test files that call the changed function (the map of calls; see `calls`), the cheapest first:
only a fault that those do not catch is caught by no test. A test that fails is run again, alone: only one that fails
twice with the fault, and passes without, has caught the fault. Results are kept, so that a run that was ended is resumed
by the same command; faults in `equivalents.toml` are counted, but not run.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from .calls import PRODUCT, ROOT, CallMap, files_for, portions, update
from .equivalents import read_equivalents
from .fault_sample import Mutant, draw, scope_at
from .jail import is_possible, run
from .near import importers_of, mirrors_of, record_of, room_of

CACHE = ROOT / ".venv" / "mutants"
_MIN_TIMEOUT_S = 120.0
_MAX_UNSTEADY = 3


def main() -> int:
    """Print a line for each mutant, and the share caught; return 1 below `--at-least`."""
    options = _options()
    if not is_possible():
        sys.stderr.write(
            "mutants: no namespaces can be made here, and nothing is changed without them\n"
        )
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    files = [file for root in PRODUCT for file in (ROOT / root).rglob("*.py")]
    mutants = draw(files, options.count, options.seed)[options.skip :]
    options.cache.mkdir(parents=True, exist_ok=True)
    journal = Journal(options.cache / f"seed-{options.seed}.jsonl")
    equivalents = {entry.key: entry for entry in read_equivalents()}
    counts: Counter[str] = Counter()

    def judge(number: int, mutant: Mutant, verdict: str, by: str, began: float) -> None:
        counts[verdict] += 1
        shown = f"{mutant.shown(ROOT)}  {by}"
        _report(f"{number:3} {verdict:19} {time.monotonic() - began:5.0f} s  {shown}")

    survivors: list[tuple[int, Mutant]] = []
    for number, mutant in enumerate(mutants, options.skip + 1):
        began = time.monotonic()
        if (key := mutant.key(ROOT)) in equivalents:
            judge(number, mutant, "equivalent", equivalents[key].reason, began)
        elif by := journal.verdict(mutant):
            judge(number, mutant, "caught", by, began)
        elif by := _caught_by(mutant, near_stages(mutant), {}, options.jobs):
            journal.add(mutant, by)
            judge(number, mutant, "caught", by, began)
        else:
            survivors.append((number, mutant))
            judge(number, mutant, "survived near tests", "", began)
    if options.all and survivors:
        counts["survived near tests"] = 0
        calls = update(options.cache / "calls.json", jobs=options.jobs, report=_report)
        for number, mutant in survivors:
            began = time.monotonic()
            by = _caught_by(mutant, far_stages(mutant, calls), calls, options.jobs)
            journal.add(mutant, by)
            judge(number, mutant, "caught" if by else "survived", by, began)
    judged = len(mutants) - counts["equivalent"]
    low, high = interval(counts["caught"], judged)
    _report(
        f"seed {options.seed}: {len(mutants)} drawn, {counts['equivalent']} equivalent; "
        f"{counts['caught']} of {judged} caught, {low:.0%} to {high:.0%}"
    )
    if undecided := counts["survived near tests"]:
        _report(f"{undecided} survived the tests near them only: --all runs the others")
    return 0 if counts["caught"] >= options.at_least / 100 * judged else 1


def _report(line: str) -> None:
    print(line, flush=True)


class Journal:
    """The verdicts of one seed, a line each; a fault of a changed line is another fault."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._verdicts: dict[str, str] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                entry = json.loads(line)
                self._verdicts[entry["mutant"]] = entry["by"]

    def verdict(self, mutant: Mutant) -> str:
        """Return the test that caught a fault; empty for a new fault and for a survivor, which is run again."""
        return self._verdicts.get(repr(mutant.key(ROOT)), "")

    def add(self, mutant: Mutant, by: str) -> None:
        """Keep a verdict."""
        with self._path.open("a") as file:
            file.write(json.dumps({"mutant": repr(mutant.key(ROOT)), "by": by}) + "\n")


def interval(caught: int, count: int) -> tuple[float, float]:
    """Return Wilson's interval of 95 % for a share.

    >>> low, high = interval(62, 75)
    >>> f"{low:.2f} {high:.2f}"
    '0.73 0.90'
    """
    if not count:
        return 0.0, 1.0
    share, z = caught / count, 1.96
    centre = share + z * z / (2 * count)
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    whole = 1 + z * z / count
    return (centre - spread) / whole, (centre + spread) / whole


def _caught_by(mutant: Mutant, stages: Iterable[list[str]], calls: CallMap, jobs: int) -> str:
    """Return the name of a test that fails on the mutant, or an empty text."""
    for tests in stages:
        unfit = [name for test in tests if test in calls for name in calls[test].unfit]
        expected_s = sum(calls[test].seconds for test in tests if test in calls)
        timeout_s = _MIN_TIMEOUT_S + 8 * expected_s
        for _ in range(_MAX_UNSTEADY):
            workers = min(jobs, len(tests))
            result = run(mutant, tests, jobs=workers, timeout_s=timeout_s, without=unfit)
            if not result.is_red:
                break
            if not result.failures:
                # Only time tells: tests that take as long without a fault have not caught one.
                if _passes(tuple(tests), timeout_s / 2, tuple(unfit)):
                    return f"{'time' if result.is_late else 'no start'}: {tests[0]}"
                break
            failed = result.failures[0]
            if run(mutant, [failed], jobs=1, timeout_s=timeout_s).is_red and _passes(
                (failed,), timeout_s
            ):
                return failed
            unfit.append(failed)
    return ""


@cache
def _passes(tests: tuple[str, ...], timeout_s: float, unfit: tuple[str, ...] = ()) -> bool:
    """Return whether tests pass in a jail without a fault, within a time."""
    return not run(None, tests, jobs=1, timeout_s=timeout_s, without=unfit).is_red


def near_stages(mutant: Mutant) -> Iterator[list[str]]:
    """Return the test files that mirror the file of a mutant, import it, know its values, or are of its room."""
    file = str(mutant.file.relative_to(ROOT))
    seen: set[str] = set()
    for find in (mirrors_of, importers_of, record_of, room_of):
        if stage := [name for name in find(file) if name not in seen]:
            yield stage
            seen.update(stage)


def far_stages(mutant: Mutant, calls: CallMap) -> Iterator[list[str]]:
    """Return the other test files that can see a mutant, stage after stage."""
    near = {name for stage in near_stages(mutant) for name in stage}
    file = str(mutant.file.relative_to(ROOT))
    function = scope_at(mutant.file.read_bytes(), mutant.line, of_call=True)
    yield from portions(
        calls, [name for name in files_for(calls, file, function) if name not in near]
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many are drawn (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (%(default)s)")
    parser.add_argument("--skip", type=int, default=0, help="begin behind the first N of the draw")
    parser.add_argument(
        "--all", action="store_true", help="run all tests on what survives the tests near it"
    )
    parser.add_argument("--jobs", type=int, default=2, help="test processes (%(default)s)")
    parser.add_argument("--at-least", type=float, default=95, help="percent to be caught")
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help="folder of the map and the results (%(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
