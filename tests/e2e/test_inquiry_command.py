"""The backend `command` over the wire: a user's program answers, or fails in every way."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from haftd.host.process.identity import every_pid
from tests.e2e.question_tools import Client, asking, tool
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon

TOOLS = "".join(
    [
        tool("bool", asking("q"), stateful=True),
        tool("text", asking("q", "Text"), stateful=True),
        tool("secret", asking("q", "Secret"), stateful=True),
        tool("two", asking("q"), asking("r"), stateful=True),
    ]
)
PROGRAM = """
import json, os, signal, subprocess, sys, time
question = json.load(sys.stdin)
folder = f"{os.environ['HOME']}/{question['session']}"
open(f"{folder}/asked", "a").write(json.dumps(question) + "\\n")
print("canary on standard error", file=sys.stderr)
def answer(value): print(json.dumps({"answer": value}), flush=True)
exec(open(f"{folder}/play").read())
"""
"""Plays what a file in the session's folder says, and notes what it was asked."""

CHILD = "[sys.executable, '-c', 'import time; time.sleep(1000)', 'inquiry-command']"
_sessions = itertools.count()


class Stage:
    """A daemon whose questions `PROGRAM` answers, then clients; each test has its session."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self.daemon = daemon
        self.session = f"c{next(_sessions)}"
        self.folder = daemon.home / self.session
        self.folder.mkdir()

    def plays(self, script: str, *, able: bool = False) -> Client:
        """Return a client for whose questions the program plays the script."""
        (self.folder / "play").write_text(script)
        return Client(self.daemon, session=self.session, able=able)

    def asked(self) -> list[dict[str, Any]]:
        """Return the questions sent to the program."""
        path = self.folder / "asked"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def programs(self) -> list[int]:
        """The processes of the program that live, wherever they are."""
        home, found = f"HOME={self.daemon.home}".encode(), []
        for pid in every_pid():
            try:
                cmdline = Path(f"/proc/{pid}/cmdline").read_bytes()
                environ = Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue
            if b"inquiry-command" in cmdline and home in environ:
                found.append(pid)
        return found


def configured(daemon: RunningDaemon, *, timeout_s: float = 20) -> RunningDaemon:
    argv = json.dumps([sys.executable, "-I", "-S", "-c", PROGRAM, "inquiry-command"])
    config = "[inquiry]\nbackends = ['command', 'client']\n"
    config += f"[inquiry.command]\nargv = {argv}\ntimeout_s = {timeout_s}\n"
    (daemon.config / "haft" / "config.toml").write_text(config)
    daemon.tools(TOOLS)
    daemon.start()
    with daemon.connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
    return daemon


@pytest.fixture(scope="module")
def patient() -> Iterator[RunningDaemon]:
    """A daemon that gives the program 20 seconds."""
    yield from _shared(20)


@pytest.fixture(scope="module")
def impatient() -> Iterator[RunningDaemon]:
    """A daemon that gives the program two seconds: it has to run before they are over."""
    yield from _shared(2)


def _shared(timeout_s: float) -> Iterator[RunningDaemon]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    one = configured(RunningDaemon(folder), timeout_s=timeout_s)
    yield one
    one.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def stage(patient: RunningDaemon) -> Stage:
    return Stage(patient)


@pytest.fixture
def alone(make_daemon: Callable[..., RunningDaemon]) -> Stage:
    return Stage(configured(make_daemon()))


def test_a_program_gets_the_question_and_prints_the_answer(stage: Stage) -> None:
    with stage.plays("answer('Ada')") as client:
        client.call("spawn", tool="text", id="t", call_id="c", wait="none")
        assert client.call("fetch", id="t", wait="stopped")["result"] == '{"q": "Ada"}'
    (question,) = stage.asked()
    assert question["inquiry_id"] == "tool_call.text.c" and question["question"]["id"] == "q"
    assert question.keys() == {
        "session", "handle", "call_id", "inquiry_id", "question", "schema", "target",
    }  # fmt: skip


def passed_over(stage: Stage, script: str, times: int) -> None:
    with stage.plays(script, able=True) as client:
        client.call("spawn", tool="bool", id="b", wait="none")
        client.reply(client.asked(), True)
        assert client.call("fetch", id="b", wait="stopped")["result"] == '{"q": true}'
    assert len(stage.asked()) == times
    assert stage.programs() == []


@pytest.mark.parametrize(
    ("script", "times"),
    [
        ("sys.exit(1)", 1),
        ("answer(True); os.kill(os.getpid(), signal.SIGKILL)", 1),
        ("print('garbage')", 3),
        ("answer('yes')", 3),
        ("print('[' * 100000)", 3),
        ("os.write(1, b'\\xff' * 100)", 3),
        ("answer('x' * 10_000_000)", 1),
    ],
)
def test_a_failing_program_declines_and_the_next_backend_is_asked(
    stage: Stage, script: str, times: int
) -> None:
    passed_over(stage, script, times)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "os.close(1); os.close(2)",
        "[signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]",
        f"subprocess.Popen({CHILD}, start_new_session=True)",
    ],
)
def test_a_hanging_program_is_ended_and_counts_as_declined(
    impatient: RunningDaemon, before: str
) -> None:
    passed_over(Stage(impatient), f"{before}\ntime.sleep(1000)", 1)


@pytest.mark.parametrize("end", ["answer", "abort"])
def test_a_cancelled_program_is_ended_with_its_children(stage: Stage, end: str) -> None:
    with stage.plays(
        f"subprocess.Popen({CHILD}, start_new_session=True); time.sleep(1000)"
    ) as client:
        client.call("spawn", tool="bool", id="b", wait="input")
        until(lambda: len(stage.programs()) == 2, "the program and its child run")
        if end == "answer":
            client.call("apply", id="b", input=False)
            assert client.call("fetch", id="b", wait="stopped")["result"] == '{"q": false}'
        else:
            client.call("abort", id="b")
    until(lambda: stage.programs() == [], "nothing of it is left")


def test_processes_left_behind_do_not_delay_the_answer(stage: Stage) -> None:
    with stage.plays(f"subprocess.Popen({CHILD}); answer(True)") as client:
        client.call("spawn", tool="bool", id="b", wait="none")
        state = client.call("fetch", id="b", wait="stopped", timeout_ms=20_000)
        assert state["result"] == '{"q": true}'
    assert stage.programs() == []


def test_parallel_calls_are_answered_in_parallel(stage: Stage) -> None:
    """Each program waits until all have been asked."""
    script = """
while len(open(f"{folder}/asked").readlines()) < 4: time.sleep(0.01)
answer(True)
"""
    with stage.plays(script) as client:
        for number in range(4):
            client.call("spawn", tool="bool", id=f"b{number}", wait="none")
        for number in range(4):
            state = client.call("fetch", id=f"b{number}", wait="stopped", timeout_ms=20_000)
            assert state["result"] == '{"q": true}'


def test_a_secret_passes_through_the_program_and_is_stored_nowhere(stage: Stage) -> None:
    script = "answer('canary' + '-secret'); os.remove(f'{folder}/play')"
    with stage.plays(script) as client:
        client.call("spawn", tool="secret", id="s", wait="none")
        assert "canary-secret" in client.call("fetch", id="s", wait="stopped")["result"]
    assert stage.asked()[0]["target"] == "user"
    daemon = stage.daemon
    for path in [daemon.log, *(daemon.state / "haft").rglob("*"), *daemon.runtime.rglob("*")]:
        if path.is_file():
            assert b"canary" not in path.read_bytes(), path
    lines = (daemon.state / "haft" / "audit.jsonl").read_text().splitlines()
    records = [one for one in map(json.loads, lines) if one.get("session") == stage.session]
    (record,) = [record for record in records if record["event"] == "answer"]
    assert record["by"] == "command" and record["withheld"] is True


def test_after_a_crash_the_program_is_ended(alone: Stage) -> None:
    script = """
signal.signal(15, signal.SIG_IGN)
if os.fork() == 0: os.setsid()
time.sleep(1000)
"""
    with alone.plays(script) as client:
        client.call("spawn", tool="bool", id="b", wait="input")
        until(lambda: len(alone.programs()) == 2, "it runs")
        alone.daemon.kill9()
    alone.daemon.start()
    until(lambda: alone.programs() == [], "the next daemon has ended it")


def test_the_program_does_not_delay_a_stop_of_the_daemon(alone: Stage) -> None:
    with alone.plays("time.sleep(1000)") as client:
        client.call("spawn", tool="bool", id="b", wait="input")
        until(lambda: bool(alone.programs()), "it runs")
    assert alone.daemon.stop(10) == 0
    assert alone.programs() == []


def test_static_answers_and_order_follow_the_configuration(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    config = """
[inquiry]
backends = ["static", "command", "client"]
command.argv = ["/not/there"]
[inquiry.static.two]
q = true
r = "not of this type"
[inquiry.static.secret]
q = "canary"
"""
    daemon = make_daemon(config)
    daemon.tools(TOOLS)
    daemon.start()
    with Client(daemon) as client:
        client.call("spawn", tool="two", id="b", wait="none")
        other = client.asked()
        assert other["params"]["question"]["id"] == "r"
        client.reply(other, False)
        assert client.call("fetch", id="b", wait="stopped")["result"] == '{"q": true, "r": false}'
        client.call("spawn", tool="secret", id="s", wait="none")
        client.reply(client.asked(), "mine")
        assert client.call("fetch", id="s", wait="stopped")["result"] == '{"q": "mine"}'
