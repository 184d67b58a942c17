"""`python -m tests.mutants`: draw faults, see which are caught, name the others.

The tests that mirror the changed file are run first, then those of its room, then all of them: most faults are
caught in seconds, and only one that survives costs a whole run.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .drawing import Mutant, draw
from .jail import is_caught, is_possible

ROOT = Path(__file__).parents[2]
PRODUCT = ("daemon/haftd", "protocol/haft_protocol", "clients/haft")
ROOMS = {"haft": "client", "haft_protocol": "protocol"}
WHOLE_RUN_S = 1800.0


def main() -> int:
    """Print a line for each mutant, and the share that was caught; 1 where it is below `--at-least`."""
    options = _options()
    if not is_possible():
        sys.stderr.write(
            "mutants: no namespaces can be made here, and nothing is changed without them\n"
        )
        return 2
    files = [file for root in PRODUCT for file in (ROOT / root).rglob("*.py")]
    mutants = draw(files, options.count, options.seed)[options.skip :]
    survivors: list[Mutant] = []
    for number, mutant in enumerate(mutants, options.skip + 1):
        began = time.monotonic()
        by = next(
            (stage for stage, tests in _stages(mutant, options.quick) if _dies(mutant, tests)), None
        )
        if by is None:
            survivors.append(mutant)
        shown = f"{mutant.file.relative_to(ROOT)}:{mutant.line}: {mutant.was!r} -> {mutant.text!r}"
        told = "SURVIVED" if by is None else f"caught by {by}"
        print(f"{number:3} {told:24} {time.monotonic() - began:5.0f} s  {shown}", flush=True)
    caught = len(mutants) - len(survivors)
    low, high = interval(caught, len(mutants))
    print(f"seed {options.seed}: {caught} of {len(mutants)} caught, {low:.0%} to {high:.0%}")
    return 0 if caught >= options.at_least / 100 * len(mutants) else 1


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


def _dies(mutant: Mutant, tests: list[str]) -> bool:
    jobs = 1 if len(tests) == 1 and tests[0].endswith(".py") else 4
    return bool(tests) and is_caught(mutant, tests, jobs=jobs, timeout_s=WHOLE_RUN_S)


def _stages(mutant: Mutant, quick: bool) -> Iterator[tuple[str, list[str]]]:
    """Return what is run for a mutant, nearest first: a name, and the paths of tests."""
    room = _tests_of(mutant.file)
    mirrors = sorted(str(one) for one in room.rglob(f"test_*{mutant.file.stem.strip('_')}*.py"))
    yield "its own tests", mirrors
    if room != ROOT / "tests":
        yield "its room's tests", [str(room)]
    if not quick:
        yield "all tests", ["tests"]


def _tests_of(file: Path) -> Path:
    """Return the folder that mirrors a file's room, else all tests."""
    source, room, *_ = file.relative_to(ROOT).parts[1:]
    folder = ROOT / "tests" / ROOMS.get(source, room)
    return folder if folder.is_dir() else ROOT / "tests"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many are drawn (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (%(default)s)")
    parser.add_argument("--skip", type=int, default=0, help="begin behind the first N of the draw")
    parser.add_argument("--quick", action="store_true", help="never run the whole suite")
    parser.add_argument("--at-least", type=float, default=95, help="percent to be caught")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
