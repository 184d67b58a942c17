"""Run tests on one changed file, without changing the checkout. The changed file is mounted over
the original in a mount namespace, with an empty folder over its bytecode; a pid namespace
ends every process with the run; HOME and TMPDIR are the run's own. Needs the right to make
namespaces, as root has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .fault_sample import Mutant

_MOUNT = """
set -e
if [ -n "$MUTANT_FILE" ]; then
  mount --bind "$MUTANT_FILE" "$MUTANT_OVER"
  mkdir -p "$MUTANT_CACHE"
  mount -t tmpfs none "$MUTANT_CACHE"
fi
exec "$@"
"""
_UNSHARE = ("unshare", "-mpf", "--kill-child", "--mount-proc")
_PASSED, _FAILED, _INTERRUPTED, _NO_TESTS = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Result:
    """One run: the names of the tests that failed, and the seconds taken.

    A file that cannot be collected is named in place of its tests. A run over its time has `is_late`.
    """

    failures: tuple[str, ...]
    seconds: float
    is_late: bool = False
    is_broken: bool = False

    @property
    def is_red(self) -> bool:
        """Return whether the tests did not all pass."""
        return self.is_late or self.is_broken or bool(self.failures)


def is_possible() -> bool:
    """Return whether this process may make the namespaces that a jail is made of."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def run(
    mutant: Mutant | None,
    tests: Sequence[str],
    *,
    jobs: int,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    without: Sequence[str] = (),
    is_whole: bool = False,
) -> Result:
    """Run tests on a mutant, or on the sources as they are; up to the first failure, unless `is_whole`.

    `without` are names of tests that are left out. Raises RuntimeError where pytest cannot run at all.
    """
    with tempfile.TemporaryDirectory(prefix="hm-") as folder:
        home = Path(folder, "h")
        home.mkdir()
        variables = {**os.environ, "HOME": str(home), "TMPDIR": folder, "MUTANT_FILE": ""}
        if mutant is not None:
            changed = Path(folder, mutant.file.name)
            changed.write_bytes(mutant.applied(mutant.file.read_bytes()))
            variables |= {
                "MUTANT_FILE": str(changed),
                "MUTANT_OVER": str(mutant.file.resolve()),
                "MUTANT_CACHE": str(mutant.file.resolve().parent / "__pycache__"),
            }
        words = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=no", "-rfE"]
        words += [] if is_whole else ["-x"]
        words += ["-n", str(jobs), "--dist", "loadfile"] if jobs > 1 else ["-n", "0"]
        words += [f"--deselect={name}" for name in without]
        began = time.monotonic()
        try:
            done = subprocess.run(
                [*_UNSHARE, "bash", "-c", _MOUNT, "jail", *words, *tests],
                env=variables | dict(env or {}),
                timeout=timeout_s,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Result((), time.monotonic() - began, is_late=True)
        seconds = time.monotonic() - began
        failures = failures_in(done.stdout)
        if done.returncode in (_PASSED, _NO_TESTS):
            return Result((), seconds)
        if failures:
            return Result(failures, seconds)
        # The fault keeps pytest itself from running, or these tests cannot run here.
        if mutant is None:
            raise RuntimeError(
                f"the tests could not be run: {done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return Result((), seconds, is_broken=True)


def failures_in(output: str) -> tuple[str, ...]:
    """Return the names of the tests that failed, from the summary that pytest prints.

    >>> failures_in("FAILED tests/test_a.py::test_b[x - y] - assert 1\\nERROR tests/test_c.py\\n1 failed")
    ('tests/test_a.py::test_b[x - y]', 'tests/test_c.py')
    """
    summary = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:::\w+)*(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
    return tuple(dict.fromkeys(summary.findall(output)))
