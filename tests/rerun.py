"""Run the few failed tests again, each alone, and report them. A race that a busy machine shows
once in ten thousand tests must neither hide the verdict on the others nor be hidden: the run
passes only when each of these tests passes every repetition, and its last lines name them.
Usage: `python -m tests.rerun STATUS FILE`, with the exit status of the run before and the
names of its failed tests."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

MAX_TESTS = 3
REPETITIONS = 3
_TESTS_FAILED = 1


def run_alone(tests: Sequence[str]) -> int:
    """Run these tests in order, and return the exit status of pytest."""
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "0", *tests]).returncode


def main(status: int, names: Path, run: Callable[[Sequence[str]], int] = run_alone) -> int:
    """Return the exit status of the whole run, 0 if every failed test has passed each time now."""
    failed = names.read_text().splitlines() if names.exists() else []
    if status != _TESTS_FAILED or not 0 < len(failed) <= MAX_TESTS:
        return status
    print(
        f"\n{len(failed)} failed beside the others; again, alone, {REPETITIONS} times:", flush=True
    )
    for _ in range(REPETITIONS):
        if (again := run(failed)) != 0:
            return again
    for name in failed:
        print(
            f"UNSTEADY: {name} failed beside the others and passed alone; there is a race to mend"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2])))
