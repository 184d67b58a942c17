from __future__ import annotations

import itertools
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from haft_protocol.methods import METHODS
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

CANARY = "canary-7d3e"

_sessions = itertools.count()

CHANGES = {
    "spawn",
    "apply",
    "abort",
    "inquiries/answer",
    "approvals/decide",
    "askpass",
    "session/close",
    "turn/end",
    "daemon/shutdown",
    "trust/grant",
    "trust/revoke",
}
"""The methods that do something to a handle, to all of them, or to what may start."""

THROUGH = {"tools/call"}
"""Those that do it by one of these, which records it."""

READS = {
    "initialize", "ping", "fetch", "await", "handles/list", "output/search", "output/timeline",
    "session/list",
    "notifications/drain", "inquiries/ask", "inquiries/list", "approvals/list", "subscribe", "unsubscribe",
    "turn/begin", "tools/list", "tools/describe", "tools/reload", "daemon/status", "daemon/reload",
    "rpc.discover",
    "trust/show", "trust/list",
}  # fmt: skip

ASKS = """
[tools.asks]
source = "local"
stateful = true
output = "outcome"
parameters = {}
command = ["PYTHON", "-S", "-c", '''
import json, os
answers = json.loads(os.environ["HAFT_CALL"])["tool"]["answers"]
for id, kind in (("who", "Text"), ("pass", "Secret")):
    if id not in answers:
        question = {"id": id, "text": id + "?", "answer_type": kind}
        raise SystemExit(print(json.dumps({"type": "needs_input", "question": question})))
print(json.dumps({"type": "success", "content": "in"}))
''']
""".replace("PYTHON", sys.executable)


class Audited:
    """A daemon, a named connection in its own session, and the session's audit records."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self.daemon = daemon
        self.path = daemon.state / "haft" / "audit.jsonl"
        self.session = f"audited{next(_sessions)}"
        self.wire = daemon.connect()
        self.wire.call("initialize", client={"name": "vim"}, protocol=1, session=self.session)

    def call(self, method: str, **params: Any) -> Any:
        return self.wire.call(method, **params)

    def run(self, id: str, *argv: str, terminal: bool = False, **more: Any) -> Any:
        args = {"argv": list(argv), "terminal": terminal}
        return self.call("spawn", tool="run", id=id, args=args, **{"wait": "input"} | more)

    def records(self, event: str | None = None) -> list[dict[str, Any]]:
        records = [json.loads(line) for line in self.path.read_text().split("\n") if line]
        return [
            record
            for record in records
            if record.get("session", self.session) == self.session
            and event in (None, record["event"])
        ]

    def inputs(self) -> list[object]:
        return [record.get("input", record.get("kind")) for record in self.records("apply")]


@pytest.fixture(scope="module")
def asking_daemon() -> Iterator[RunningDaemon]:
    """A daemon shared by tests that do not stop the daemon."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    daemon.tools(ASKS)
    yield daemon.start()
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def audited(asking_daemon: RunningDaemon) -> Iterator[Audited]:
    one = Audited(asking_daemon)
    yield one
    one.wire.close()


@pytest.fixture
def alone(daemon: RunningDaemon) -> Iterator[Audited]:
    """The same at a daemon of the test's own."""
    one = Audited(daemon)
    yield one
    one.wire.close()


def test_every_method_is_classified_as_changing_or_reading() -> None:
    assert CHANGES <= METHODS.keys() <= CHANGES | THROUGH | READS


def test_each_action_is_recorded_with_its_client(audited: Audited) -> None:
    audited.run("c", "cat")
    audited.call("apply", id="c", input={"line": "6 * 7"}, wait="output")
    audited.call("apply", id="c", input={"signal": "CONT"}, wait="none")
    with audited.daemon.connect() as other:
        other.call("abort", id="c", session=audited.session)
    audited.call("session/close", session=audited.session)
    client = {"name": "vim", "pid": os.getpid(), "transport": "unix"}
    here = {"session": audited.session, "handle": "c", "generation": 1}
    records = audited.records()
    assert all(isinstance(record.pop("at"), float) for record in records)
    assert records == [
        {"event": "spawn", "client": client, **here, "tool": "run", "command": "cat"},
        {"event": "apply", "client": client, **here, "input": {"line": "6 * 7"}},
        {"event": "apply", "client": client, **here, "input": {"signal": "CONT"}},
        {"event": "abort", "client": {"pid": os.getpid(), "transport": "unix"}, **here},
        {"event": "session/close", "client": client, "session": audited.session, "handles": []},
    ]
    assert stat.S_IMODE(audited.path.stat().st_mode) == 0o600


def test_a_stop_request_is_recorded(alone: Audited) -> None:
    alone.call("daemon/shutdown")
    assert alone.daemon.process is not None
    assert alone.daemon.process.wait(20) == 0
    assert [record["event"] for record in alone.records()] == ["daemon/shutdown"]


def test_refused_and_repeated_actions_are_not_recorded(audited: Audited) -> None:
    wire = audited.wire
    audited.run("c", "cat", call_id="x")
    for method, params in (
        ("spawn", {"tool": "run", "id": "n", "args": {"argv": ["/no/such/program"]}}),
        ("spawn", {"tool": "run", "id": "c", "args": {"argv": ["cat"]}}),
        ("spawn", {"tool": "nothing", "id": "d"}),
        ("apply", {"id": "nobody", "input": "x"}),
        ("apply", {"id": "c", "input": {"lines": "x"}}),
        ("apply", {"id": "c", "input": {"resize": {"rows": 3, "cols": 3}}}),
        ("abort", {"id": "nobody"}),
        ("daemon/shutdown", {"policy": "refuse"}),
    ):
        with pytest.raises(Refused):
            wire.call(method, **params)
    audited.run("c", "cat", call_id="x")
    assert [one["event"] for one in audited.records()] == ["spawn"]


def test_an_input_before_the_tool_runs_is_recorded_after_the_spawn(audited: Audited) -> None:
    spawn = {"tool": "run", "id": "c", "args": {"argv": ["cat"]}, "wait": "none"}
    audited.wire.send(
        [
            {"jsonrpc": "2.0", "id": 1, "method": "spawn", "params": spawn},
            {"jsonrpc": "2.0", "id": 2, "method": "apply", "params": {"id": "c", "input": "x\n"}},
        ]
    )
    audited.wire.receive()
    assert [record["event"] for record in audited.records()] == ["spawn", "apply"]


def test_secrets_are_in_no_file(audited: Audited) -> None:
    """A line typed with the echo off, an input marked secret, the answer to a secret question."""
    asking = f"stty -echo; read -r x; stty echo; test $x = {CANARY}1 && echo same; read -r y"
    asking = asking.replace(CANARY, "canary-$((0x7d3))e")  # not in the command itself
    audited.run("t", "bash", "-c", asking, terminal=True)
    audited.call("apply", id="t", input={"line": f"{CANARY}1"})
    audited.call("apply", id="t", input={"line": "shown"}, wait="stopped")
    audited.run("c", "cat")
    audited.call(
        "apply", id="c", input={"line": f"{CANARY}2", "secret": True}, view="tail", max_bytes=0
    )
    audited.call("spawn", tool="asks", id="q", wait="input")
    audited.call("apply", id="q", input="Ada", wait="input")
    state = audited.call("apply", id="q", input=f"{CANARY}3", wait="stopped")
    assert state["result"] == "in"
    params = [
        {key: record[key] for key in ("input", "withheld", "kind", "question") if key in record}
        for record in audited.records("apply")
    ]
    assert params == [
        {"withheld": True, "kind": "line"},
        {"input": {"line": "shown"}},
        {"withheld": True, "kind": "line"},
        {"input": "Ada", "question": "who"},
        {"withheld": True, "kind": "answer", "question": "pass"},
    ]
    for folder in (audited.daemon.state, audited.daemon.runtime):
        for file in folder.rglob("*"):
            assert not file.is_file() or CANARY.encode() not in file.read_bytes(), file
    assert CANARY not in audited.daemon.log_text()


def test_keys_that_a_program_echoes_are_no_secret(audited: Audited) -> None:
    audited.run("t", sys.executable, "-q", terminal=True)
    audited.call("apply", id="t", input={"line": "6 * 7"})
    assert audited.inputs() == [{"line": "6 * 7"}]


def test_without_an_audit_log_work_goes_on_and_status_reports_the_loss(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon()
    path = daemon.state / "haft" / "audit.jsonl"
    path.parent.mkdir()
    path.symlink_to(daemon.base / "other")
    daemon.start()
    with daemon.connect() as wire:
        wire.call("spawn", tool="run", id="c", args={"argv": ["cat"]}, wait="input")
        state = wire.call("apply", id="c", input={"line": "x"}, wait="output")
        assert state["content"] == "x\n"
        (problem,) = wire.call("daemon/status")["problems"]
        assert problem["file"] == str(path) and "2 records are missing" in problem["message"]
        assert "symbolic link" in problem["message"]
        path.unlink()
        wire.call("apply", id="c", input={"line": "y"}, wait="output")
        assert wire.call("daemon/reload")["problems"] == []
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert events == ["lost", "apply"] and not (daemon.base / "other").exists()


def haft(daemon: RunningDaemon, *words: str) -> str:
    """Run the command, in UTC, and return the output."""
    done = run_haft(words, env=daemon.env | {"TZ": "UTC"})
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_audit_command_shows_each_input_with_its_client(alone: Audited) -> None:
    alone.run("c", "cat")
    for piece in ("l", "s", " -l\r"):
        alone.call("apply", id="c", input=piece, wait="none")
    alone.call("apply", id="c", input={"keys": ["C-c"]}, wait="stopped")
    alone.run("d", "cat")
    alone.call("apply", id="d", input={"line": "x", "secret": True}, wait="output")
    alone.call("abort", id="d")
    alone.daemon.stop()
    rows = [line.split("  ") for line in haft(alone.daemon, "audit", "c").splitlines()]
    found = [[cell.strip() for cell in row if cell] for row in rows]
    where = f"{alone.session}/c #1"
    who = f"vim (pid {os.getpid()})"
    assert [row[1:] for row in found[1:]] == [
        [who, where, "spawn run: cat"],
        [who, where, r"text 'ls -l\r'"],
        [who, where, "keys C-c"],
    ]
    whole = haft(alone.daemon, "audit")
    assert "line (withheld)" in whole and "abort" in whole
    records = json.loads(haft(alone.daemon, "audit", "--json", "-n", "2"))["records"]
    assert [record["event"] for record in records] == ["apply", "abort"]


def test_invalid_records_are_skipped(alone: Audited) -> None:
    alone.run("c", "cat")
    alone.wire.close()
    alone.daemon.stop()
    with alone.path.open("ab") as file:
        file.write(b'{"at":1,"ev\n[1]\n\xff\n{"event":"\\u001b[2J","client":7,"at":"x"}\n')
    done = run_haft(["audit"], env=alone.daemon.env)
    assert done.returncode == 0 and "\x1b" not in done.stdout
    assert "skipped 3 lines without a record" in done.stderr and "spawn run: cat" in done.stdout


def test_an_empty_audit_log_is_no_failure(daemon: RunningDaemon) -> None:
    done = run_haft(["audit"], env=daemon.env)
    assert done.returncode == 0 and "nothing is recorded" in done.stderr
