"""The processor time of each test, with all processes that it starts: `--cpu-durations N`.
Counted by a cgroup for each process that runs tests, where the right to make one is given;
otherwise only the children that a test has waited for count. A daemon that a file shares counts
for the test at hand."""

from __future__ import annotations

import contextlib
import os
import resource
from collections import defaultdict
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest

_CGROUPS = Path("/sys/fs/cgroup")
_PROPERTY = "processor_s"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cpu-durations",
        type=int,
        metavar="N",
        help="show the N tests and files with the most processor time (0: all)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.cpu_durations is not None:
        config.pluginmanager.register(_ProcessorTime(config.option.cpu_durations))


class _ProcessorTime:
    """Measures in each process of tests, and shows the sums in their parent."""

    def __init__(self, shown: int) -> None:
        self._shown = shown
        self._owner = 0
        self._clock: Callable[[], float] = _waited_for
        self._last = 0.0
        self._tests: defaultdict[str, float] = defaultdict(float)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Begin to count in a process of tests that is new."""
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._clock = _of_cgroup() or _waited_for
            self._last = self._clock()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the seconds since the last report."""
        report = yield
        before, self._last = self._last, self._clock()
        report.user_properties.append((_PROPERTY, self._last - before))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._tests[report.nodeid] += sum(
            float(str(seconds)) for name, seconds in report.user_properties if name == _PROPERTY
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        files: defaultdict[str, float] = defaultdict(float)
        for test, seconds in self._tests.items():
            files[test.partition("::")[0]] += seconds
        for title, sums in (("tests", self._tests), ("files", files)):
            terminalreporter.section(f"processor seconds of {title}: {sum(sums.values()):.1f}")
            longest = sorted(sums.items(), key=lambda item: -item[1])
            for name, seconds in longest[: self._shown or None]:
                terminalreporter.line(f"{seconds:8.2f} {name}")


def _waited_for() -> float:
    """Return the processor seconds of this process and the children that have been waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _of_cgroup() -> Callable[[], float] | None:
    """Move this process to a cgroup of its own; return the clock of that, or None."""
    for hierarchy, file, word, unit in (
        (_CGROUPS / "cpuacct", "cpuacct.usage", 0, 1e-9),
        (_CGROUPS, "cpu.stat", 1, 1e-6),
    ):
        with contextlib.suppress(OSError):
            (hierarchy / file).read_text()
            for left in hierarchy.glob("haft-tests-*"):
                # Those of earlier runs; one that is in use cannot be removed.
                with contextlib.suppress(OSError):
                    left.rmdir()
            cgroup = hierarchy / f"haft-tests-{os.getpid()}"
            cgroup.mkdir()
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))
            return partial(_usage, cgroup / file, word, unit)
    return None


def _usage(file: Path, word: int, unit: float) -> float:
    return int(file.read_text().split()[word]) * unit
