"""Answers that a person wants to give once: for the session or the turn, to the same question of the
same tool, and to nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.inquiring import Client, asking, tool
from tests.e2e.joining import joined, serving
from tests.running import RunningDaemon
from tests.wire import Refused

TOOLS = "".join(
    [
        tool("held", asking("sure"), asking("name", "Text"), stateful=True),
        tool("other", asking("sure")),
        tool("model", asking("sure"), more="questions.sure.target = 'assistant'"),
        tool("secret", asking("pass", "Secret")),
        tool("again", asking("sure")).replace('call["answers"]:', "():"),
    ]
)
Join = Callable[..., Client]


@pytest.fixture(scope="module")
def asker() -> Iterator[RunningDaemon]:
    with serving(TOOLS) as daemon:
        yield daemon


@pytest.fixture
def join(asker: RunningDaemon) -> Iterator[Join]:
    with joined(asker, Client) as join:
        yield join


def run(client: Client, name: str) -> int:
    return client.start("tools/call", tool=name)


def last(asker: RunningDaemon, session: str) -> dict[str, Any]:
    """The last answer in the audit log."""
    lines = (asker.state / "haft" / "audit.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    found: dict[str, Any] = [
        one for one in records if one["event"] == "answer" and one["session"] == session
    ][-1]
    return found


def test_an_answer_for_the_session_is_given_again_and_recorded_as_such(
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


def test_an_answer_for_the_turn_ends_with_it(join: Join) -> None:
    host = join()
    host.call("turn/begin")
    for _ in range(2):
        running = run(host, "other")
        host.result(host.asked(), {"answer": True, "remember": "turn"})
        host.finish(running)
        assert json.loads(host.finish(run(host, "other"))["result"]) == {"sure": True}
        host.call("turn/begin")
    assert host.is_asked_nothing()


def test_a_thin_client_says_it_as_well(join: Join) -> None:
    host = join(able=False)
    host.call("spawn", tool="held", id="a", wait="input")
    (asked,) = host.call("inquiries/list")["inquiries"]
    given = {"inquiry_id": asked["inquiry_id"], "answer": True}
    with pytest.raises(Refused, match="-32602"):
        host.call("inquiries/answer", remember="ever", **given)
    host.call("inquiries/answer", remember="session", **given)
    state = host.call("spawn", tool="held", id="b", wait="input")
    assert state["question"]["id"] == "name"


@pytest.mark.parametrize(("name", "what"), [("secret", "a secret"), ("model", "a model is asked")])
def test_what_cannot_be_remembered_is_refused_and_still_asked(
    join: Join, name: str, what: str
) -> None:
    host = join(able=False)
    running = run(host, name)
    while not (listed := host.call("inquiries/list")["inquiries"]):
        pass
    given = {"inquiry_id": listed[0]["inquiry_id"], "answer": "x" if name == "secret" else True}
    with pytest.raises(Refused, match=f"-32011.*{what}"):
        host.call("inquiries/answer", remember="session", **given)
    host.call("inquiries/answer", **given)
    host.finish(running)


def test_an_answer_that_no_longer_fits_is_asked_for_again(asker: RunningDaemon, join: Join) -> None:
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


def test_one_that_asks_again_what_was_remembered_fails_instead_of_looping(join: Join) -> None:
    host = join()
    running = run(host, "again")
    host.result(host.asked(), {"answer": True, "remember": "session"})
    first = host.finish(running)
    assert host.finish(run(host, "again"))["error"] == first["error"]
    assert host.is_asked_nothing()


def test_what_the_daemons_own_tool_asks_is_new_each_time(join: Join) -> None:
    host = join()
    for text in ("one?", "two?"):
        arguments = {"question": text, "type": "boolean"}
        running = host.start("tools/call", tool="ask_user", arguments=arguments)
        asked = host.asked()
        assert asked["params"]["question"]["text"] == text
        host.result(asked, {"answer": True, "remember": "session"})
        host.finish(running)
