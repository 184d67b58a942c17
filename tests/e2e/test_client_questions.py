from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from haft import Haft, RemoteError
from tests.e2e.question_tools import Client, Join, asking
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

CLIENT = Client
TOOLS = ""
OWN = asking("merge", {"type": "boolean"}, "Merge it?")


def ask(client: Client, question: object = OWN, target: object = "user", **more: Any) -> int:
    return client.start("inquiries/ask", question=question, target=target, **more)


def opened(client: Client) -> dict[str, Any]:
    """Return the only open question of the session."""
    found: list[dict[str, Any]] = []

    def is_open() -> bool:
        found[:] = client.call("inquiries/list")["inquiries"]
        return bool(found)

    until(is_open, "it is asked")
    (one,) = found
    return one


def test_a_question_goes_to_other_clients_and_never_to_the_asker(join: Join) -> None:
    asker = join("asker")
    number = ask(asker)
    open_question = opened(asker)
    assert asker.is_asked_nothing()
    other = join("other")
    asked = other.asked()
    assert asked["params"] == open_question
    assert asked["params"]["inquiry_id"].startswith("client_question.")
    assert (asked["params"]["question"], asked["params"]["target"]) == (OWN, "user")
    assert not {"handle", "call_id", "context"} & asked["params"].keys()
    other.reply(asked, "yes")
    assert "true or false" in other.asked()["params"]["refused"]
    other.reply(asked | {"id": f"haft.{int(asked['id'].partition('.')[2]) + 1}"}, False)
    assert asker.finish(number) == {"answer": False}
    assert asker.call("inquiries/list")["inquiries"] == []


def test_a_question_can_be_answered_by_pull(join: Join) -> None:
    asker = join(able=False)
    question = asking("how", {"type": "select", "options": ["gently", 3]})
    number = ask(asker, question, "caller")
    open_question = opened(asker)
    with pytest.raises(Refused, match="takes one of"):
        asker.call("inquiries/answer", inquiry_id=open_question["inquiry_id"], answer="3")
    with pytest.raises(Refused, match="cannot be remembered"):
        answer = {"inquiry_id": open_question["inquiry_id"], "answer": 3, "remember": "session"}
        asker.call("inquiries/answer", **answer)

    def is_unclaimed() -> bool:
        (status,) = (
            question
            for question in asker.call("daemon/status")["questions"]
            if question["inquiry_id"] == open_question["inquiry_id"]
        )
        assert status["question"] == "how"
        assert "tool" not in status
        return not status["asked"]

    until(is_unclaimed, "all have declined")
    asker.call("inquiries/answer", inquiry_id=open_question["inquiry_id"], answer=3)
    assert asker.finish(number) == {"answer": 3}


def test_no_answer_in_time_is_an_error(join: Join) -> None:
    with pytest.raises(Refused) as refused:
        join().call("inquiries/ask", question=OWN, target="user", timeout_s=0)
    assert refused.value.code == -32011
    assert refused.value.message == (
        "Question 'merge' has no answer: nobody answered within 0 s (`timeout_s`)."
    )


def test_an_error_of_the_asked_client_fails_the_question(join: Join) -> None:
    asker, other = join("asker"), join("other")
    number = ask(asker)
    other.refuse(other.asked(), -32000, "the user has left")
    with pytest.raises(Refused, match="the user has left"):
        asker.finish(number)


def test_a_cancelled_call_withdraws_the_question(join: Join) -> None:
    asker, other = join("asker"), join("other")
    number = ask(asker)
    asked = other.asked()
    asker.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
    assert other.told("$/cancelRequest")["params"]["id"] == asked["id"]
    with pytest.raises(Refused) as refused:
        asker.finish(number)
    assert refused.value.code == -32800
    assert other.call("inquiries/list")["inquiries"] == []


def test_the_end_of_the_connection_withdraws_the_question(join: Join) -> None:
    asker, other = join("asker"), join("other")
    ask(asker)
    asked = other.asked()
    asker.close()
    assert other.told("$/cancelRequest")["params"]["id"] == asked["id"]


def test_the_end_of_the_session_ends_the_call(join: Join) -> None:
    asker = join()
    number = ask(asker)
    opened(asker)
    asker.call("session/close")
    with pytest.raises(Refused, match="was closed") as refused:
        asker.finish(number)
    assert refused.value.code == -32011


def test_a_secret_is_asked_of_a_user_and_is_in_no_record(join: Join, asker: RunningDaemon) -> None:
    client, other = join("asker"), join("other")
    secret = asking("pass", {"type": "secret"})
    with pytest.raises(Refused, match="only a person may be asked"):
        client.call("inquiries/ask", question=secret, target="assistant")
    number = ask(client, secret, "caller")
    asked = other.asked()
    assert asked["params"]["target"] == "user"
    other.reply(asked, "canary-of-a-secret")
    assert client.finish(number) == {"answer": "canary-of-a-secret"}
    audit = "".join(path.read_text() for path in asker.state.glob("haft/audit*"))
    assert '"asked_by"' in audit
    assert "canary-of-a-secret" not in audit + asker.log_text()


WRONG: list[dict[str, Any]] = [
    {"question": asking("q", {"type": "select", "options": []}), "target": "user"},
    {"question": asking("q", {"type": "form", "fields": {}}), "target": "user"},
    {"question": {"id": "q", "text": "?"}, "target": "user"},
    {"question": OWN},
    {"question": OWN, "target": "nobody"},
    {"question": OWN, "target": "user", "timeout_s": -1},
]


@pytest.mark.parametrize("params", WRONG)
def test_a_question_that_cannot_be_answered_is_refused(join: Join, params: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        join().call("inquiries/ask", **params)
    assert refused.value.code == -32602


def test_a_program_answers_client_questions_like_tool_questions(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    script = "import json, sys; print(json.dumps({'answer': 'go on' in json.load(sys.stdin)['question']['text']}))"
    daemon = make_daemon(
        f'[inquiry]\nbackends = ["command"]\n[inquiry.command]\nargv = ["{sys.executable}", "-c", "{script}"]\n'
    )
    with daemon.start().connect() as wire:
        for text, answer in (("go on?", True), ("stop?", False)):
            question = asking("q", {"type": "boolean"}, text)
            assert wire.call("inquiries/ask", question=question, target="user") == {
                "answer": answer
            }


def test_the_client_asks_and_returns_the_answer(make_daemon: Callable[..., RunningDaemon]) -> None:
    script = "import json, sys; print(json.dumps({'answer': 'go on' in json.load(sys.stdin)['question']['text']}))"
    daemon = make_daemon(
        f'[inquiry]\nbackends = ["command"]\n[inquiry.command]\nargv = ["{sys.executable}", "-c", "{script}"]\n'
    ).start()
    with Haft.connect(str(daemon.socket)) as haft:
        assert haft.ask(asking("q", {"type": "boolean"}, "go on?")) is True
        assert haft.ask(asking("q", {"type": "boolean"}, "stop?"), timeout_s=20) is False
        with pytest.raises(RemoteError, match="only a person may be asked"):
            haft.ask(asking("pass", {"type": "secret"}), target="assistant")
