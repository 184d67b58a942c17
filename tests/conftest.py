"""Fixtures of all tests, and the rule that CI knows every skipped test."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import pytest
import structlog

from tests.effort import FEW, MANY
from tests.inherited_signals import accept_terminal_signals
from tests.running_daemon import RunningDaemon

_ROOM_IN_MEMORY = 1 << 30


def _folder_in_memory() -> str | None:
    """Return the folder of a file system in memory, where programs may be executed and the files of
    a run have room."""
    folder = "/dev/shm"
    try:
        facts = os.statvfs(folder)
    except OSError:
        return None
    room = 0 if facts.f_flag & os.ST_NOEXEC else facts.f_bavail * facts.f_frsize
    return folder if room >= _ROOM_IN_MEMORY and os.access(folder, os.W_OK | os.X_OK) else None


pytest.register_assert_rewrite("haftd.testing")

# A busy machine is no reason for a law to fail.
hypothesis.settings.register_profile("haft", deadline=None, max_examples=FEW)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=MANY)
hypothesis.settings.load_profile("haft")

# The default draws each traceback with all of its source, which takes a third of a second.
structlog.configure(processors=[structlog.processors.KeyValueRenderer()])

# A suite in the background or under nohup inherits ignored signals, and so would all its children.
accept_terminal_signals()

# The daemons of the tests are of this machine, whatever the shell's clients use.
os.environ.pop("HAFT_HOST", None)

# The flushes of a disk take a third of a run, its inodes a twentieth of the processor time.
if "TMPDIR" not in os.environ and (folder := _folder_in_memory()) is not None:
    tempfile.tempdir = folder

# Until all tests are collected, next to nothing is garbage.
gc.disable()

EXPECTED_SKIPS = Path(__file__).with_name("expected_skips.txt")


def pytest_configure(config: pytest.Config) -> None:
    """Give random laws many examples in the long form."""
    if config.getoption("markexpr") == "soak":
        hypothesis.settings.load_profile("soak")


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Make each random law a test of the long form as well."""
    if item.config.getoption("markexpr") == "soak" and hypothesis.is_hypothesis_test(
        getattr(item, "obj", None)
    ):
        item.add_marker("soak")


def pytest_collection_finish() -> None:
    """Leave the thousands of tests out of each later collection of garbage."""
    gc.enable()
    gc.freeze()


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A folder with a short path: a Unix socket's path ends at 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def make_daemon(short_tmp: Path) -> Iterator[Callable[..., RunningDaemon]]:
    """Make daemons in folders of their own; all are ended after the test."""
    daemons: list[RunningDaemon] = []

    def make(config: str = "", **options: object) -> RunningDaemon:
        env = options.get("env")
        assert env is None or isinstance(env, dict)
        daemon = RunningDaemon(short_tmp / str(len(daemons)), config=config, env=env)
        daemons.append(daemon)
        return daemon

    yield make
    for one in daemons:
        one.close()


@pytest.fixture
def daemon(make_daemon: Callable[..., RunningDaemon]) -> RunningDaemon:
    """A daemon of the test's own, with the definitions that tests use."""
    return make_daemon().start()


@pytest.fixture
def fast_matching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matching takes no time, so that only texts that are too costly go to threads."""
    clock = SimpleNamespace(monotonic=lambda: 0.0, thread_time=lambda: 0.0)
    monkeypatch.setattr("haftd.match_scheduler.time", clock)
    monkeypatch.setattr("haftd.match_scheduler._credit.is_left", lambda: True)
    monkeypatch.setattr("haftd.methods.pattern_wait.time", clock)


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[RunningDaemon]:
    """A daemon for a module; each test takes a session of its own name."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder).start()
    yield daemon
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


UNEXPECTED = pytest.StashKey[list[str]]()
"""The tests skipped for a reason that expected_skips.txt does not list, as `test: reason`."""


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Find unexpected skips, which fail the run in CI; write the names of failed tests to the
    file `FAILED_TESTS` for `tests/rerun`."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    if report := os.environ.get("FAILED_TESTS"):
        failures = [*reporter.stats.get("failed", []), *reporter.stats.get("error", [])]
        Path(report).write_text(
            "".join(f"{name}\n" for name in sorted({failure.nodeid for failure in failures}))
        )
    expected = [
        line for line in EXPECTED_SKIPS.read_text().splitlines() if line[:1] not in ("", "#")
    ]
    unexpected = session.config.stash.setdefault(UNEXPECTED, [])
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(known in reason for known in expected):
            unexpected.append(f"{report.nodeid}: {reason.removeprefix('Skipped: ')}")
    if unexpected and os.environ.get("CI") == "true":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Repeat the unexpected skips in the very last line."""
    unexpected = config.stash.get(UNEXPECTED, [])
    if not unexpected:
        return
    for one in unexpected if os.environ.get("CI") == "true" else ():
        print(f"unexpected skip: {one}")
    reasons = sorted({one.partition(": ")[2] for one in unexpected})
    print(
        f"NOT TESTED: {len(unexpected)} skipped: {'; '.join(reasons)}. The packages that are missing: "
        "`.ci/packages`. With CI=true such skips fail the run."
    )
