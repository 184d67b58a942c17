"""Test workers that are forked when all tests are collected: `pytest -p tests.workers --workers N`.
Other than workers of pytest-xdist, which each import and collect everything anew, forked ones
start at once with what their parent has collected. A worker takes the next file when it is done
with one, so that the fixtures of a file are made once."""

from __future__ import annotations

import gc
import itertools
import os
import traceback
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from _pytest.capture import CaptureManager
from _pytest.tmpdir import TempPathFactory

from tests.forkserver import share_server

File = list[int]
"""The places of a file's tests in the collected list."""

_MANY = 20
"""Files of a run in which the workers share one server that forks daemons (tests/forkserver.py)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers", type=int, default=0, help="run the tests of each file in one of N forks"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers; leave a run without workers, or of nothing, to pytest."""
    count = session.config.getoption("--workers")
    if not count or session.testsfailed or session.config.option.collectonly:
        return None
    files: dict[Path, File] = {}
    for place, item in enumerate(session.items):
        files.setdefault(item.path, []).append(place)
    _Workers(session, deque(files.values())).run(min(count, len(files)))
    return True


class _Workers:
    """The parent's side: hands out files, and reports what the workers report."""

    def __init__(self, session: pytest.Session, files: deque[File]) -> None:
        self._session = session
        self._files = files
        self._workers: dict[Connection, _Worker] = {}
        self._numbers = itertools.count()

    def run(self, count: int) -> None:
        """Run all files in this many workers, until a failure that ends the session."""
        # A few files may need no server; tests/processor_time.py counts a worker with its own.
        is_counted = getattr(self._session.config.option, "cpu_durations", None) is not None
        if len(self._files) > _MANY and not is_counted:
            share_server()
        try:
            for _ in range(count):
                self._fork()
            while self._workers:
                for connection in wait([*self._workers]):
                    assert isinstance(connection, Connection)
                    self._receive(connection)
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            # A worker whose parent has gone ends after its test.
            for connection, worker in self._workers.items():
                connection.close()
                os.waitpid(worker.pid, 0)

    def _fork(self) -> None:
        number = next(self._numbers)
        # Before the fork, so that the workers share the folder above their own.
        basetemp = _folders(self._session).getbasetemp()
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for one in (ours, *self._workers):
                one.close()
            _work(self._session, theirs, basetemp / f"worker{number}")
        theirs.close()
        self._workers[ours] = _Worker(pid)
        self._hand_out(ours)

    def _hand_out(self, connection: Connection) -> None:
        worker = self._workers[connection]
        worker.left = deque(self._files.popleft() if self._files else ())
        connection.send(list(worker.left))

    def _receive(self, connection: Connection) -> None:
        """Report a test's result, or the end of its worker."""
        worker = self._workers[connection]
        try:
            reports = connection.recv()
        except (EOFError, ConnectionError):
            self._end(connection)
            return
        item = self._session.items[worker.left.popleft()]
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            self._report(item, report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if not worker.left:
            self._hand_out(connection)

    def _report(self, item: pytest.Item, data: dict[str, Any]) -> None:
        report = item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
        item.ihook.pytest_runtest_logreport(report=report)

    def _end(self, connection: Connection) -> None:
        """Replace a worker that has ended within a test, which has failed."""
        worker = self._workers.pop(connection)
        connection.close()
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if not worker.left:
            if status:
                raise RuntimeError(f"a test worker ended with status {status}; see its output")
            return
        item = self._session.items[worker.left.popleft()]
        text = f"the worker of this test ended with status {status}"
        report = pytest.TestReport(
            item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", text, "call"
        )
        item.ihook.pytest_runtest_logreport(report=report)
        if worker.left:
            self._files.appendleft(list(worker.left))
        if self._files:
            self._fork()


class _Worker:
    """The process of a worker, and the tests of its file that are not yet reported."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.left: deque[int] = deque()


class _Between:
    """The place of a next test that is in another file: of what is set up, the session is kept."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session

    def listchain(self) -> list[pytest.Session]:
        return [self._session]


def _work(session: pytest.Session, parent: Connection, basetemp: Path) -> NoReturn:
    """Run the files that the parent hands out, as a process of its own."""
    status = 1
    try:
        reports = _set_up_process(session.config, basetemp)
        while places := _next_file(parent):
            _run_file(session, parent, places, reports)
        session._setupstate.teardown_exact(None)
        # Shows what was left open by the last tests.
        gc.collect()
        status = 0
    except (KeyboardInterrupt, ConnectionError, _ParentHasEndedError):
        # Also a report that nothing reads any more.
        session._setupstate.teardown_exact(None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


class _ParentHasEndedError(Exception):
    pass


class _Reports:
    """The reports of the current test, as pytest calls its plugins."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)

    def take(self) -> list[dict[str, Any]]:
        reports, self._reports = self._reports, []
        return reports


def _set_up_process(config: pytest.Config, basetemp: Path) -> _Reports:
    """Give the worker files of its own for output, a folder of its own for temporary files, and
    no terminal to report to."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if isinstance(capture, CaptureManager) and capture.is_globally_capturing() is not None:
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    basetemp.mkdir(mode=0o700)
    _folders(config)._basetemp = basetemp
    reports = _Reports(config)
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(reports)
    return reports


def _folders(owner: pytest.Session | pytest.Config) -> TempPathFactory:
    config = owner.config if isinstance(owner, pytest.Session) else owner
    return cast(TempPathFactory, config._tmp_path_factory)  # type: ignore[attr-defined]


def _next_file(parent: Connection) -> Sequence[int]:
    try:
        return cast(Sequence[int], parent.recv())
    except (EOFError, ConnectionError):
        raise _ParentHasEndedError from None


def _run_file(
    session: pytest.Session, parent: Connection, places: Sequence[int], reports: _Reports
) -> None:
    for place, following in itertools.zip_longest(places, places[1:]):
        if parent.poll():
            raise _ParentHasEndedError
        item = session.items[place]
        next_item = _Between(session) if following is None else session.items[following]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        parent.send(reports.take())
