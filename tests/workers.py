"""Test workers that are forked when all tests are collected: `pytest -p tests.workers --workers N`.
Other than workers of pytest-xdist, which each import and collect everything anew, forked ones
start at once with what their parent has collected. A worker takes the next file when it is done
with one, so that the fixtures of a file are made once. While the parent collects, a worker that
was forked before has the files of `--ahead`, which it collects itself."""

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

from tests.forkserver import share_server, warm_up_terminals

File = list[int]
"""The places of a file's tests in the collected list."""

_MANY = 20
"""Files of a run in which the workers share one server that forks daemons (tests/forkserver.py), and
a terminal library whose types are parsed."""

LONGEST = (
    "tests/e2e/test_user_service.py",
    "tests/e2e/test_upkeep.py",
    "tests/e2e/test_idle.py",
    "tests/e2e/test_mcp_servers.py",
    "tests/faults/test_orphans.py",
    "tests/e2e/test_stop_signals.py",
    "tests/e2e/test_busy_programs.py",
    "tests/cases/test_c_processes.py",
    "tests/e2e/test_end_cleanup.py",
    "tests/faults/test_whole.py",
    "tests/faults/test_load.py",
    "tests/cases/test_k_l_p_start_and_environment.py",
    "tests/cases/test_i_j_status_and_handles.py",
    "tests/runtimes/test_screen.py",
    "tests/runtimes/test_corpus.py",
    "tests/runtimes/test_paint.py",
    "tests/client/test_with_haftd.py",
    "tests/host/test_recovery.py",
    "tests/mutants/test_mutants.py",
    "tests/mcp/test_protocol.py",
    "tests/cases/test_t_terminals.py",
    "tests/schemas/test_calls.py",
    "tests/tools/test_shelltext.py",
    "tests/tools/test_tool_list.py",
    "tests/tools/test_trust.py",
    "tests/tools/test_words.py",
    "tests/test_rerun.py",
    "tests/test_workers.py",
    "tests/test_dependencies.py",
    "tests/test_import_stubs.py",
    "tests/test_docs.py",
)
"""Files that take the longest or mostly wait: first, so that no worker is left with one at the end."""

AHEAD = ("tests/e2e/test_user_service.py", "tests/faults/test_orphans.py")
"""Files that keep a worker each busy while the parent collects."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--workers", type=int, default=0, help="run the tests of each file in one of N forks"
    )
    parser.addoption(
        "--ahead",
        action="append",
        metavar="FILE",
        help="a file that has a worker while the others are collected; in a run of all tests "
        f"the default is {' and '.join(AHEAD)}",
    )


_WORKERS = pytest.StashKey["_Workers"]()


def pytest_collection(session: pytest.Session) -> None:
    """Start the workers that run files ahead, and the server that all workers share."""
    options = session.config.option
    if not options.workers or options.collectonly:
        return
    workers = session.stash[_WORKERS] = _Workers(session)
    ahead = options.ahead or ()
    if not ahead and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        ahead = AHEAD
        # Starts beside the collection; a few files may need none.
        workers.share_server()
    for file in ahead[: options.workers]:
        workers.start_ahead(session.config.rootpath / file)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, all others in their order."""
    places = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers; leave a run without workers, or of nothing, to pytest."""
    workers = session.stash.get(_WORKERS, None)
    if workers is None or session.testsfailed:
        return None
    workers.run()
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the workers of a run that was not begun or not finished."""
    if (workers := session.stash.get(_WORKERS, None)) is not None:
        workers.end()


class _Workers:
    """The parent's side: hands out files, and reports what the workers report."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._files: deque[File] = deque()
        self._workers: dict[Connection, _Worker] = {}
        self._numbers = itertools.count()

    def share_server(self) -> None:
        """Let the workers share a server, but for tests/processor_time.py, which counts a worker
        with its own."""
        if getattr(self._session.config.option, "cpu_durations", None) is None:
            share_server()

    def start_ahead(self, file: Path) -> None:
        """Start a worker that collects and runs this file."""
        self._fork(file)

    def run(self) -> None:
        """Run all files, until a failure that ends the session."""
        files: dict[Path, File] = {}
        for place, item in enumerate(self._session.items):
            files.setdefault(item.path, []).append(place)
        for worker in self._workers.values():
            assert worker.ahead is not None
            worker.left.extend(files.pop(worker.ahead, ()))
        self._files.extend(files.values())
        if len(files) > _MANY:
            self.share_server()
            warm_up_terminals()
        count = self._session.config.option.workers
        while self._files and len(self._workers) < count:
            self._fork()
        while self._workers:
            for connection in wait([*self._workers]):
                assert isinstance(connection, Connection)
                self._receive(connection)
            if self._session.shouldfail:
                raise self._session.Failed(self._session.shouldfail)
            if self._session.shouldstop:
                raise self._session.Interrupted(self._session.shouldstop)

    def end(self) -> None:
        """End the workers that are left; one whose parent has gone ends after its test."""
        for connection, worker in self._workers.items():
            connection.close()
            os.waitpid(worker.pid, 0)
        self._workers.clear()

    def _fork(self, ahead: Path | None = None) -> None:
        number = next(self._numbers)
        # Before the fork, so that the workers share the folder above their own.
        basetemp = _folders(self._session).getbasetemp()
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for one in (ours, *self._workers):
                one.close()
            _work(self._session, theirs, basetemp / f"w{number}", ahead)
        theirs.close()
        self._workers[ours] = _Worker(pid, ahead)
        if ahead is None:
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
        # A worker ahead has collected on its own.
        assert all(report["nodeid"] == item.nodeid for report in reports)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            self._report(item, report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if not worker.left and worker.ahead is None:
            self._hand_out(connection)

    def _report(self, item: pytest.Item, data: dict[str, Any]) -> None:
        report = item.config.hook.pytest_report_from_serializable(config=item.config, data=data)
        item.ihook.pytest_runtest_logreport(report=report)

    def _end(self, connection: Connection) -> None:
        """Replace a worker that has ended: ahead of the others, or within a test, which has failed."""
        worker = self._workers.pop(connection)
        connection.close()
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if worker.left:
            self._fail(worker, status)
        elif status:
            raise RuntimeError(f"a test worker ended with status {status}; see its output")
        if self._files:
            self._fork()

    def _fail(self, worker: _Worker, status: int) -> None:
        item = self._session.items[worker.left.popleft()]
        text = f"the worker of this test ended with status {status}"
        report = pytest.TestReport(
            item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", text, "call"
        )
        item.ihook.pytest_runtest_logreport(report=report)
        if worker.left:
            self._files.appendleft(list(worker.left))


class _Worker:
    """The process of a worker, the file that it runs `ahead`, if any, and the tests of its file that
    are not yet reported."""

    def __init__(self, pid: int, ahead: Path | None) -> None:
        self.pid = pid
        self.ahead = ahead
        self.left: deque[int] = deque()


class _Between:
    """The place of a next test that is in another file: of what is set up, the session is kept."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session

    def listchain(self) -> list[pytest.Session]:
        return [self._session]


def _work(
    session: pytest.Session, parent: Connection, basetemp: Path, ahead: Path | None
) -> NoReturn:
    """Run the file `ahead`, or those that the parent hands out, as a process of its own."""
    status = 1
    try:
        reports = _set_up_process(session.config, basetemp)
        if ahead is None:
            while places := _next_file(parent):
                _run_file(session, parent, places, reports)
        elif _collect(session, ahead):
            _run_file(session, parent, range(len(session.items)), reports)
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


def _collect(session: pytest.Session, file: Path) -> bool:
    """Collect the file; return false where the parent will report that it cannot be."""
    session.config.args = [str(file)]
    session.config.option.workers = 0
    session.config.hook.pytest_collection(session=session)
    return not session.testsfailed


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
