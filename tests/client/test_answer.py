from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from tests.client.terminal import HaftTerminal
from tests.e2e.question_tools import Client, asking, tool
from tests.forkserver import run_haft
from tests.running_daemon import RunningDaemon

SELECT = {"Select": {"options": ["a b", 2]}}
TOOLS = "".join(
    tool(name, question, stateful=True)
    for name, question in {
        "bool": {**asking("q", text="Really?\x1b[31m"), "pre_amble": "This cannot be undone."},
        "text": {**asking("q", "Text"), "default": "Ada"},
        "select": asking("q", SELECT),
        "secret": asking("q", "Secret"),
        "lasting": asking("q"),
    }.items()
)
TOOLS += """
[tools.later]
source = "local"
stateful = true
output = "events"
command = ["sh", "-c", '''
read -r line; until [ -e "$0" ]; do sleep 0.05; done
echo '{"type": "waiting", "question": {"id": "q", "text": "Late?", "answer_type": {"type": "boolean"}}}'
read -r line; echo '{"type": "stopped", "result": "fine"}'
''', "{{ tool.arguments.file }}"]
parameters.file = { type = "string", required = true }

[tools.decided]
source = "local"
stateful = true
command = ["true"]
run = "ask"
"""
TOOLS += tool("two", asking("first", "Text"), asking("second", "Text"), stateful=True)


class Desk:
    """A daemon, a client whose tools ask, and the command line."""

    def __init__(self, daemon: RunningDaemon) -> None:
        self.daemon = daemon
        self.client = Client(daemon, session="work", able=False)

    def spawn(self, name: str, id: str) -> str:
        """Start a tool that asks; return the id of its inquiry."""
        self.client.call("spawn", tool=name, id=id, call_id=id, wait="input")
        return f"tool_call.{name}.{id}"

    def result(self, id: str) -> object:
        state = self.client.call("fetch", id=id, wait="stopped")
        return json.loads(state["result"])["q"]

    def haft(self, *words: str, given: str = "") -> tuple[int, str, str]:
        done = run_haft(words, env=self.daemon.env, given=given)
        return done.returncode, done.stdout, done.stderr

    def terminal(self, *words: str) -> HaftTerminal:
        return HaftTerminal(*words, env=self.daemon.env)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    folder = Path(tempfile.mkdtemp(prefix="haft-"))
    daemon = RunningDaemon(folder)
    daemon.tools(TOOLS)
    desk = Desk(daemon.start())
    yield desk
    desk.client.close()
    daemon.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_questions_are_listed_with_their_input_forms(desk: Desk) -> None:
    assert desk.haft("questions") == (0, "", "haft questions: there are no open questions\n")
    inquiry = desk.spawn("bool", "list1")
    desk.spawn("select", "list2")
    status, out, _ = desk.haft("questions")
    head, *rows = [line.split(None, 3) for line in out.splitlines()]
    assert status == 0 and head == ["ID", "SESSION", "HANDLE", "QUESTION"]
    asked = "This cannot be undone. Really? [31m [yes/no]"
    assert rows[0] == [inquiry, "work", "list1", asked]
    assert rows[1][3] == "q? [a b | 2]"
    assert desk.haft("questions", "--session", "other")[1] == ""
    listed = json.loads(desk.haft("questions", "--json")[1])["inquiries"]
    assert [row["handle"] for row in listed] == ["list1", "list2"]
    for id in ("list1", "list2"):
        desk.client.call("abort", id=id)


@pytest.mark.parametrize(
    ("name", "value", "answer"),
    [
        ("bool", "yes", True),
        ("bool", "N", False),
        ("text", "true", "true"),
        ("select", "a b", "a b"),
        ("select", "2", 2),
    ],
)
def test_an_answer_has_the_requested_type(
    desk: Desk, name: str, value: str, answer: object
) -> None:
    id = f"{name}-{value.replace(' ', '_')}"
    inquiry = desk.spawn(name, id)
    given = ("yes" if answer else "no") if name == "bool" else value
    text = "Really? [31m" if name == "bool" else "q?"
    answered = f"work/{id}: answered {given} ({text})\n"
    assert desk.haft("answer", inquiry, value) == (0, "", answered)
    assert desk.result(id) == answer and type(desk.result(id)) is type(answer)


def test_an_answer_can_be_remembered(desk: Desk) -> None:
    inquiry = desk.spawn("lasting", "first")
    assert desk.haft("answer", inquiry, "yes", "--remember", "session")[0] == 0
    assert (
        desk.client.call("spawn", tool="lasting", id="next", wait="stopped")["state"] == "stopped"
    )
    inquiry = desk.spawn("secret", "kept")
    status, _, err = desk.haft("answer", inquiry, "-", "--remember", "session", given="canary\n")
    assert status == 4 and "cannot be remembered" in err and "canary" not in err
    desk.client.call("abort", id="kept")


def test_a_handle_id_selects_its_question_and_a_pipe_may_answer(desk: Desk) -> None:
    desk.spawn("secret", "piped")
    status, out, err = desk.haft("answer", "piped", "-", given="canary\n")
    assert (status, out, err) == (0, "", "work/piped: answered with a secret (q?)\n")
    assert desk.result("piped") == "canary"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("wrong", "perhaps"), "the question takes yes or no"),
        (("wrong",), "no terminal to ask on; give the answer"),
        (("hidden", "canary"), "other users can read command lines"),
    ],
)
def test_an_impossible_answer_is_a_usage_error(
    desk: Desk, words: tuple[str, ...], why: str
) -> None:
    for name, id in (("bool", "wrong"), ("secret", "hidden")):
        desk.client.call("spawn", tool=name, id=id, wait="input")
    status, out, err = desk.haft("answer", *words)
    assert (status, out) == (2, "") and why in err and "canary" not in err
    for id in ("wrong", "hidden"):
        assert desk.client.call("abort", id=id)["ended_by"]["by"] == "abort"


def test_an_unknown_id_has_the_status_of_every_unknown_id(desk: Desk) -> None:
    status, out, err = desk.haft("answer", "nobody", "yes")
    assert (status, out) == (4, "") and "'nobody' has no open question" in err
    status, out, _ = desk.haft("--json", "answer", "nobody", "yes")
    assert status == 4 and json.loads(out)["error"]["kind"] == "unknown_id"


def test_an_answer_to_a_handle_that_has_asked_nothing_names_the_wait_for_its_question(
    desk: Desk, tmp_path: Path
) -> None:
    desk.client.call("spawn", tool="later", id="l", args={"file": str(tmp_path / "asks")})
    status, out, err = desk.haft("answer", "l", "yes")
    assert (status, out) == (4, "")
    command = "haft --session work fetch l --wait input"
    assert err == f"haft answer: 'l' is running and asks nothing yet; `{command}` waits for it\n"
    (tmp_path / "asks").touch()
    status, out, err = desk.haft(*command.split()[1:])
    assert status == 0 and "asks: Late? [yes/no]" in out + err
    assert desk.haft("answer", "l", "yes")[0] == 0
    assert desk.client.call("fetch", id="l", wait="stopped")["result"] == "fine"
    status, _, err = desk.haft("answer", "l", "yes")
    assert status == 4 and "'l' has ended and has no question" in err


def test_an_answer_to_a_handle_that_awaits_approval_names_the_decision(desk: Desk) -> None:
    desk.client.call("spawn", tool="decided", id="d", approval_timeout_ms=0)
    status, _, err = desk.haft("answer", "d", "yes")
    assert status == 4 and "'d' awaits approval; `haft --session work approve d` decides" in err
    desk.client.call("abort", id="d")


@pytest.mark.parametrize(
    ("name", "help"),
    [("bool", "yes, y or true; no, n or false"), ("select", "one of these:\r\n  a b\r\n  2")],
)
def test_a_wrong_answer_at_a_terminal_is_asked_for_again_twice(
    desk: Desk, name: str, help: str
) -> None:
    id = f"again-{name}"
    desk.spawn(name, id)
    person = desk.terminal("answer", id)
    for _ in range(2):
        person.sendline("perhaps")
        person.expect_exact("; ? explains the choices")
    person.sendline("?")
    person.expect_exact(help)
    person.sendline("2" if name == "select" else "no")
    person.expect_exact("answered")
    person.expect(pexpect.EOF)
    assert desk.result(id) in (2, False)


def test_the_third_wrong_answer_at_a_terminal_ends_the_command(desk: Desk) -> None:
    desk.spawn("bool", "thrice")
    person = desk.terminal("answer", "thrice")
    for _ in range(3):
        person.sendline("perhaps")
    person.expect(pexpect.EOF)
    person.close()
    assert person.exitstatus == 2
    assert str(person.before).count("takes yes or no") == 3
    desk.client.call("abort", id="thrice")


@pytest.mark.parametrize(
    ("name", "value"), [("bool", " yes"), ("text", " …"), ("select", " …"), ("secret", "")]
)
def test_input_and_an_attach_of_a_handle_that_asks_name_the_answer(
    desk: Desk, name: str, value: str
) -> None:
    id = f"asks-{name}"
    desk.spawn(name, id)
    command = f"answer it: `haft --session work answer {id}{value}`"
    status, out, err = desk.haft("--session", "work", "apply", id, "--line", "yes")
    assert (status, out) == (4, "")
    assert "the handle asks a question, and typed input does not answer it" in err
    assert err.endswith(f"the question is still open; {command}\n") and "`input`" not in err
    person = desk.terminal("--color", "never", "--session", "work", "attach", id)
    person.expect(pexpect.EOF)
    shown = " ".join((person.before or "").split())
    assert shown.endswith(f"{id} runs without a terminal and asks a question; {command}")
    desk.client.call("abort", id=id)


def test_on_a_terminal_the_question_is_shown_and_the_answer_read(desk: Desk) -> None:
    desk.spawn("bool", "shown")
    person = desk.terminal("answer", "shown")
    person.expect_exact("This cannot be undone.")
    person.expect_exact("Really? [31m [yes/no]")
    person.sendline("yes")
    person.expect(pexpect.EOF)
    assert desk.result("shown") is True
    desk.spawn("text", "default")
    person = desk.terminal("answer", "default")
    person.expect_exact("[text]")
    person.sendline("")
    person.expect(pexpect.EOF)
    assert desk.result("default") == "Ada"


def test_typed_input_answers_only_the_question_shown(desk: Desk) -> None:
    desk.client.call("spawn", tool="two", id="two", wait="input")
    person = desk.terminal("answer", "two")
    person.expect_exact("first? [text]")
    desk.client.call("apply", id="two", input="quicker", wait="input")
    person.sendline("slower")
    person.expect_exact("is not asking the question 'first'")
    person.expect(pexpect.EOF)
    assert desk.client.call("fetch", id="two")["question"]["id"] == "second"
    desk.client.call("abort", id="two")


def test_on_a_terminal_a_secret_is_read_without_echo(desk: Desk) -> None:
    desk.spawn("secret", "typed")
    person = desk.terminal("answer", "typed")
    person.expect_exact("secret: ")
    person.sendline("canary-typed")
    person.expect(pexpect.EOF)
    assert "canary" not in (person.before or "")
    assert desk.result("typed") == "canary-typed"


def test_apply_asks_for_a_secret_without_echo(desk: Desk) -> None:
    desk.spawn("secret", "asked")
    person = desk.terminal("--session", "work", "apply", "asked", "--secret", "--wait", "stopped")
    person.expect_exact("q?")
    person.expect_exact("secret: ")
    person.sendline("canary")
    person.expect(pexpect.EOF)
    assert (person.before or "").count("canary") == 1, "only in what the tool says"
    assert desk.result("asked") == "canary"
