from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.test_one_tool import FILES
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire


def install(folder: Path) -> None:
    for name in ("acme_sqlite.py", "test_acme_sqlite.py"):
        (folder / name).write_text(FILES[name])
    metadata = folder / "acme_sqlite-1.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text(
        FILES["entry_points.txt"]
        + "pty = acme_sqlite:SqliteRuntime\nbroken = acme_sqlite:Nothing\n"
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDaemon]:
    """A daemon with the runtime, which needs an interpreter of its own."""
    folder = tmp_path_factory.mktemp("packages")
    install(folder)
    daemon = RunningDaemon(tmp_path_factory.mktemp("d"), env={"PYTHONPATH": str(folder)})
    daemon.tools(
        FILES["sqlite.toml"].replace("~", str(daemon.home))
        + "[tools.broken]\nruntime = 'broken'\ncommand = 'x'\nparameters = {}\n"
        + "[tools.unknown]\nruntime = 'mongo'\ncommand = 'x'\n"
        + "[tools.chosen]\nruntime = '{{ tool.arguments.how }}'\ncommand = [':memory:', 'VALUES (1)']\n"
        + "parameters.how = { type = 'string' }\n"
    )
    with sqlite3.connect(daemon.home / "notes.db") as connection:
        connection.execute("CREATE TABLE notes (id, text)")
        connection.execute("INSERT INTO notes VALUES (1, 'milk'), (2, 'bread')")
    connection.close()
    yield daemon.start()
    daemon.close()


@pytest.fixture
def wire(running: RunningDaemon) -> Iterator[Wire]:
    with running.connect() as wire:
        yield wire
        wire.call("session/close")


def test_a_tool_runs_in_an_added_runtime(wire: Wire) -> None:
    query = {"statement": "SELECT * FROM notes ORDER BY id"}
    called = wire.call("tools/call", tool="query", arguments=query)
    assert (called["result"], called["exit"]) == ("1|milk\n2|bread\n", {"code": 0})
    called = wire.call("tools/call", tool="query", arguments={"statement": "SELECT"})
    assert called["error"]["message"] == "incomplete input"
    state = wire.call("spawn", tool="query", id="q", args=query, wait="stopped")
    assert state["result"] == called.get("content", "") + "1|milk\n2|bread\n"
    assert wire.call("tools/call", tool="chosen", arguments={"how": "sqlite"})["result"] == "1\n"
    listed = {tool["name"]: tool for tool in wire.call("tools/list")["tools"]}
    assert listed["query"]["runtime"] == "sqlite"


def test_an_abort_cancels_an_added_runtime(running: RunningDaemon, wire: Wire) -> None:
    """As long as the database is locked, the query waits."""
    query = {"statement": "SELECT * FROM notes"}
    with closing(sqlite3.connect(running.home / "notes.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        wire.call("spawn", tool="query", id="q", args=query, wait="none")
        assert wire.call("abort", id="q")["ended_by"]["by"] == "abort"


def test_a_tool_that_cannot_run_is_refused_with_the_reason(wire: Wire) -> None:
    with pytest.raises(Refused, match="AttributeError") as refused:
        wire.call("tools/call", tool="broken", arguments={})
    assert (refused.value.code, refused.value.data["reason"]) == (-32012, "runtime")
    with pytest.raises(
        Refused, match=r" only `stdio`, `pty`, `vfs`, .*`sqlite` and `broken`"
    ) as refused:
        wire.call("tools/call", tool="chosen", arguments={"how": "mongo"})
    assert refused.value.code == -32014
    problems = {
        problem["key"]: problem["message"] for problem in wire.call("daemon/status")["problems"]
    }
    assert "its own runtime 'pty'" in problems["haft.runtimes.pty"]
    assert "one of stdio, pty, vfs, wasm, sqlite, broken" in problems["tools.unknown.runtime"]


def test_the_checker_works_for_a_third_party(tmp_path: Path) -> None:
    """In a folder without haft's own tests."""
    install(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n")
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "pytest_trio.plugin",
            "test_acme_sqlite.py",
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(tmp_path),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
