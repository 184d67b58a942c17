from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from haft.cli.read_options import other_bounds
from tests.client.terminal import HaftTerminal
from tests.faults.harness import until
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

TOOLS = """
[tools.careful]
source = "local"
command = ["echo", "{{ tool.arguments.text }}"]
parameters.text = { type = "string", required = true }
run = "ask"

[tools.typed]
stateful = true
command = ["cat"]
run = { spawn = "unattended", apply = "ask" }

[tools.looked_at]
source = "local"
command = ["sh", "-c", 'printf "%s" "$1"; exit "$2"', "sh", "{{ tool.arguments.text }}", "{{ tool.arguments.status }}"]
output = "raw"
parameters.text = { type = "string", required = true }
parameters.status = { type = "integer", default = 0 }
result = "ask"

[tools.run]
run = "ask"
"""


class Desk:
    """A daemon, a client with calls that await approval, and the command line."""

    def __init__(self, daemon: RunningDaemon, wire: Wire) -> None:
        self.daemon = daemon
        self.wire = wire

    def begin(self, id: str, text: str = "hello") -> int:
        """Begin a call; return once the call awaits approval."""
        args = {"text": text}
        number = self.wire.start(
            "spawn", session="work", tool="careful", id=id, args=args, wait="stopped"
        )
        assert self.wire.call("ping") == {"pong": True}
        return number

    def haft(self, *words: str) -> tuple[int, str, str]:
        done = run_haft(words, env=self.daemon.env)
        return done.returncode, done.stdout, done.stderr

    def terminal(self, *words: str) -> HaftTerminal:
        return HaftTerminal(*words, env=self.daemon.env)


@pytest.fixture(scope="module")
def reviewer() -> Iterator[RunningDaemon]:
    """A daemon whose `run` withholds its output until a review."""
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    daemon.tools('[tools.run]\nresult = "ask"\n')
    daemon.start()
    yield daemon
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    daemon.tools(TOOLS)
    daemon.start()
    with daemon.connect() as wire:
        yield Desk(daemon, wire)
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_approvals_are_listed_and_decided_from_any_session(desk: Desk) -> None:
    status, out, err = desk.haft("approvals")
    assert (status, out) == (0, "") and "nothing awaits approval" in err
    number = desk.begin("a")
    status, out, _ = desk.haft("--json", "approvals")
    (listed,) = json.loads(out)["approvals"]
    status, out, _ = desk.haft("approvals")
    assert status == 0
    assert out.splitlines()[1].split() == [
        listed["approval_id"], "work", "a", "careful", "spawn", '{"text":"hello"}',
    ]  # fmt: skip
    assert desk.haft("approve", listed["approval_id"], "--allow")[0] == 0
    assert desk.wire.finish(number)["result"] == "hello\n"
    status, _, err = desk.haft("approve", listed["approval_id"], "--allow")
    assert status == 4 and "awaits approval; `haft approvals`" in err


def test_a_spawn_that_waits_for_nothing_leaves_the_start_to_be_approved(desk: Desk) -> None:
    spawn = ["spawn", "careful", "--id", "p", "--arg", "text=x", "--wait", "none"]
    status, out, err = desk.haft("--session", "work", *spawn)
    assert (status, out) == (0, "") and err.endswith(", `haft approve p` decides\n")
    assert desk.haft("approve", "p", "--allow")[0] == 0
    assert desk.wire.call("fetch", session="work", id="p", wait="stopped")["result"] == "x\n"


def test_an_attach_of_a_handle_that_awaits_approval_names_the_command_that_decides(
    desk: Desk,
) -> None:
    number = desk.begin("unstarted")
    person = desk.terminal("--session", "work", "attach", "unstarted")
    person.expect_exact("it awaits approval")
    person.expect_exact("`haft --session work approve unstarted`")
    person.expect(pexpect.EOF)
    assert desk.haft("approve", "unstarted", "--skip")[0] == 0
    desk.wire.finish(number)


def test_a_detached_run_leaves_its_start_to_be_approved(desk: Desk) -> None:
    status, out, err = desk.haft("--session", "run", "run", "-d", "--id", "r", "--", "echo", "x")
    assert (status, out) == (0, "r\n") and err.endswith(", `haft approve r` decides\n")
    assert desk.haft("approve", "r", "--allow")[0] == 0
    assert desk.wire.call("fetch", session="run", id="r", wait="stopped")["result"] == "x\n"


def test_the_id_of_a_decided_approval_is_no_handle(desk: Desk) -> None:
    """A tool that sees the id could take it for a handle, whose action the second decision would allow."""
    first = desk.begin("first")
    (approval,) = desk.wire.call("approvals/list", session="work")["approvals"]
    id = approval["approval_id"]
    second = desk.begin(id, "attack")
    status, _, errors = desk.haft("approve", id, "--allow")
    assert status == 0, errors
    status, _, errors = desk.haft("approve", id, "--allow")
    assert status == 4, errors
    assert f"no action '{id}' awaits approval" in errors
    (approval,) = desk.wire.call("approvals/list", session="work")["approvals"]
    assert approval["id"] == id
    assert desk.haft("approve", approval["approval_id"], "--deny")[0] == 0
    assert desk.wire.finish(first)["result"] == "hello\n"
    with pytest.raises(Refused):
        desk.wire.finish(second)


def test_each_decision_is_an_option(desk: Desk) -> None:
    number = desk.begin("b")
    assert desk.haft("approve", "b", "--deny", "--reason", "not today")[0] == 0
    with pytest.raises(Refused, match="not today") as refused:
        desk.wire.finish(number)
    assert refused.value.code == -32007
    number = desk.begin("c")
    assert desk.haft("approve", "c", "--skip")[0] == 0
    assert "was skipped" in desk.wire.finish(number)["result"]
    number = desk.begin("d")
    status, _, err = desk.haft("approve", "d", "--edit", '{"texts": 1}')
    assert status == 4 and "did you mean `text`" in err
    assert desk.haft("approve", "d", "--edit", '{"text": "changed"}')[0] == 0
    assert desk.wire.finish(number)["result"] == "changed\n"


def test_a_decision_can_hold_for_the_session(desk: Desk) -> None:
    number = desk.begin("e")
    status, _, err = desk.haft("approve", "e")
    (listed,) = json.loads(desk.haft("--json", "approvals")[1])["approvals"]
    assert status == 2 and f"haft approve {listed['approval_id']} --allow" in err
    status, out, _ = desk.haft("status")
    (waiting,) = [line for line in out.splitlines() if line.startswith("approval")]
    assert f"spawn of e (careful); `haft approve {listed['approval_id']}` decides" in waiting
    assert desk.haft("approve", "e", "--allow", "--remember", "session")[0] == 0
    desk.wire.finish(number)
    assert desk.wire.finish(desk.begin("f"))["result"] == "hello\n"
    desk.wire.call("session/close", session="work")
    status, out, _ = desk.haft("audit", "e")
    assert status == 0 and "allow spawn of careful for the session" in out


@pytest.mark.parametrize(("typed", "done"), [("y", True), ("no", False)])
def test_the_call_is_shown_at_a_terminal(desk: Desk, typed: str, done: bool) -> None:
    number = desk.begin("g", text="a\u202eb")
    person = desk.terminal("approve", "g")
    person.expect_exact("careful: spawn work/g")
    person.expect_exact("command: echo 'a b'")
    person.expect_exact("folder: /")
    person.expect_exact('  "text": "a\\u202eb"')
    person.sendline(typed)
    person.expect_exact(f"work/g: spawn {'allowed' if done else 'denied'}")
    person.expect(pexpect.EOF)
    if done:
        assert desk.wire.finish(number)["result"] == "a\u202eb\n"
    else:
        with pytest.raises(Refused):
            desk.wire.finish(number)


def test_a_wrong_key_at_a_terminal_is_asked_for_again(desk: Desk) -> None:
    number = desk.begin("again")
    person = desk.terminal("approve", "again")
    person.sendline("")
    person.expect_exact("nothing was decided: answer y, n or s; ? explains the choices")
    person.sendline("?")
    person.expect_exact("no, n: do not do it; the call fails")
    person.sendline("q")
    person.expect_exact("; ? explains the choices")
    person.sendline("skip")
    person.expect_exact("work/again: spawn skipped")
    person.expect(pexpect.EOF)
    assert "was skipped" in desk.wire.finish(number)["result"]


def test_the_third_wrong_key_decides_nothing(desk: Desk) -> None:
    number = desk.begin("thrice")
    person = desk.terminal("approve", "thrice")
    for _ in range(3):
        person.sendline("q")
    person.expect_exact("nothing was decided")
    person.expect(pexpect.EOF)
    person.close()
    assert person.exitstatus == 2
    assert desk.haft("approve", "thrice", "--skip")[0] == 0
    desk.wire.finish(number)


def test_a_result_review_is_decided_the_same_way(desk: Desk) -> None:
    def call(text: str, status: int = 0) -> int:
        arguments = {"text": text, "status": status}
        number = desk.wire.start(
            "tools/call", session="work", tool="looked_at", arguments=arguments
        )
        until(lambda: desk.wire.call("approvals/list", session="work")["approvals"], "a result")
        return number

    def id() -> str:
        (one,) = json.loads(desk.haft("--json", "approvals")[1])["approvals"]
        assert one["action"] == "result"
        return str(one["approval_id"])

    number = call("x")
    assert desk.haft("approve", id(), "--edit", '{"text": "y"}')[0] == 0
    assert desk.wire.finish(number)["result"] == "y"
    number = call("x")
    assert desk.haft("approve", id(), "--deny")[0] == 0
    with pytest.raises(Refused, match="withheld"):
        desk.wire.finish(number)
    number = call("a\u202eb", 3)
    person = desk.terminal("approve", id())
    person.expect_exact("(it has failed)")
    person.expect_exact("exited with code 3")
    person.expect_exact("a\\u202eb")
    person.sendline("s")
    person.expect(pexpect.EOF)
    assert "was not released" in desk.wire.finish(number)["result"]


@pytest.mark.parametrize(
    "words",
    [
        ("spawn", "careful", "--id", "h", "--arg", "text=a"),
        ("apply", "typed", "--line", "a"),
    ],
)
def test_a_call_awaiting_approval_reports_the_wait_and_extends_its_time(
    desk: Desk, words: tuple[str, ...]
) -> None:
    if words[0] == "apply":
        desk.wire.call("spawn", session="work", tool="typed", id="typed", wait="none")
    person = desk.terminal("--session", "work", *words)
    id = "typed" if words[0] == "apply" else "h"
    subject = "the input" if words[0] == "apply" else "its start"
    person.expect_exact(
        f"{id}: {subject} awaits approval; decide in another terminal: `haft --session work approve {id}`; Ctrl-C withdraws it"
    )
    assert desk.haft("--session", "work", "approve", id, "--allow")[0] == 0
    person.expect_exact("a\r\n")
    person.expect(pexpect.EOF)


@pytest.mark.parametrize("decision", ["--allow", None])
def test_a_start_waits_for_its_approval_as_long_as_the_timeout(
    desk: Desk, decision: str | None
) -> None:
    id = f"late{decision}"
    words = ["spawn", "careful", "--id", id, "--arg", "text=a", "--timeout-ms", "10"]
    status, out, err = desk.haft("--session", "work", *words)
    assert (status, out) == (5, "")
    assert (
        f"timed out: its start awaits approval; `haft --session work approve {id}` decides, "
        f"`haft --session work abort {id}` withdraws it" in err
    )
    if decision is None:
        assert desk.haft("--session", "work", "abort", id)[0] == 0
        assert desk.haft("approve", id, "--allow")[0] == 4
    else:
        assert desk.haft("approve", id, decision)[0] == 0
        assert "a" in desk.haft("--session", "work", "fetch", id, "--wait", "stopped")[1]


def test_an_input_waits_for_its_approval_as_long_as_the_timeout(desk: Desk) -> None:
    desk.wire.call("spawn", session="work", tool="typed", id="brief", wait="none")
    words = ["apply", "brief", "--line", "canary", "--timeout-ms", "10"]
    status, out, err = desk.haft("--session", "work", *words)
    assert (status, out) == (5, "")
    assert "timed out, as the input awaited approval; it is withdrawn, and nothing was done" in err
    status, out, _ = desk.haft("--json", "--session", "work", *words)
    assert status == 5 and json.loads(out)["error"]["kind"] == "timeout"
    until(lambda: not desk.wire.call("approvals/list", session="work")["approvals"], "withdrawal")
    assert "canary" not in desk.wire.call("fetch", session="work", id="brief")["content"]
    desk.wire.call("abort", session="work", id="brief")


def test_a_command_without_a_terminal_names_the_options_that_bound_its_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a terminal no person can press Ctrl-C."""
    monkeypatch.setattr("sys.stdin", None)
    spawn = argparse.Namespace(command="spawn")
    assert other_bounds(spawn) == "; --timeout-ms bounds this wait and --wait none ends it"
    assert other_bounds(argparse.Namespace(command="fetch")) == "; --timeout-ms bounds this wait"
    assert other_bounds(argparse.Namespace(command="spawn", timeout_ms=10)) == ""
    assert other_bounds(argparse.Namespace(command="run")) == ""


def test_an_interrupted_input_that_awaits_approval_is_withdrawn(desk: Desk) -> None:
    desk.wire.call("spawn", session="work", tool="typed", id="kept", wait="none")
    person = desk.terminal("--session", "work", "apply", "kept", "--line", "a")
    person.expect_exact("Ctrl-C withdraws it")
    person.sendintr()
    person.expect_exact("kept runs on")
    person.expect(pexpect.EOF)
    status, _, err = desk.haft("approve", "kept", "--allow")
    assert status == 4 and "no action 'kept' awaits approval" in err
    assert desk.wire.call("abort", session="work", id="kept")["state"] == "stopped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_a_run_whose_result_is_under_review(
    reviewer: RunningDaemon, number: signal.Signals
) -> None:
    """The program has ended and takes no signal."""
    id = f"reviewed-{number.name}"
    words = ["run", "--id", id, "--", "sh", "-c", "echo seen; exit 3"]
    with subprocess.Popen(
        [sys.executable, "-m", "haft", *words], env=reviewer.env, stderr=subprocess.PIPE
    ) as client:
        assert client.stderr is not None
        try:
            assert f"{id}: its result awaits approval".encode() in client.stderr.readline()
            client.send_signal(number)
            assert client.wait(20) in (-number, 128 + number)
        finally:
            client.kill()
    with reviewer.connect() as wire:
        assert wire.call("fetch", id=id)["review"] == "waits"
        (approval,) = wire.call("approvals/list", session="default")["approvals"]
        wire.call("approvals/decide", approval_id=approval["approval_id"], decision="allow")
        state = wire.call("fetch", id=id, wait="stopped")
        assert state["exit"] == {"code": 3} and state["content"] == "seen\n"


def test_an_interrupted_wait_for_a_result_under_review_reports_no_withdrawn_start(
    desk: Desk,
) -> None:
    words = ["spawn", "looked_at", "--id", "seen", "--arg", "text=a", "--wait", "stopped"]
    person = desk.terminal("--session", "work", *words)
    person.expect_exact("seen: its result awaits approval")
    person.expect_exact("Ctrl-C ends the wait")
    person.sendintr()
    person.expect_exact("interrupted; seen runs on")
    person.expect(pexpect.EOF)
    assert desk.haft("approve", "seen", "--skip")[0] == 0
