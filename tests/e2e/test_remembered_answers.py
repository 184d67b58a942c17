"""Remembered answers hold for the session or the turn, for the same question of the same tool
only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.question_tools import Client, Join, asking, tool
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

CLIENT = Client
TOOLS = "".join(
    [
        tool("held", asking("sure"), asking("name", "Text"), stateful=True),
        tool("other", asking("sure")),
        tool("model", asking("sure"), more="questions.sure.target = 'assistant'"),
        tool("secret", asking("pass", "Secret")),
        tool("again", asking("sure")).replace('call["answers"]:', "():"),
    ]
)


def run(client: Client, name: str) -> int:
    return client.start("tools/call", tool=name)


def last(asker: RunningDaemon, session: str) -> dict[str, Any]:
    """The last answer in the audit log."""
    lines = (asker.state / "haft" / "audit.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    found: dict[str, Any] = [
        record for record in records if record["event"] == "answer" and record["session"] == session
    ][-1]
    return found


def test_a_session_answer_is_reused_and_recorded_as_remembered(
    asker: RunningDaemon, join: Join
) -> None:
    host = join()
    running = run(host, "held")
    host.result(host.asked(), {"answer": True, "remember": "session"})
    host.reply(host.asked(), "Ada")
    done = host.finish(running)
    assert last(asker, done["session"])["input"] == "Ada"
    running = run(host, "held")
    asked = host.asked()
    assert asked["params"]["question"]["id"] == "name"
    assert last(asker, done["session"])["by"] == "remembered"
    host.reply(asked, "Eve")
    assert json.loads(host.finish(running)["result"]) == {"sure": True, "name": "Eve"}
    # The same id of another tool is another question, and so is that of another session.
    running = run(host, "other")
    host.reply(host.asked(), False)
    assert json.loads(host.finish(running)["result"]) == {"sure": False}
    host.call("session/close")
    running = run(host, "held")
    assert host.asked()["params"]["question"]["id"] == "sure"


def test_a_turn_answer_ends_with_the_turn(join: Join) -> None:
    host = join()
    host.call("turn/begin")
    for _ in range(2):
        running = run(host, "other")
        host.result(host.asked(), {"answer": True, "remember": "turn"})
        host.finish(running)
        assert json.loads(host.finish(run(host, "other"))["result"]) == {"sure": True}
        host.call("turn/begin")
    assert host.is_asked_nothing()


def test_a_thin_client_can_remember_an_answer(join: Join) -> None:
    host = join(able=False)
    host.call("spawn", tool="held", id="a", wait="input")
    (asked,) = host.call("inquiries/list")["inquiries"]
    params = {"inquiry_id": asked["inquiry_id"], "answer": True}
    with pytest.raises(Refused, match="-32602"):
        host.call("inquiries/answer", remember="ever", **params)
    host.call("inquiries/answer", remember="session", **params)
    state = host.call("spawn", tool="held", id="b", wait="input")
    assert state["question"]["id"] == "name"


@pytest.mark.parametrize(("name", "kind"), [("secret", "a secret"), ("model", "asked of a model")])
def test_an_unrememberable_answer_is_refused_and_the_question_stays(
    join: Join, name: str, kind: str
) -> None:
    host = join(able=False)
    running = run(host, name)
    while not (listed := host.call("inquiries/list")["inquiries"]):
        pass
    params = {"inquiry_id": listed[0]["inquiry_id"], "answer": "x" if name == "secret" else True}
    with pytest.raises(Refused, match=f"-32011.*{kind}"):
        host.call("inquiries/answer", remember="session", **params)
    host.call("inquiries/answer", **params)
    host.finish(running)


def test_an_outdated_remembered_answer_is_asked_again(asker: RunningDaemon, join: Join) -> None:
    """The program is the same, its question has changed."""
    flag = asker.base / "flag"
    changing = tool("changing", asking("sure"), asking("sure", "Text")).replace(
        'for question in json.loads(os.environ["ASKS"]):',
        f'for question in json.loads(os.environ["ASKS"])[os.path.exists({str(flag)!r}):][:1]:',
    )
    asker.tools(changing, "zz.toml")
    host = join()
    host.call("tools/reload")
    running = run(host, "changing")
    host.result(host.asked(), {"answer": True, "remember": "session"})
    host.finish(running)
    flag.touch()
    running = run(host, "changing")
    host.reply(host.asked(), "text")
    assert json.loads(host.finish(running)["result"]) == {"sure": "text"}


def test_a_tool_that_repeats_a_remembered_question_fails_instead_of_looping(join: Join) -> None:
    host = join()
    running = run(host, "again")
    host.result(host.asked(), {"answer": True, "remember": "session"})
    first = host.finish(running)
    assert host.finish(run(host, "again"))["error"] == first["error"]
    assert host.is_asked_nothing()


def test_questions_of_the_builtin_tool_are_never_remembered(join: Join) -> None:
    host = join()
    for text in ("one?", "two?"):
        arguments = {"question": text, "type": "boolean"}
        running = host.start("tools/call", tool="ask_user", arguments=arguments)
        asked = host.asked()
        assert asked["params"]["question"]["text"] == text
        host.result(asked, {"answer": True, "remember": "session"})
        host.finish(running)
