from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.question_tools import Client, Join, asking, tool
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

SELECT = {"Select": {"options": ["gently", "quickly", 3]}}
CLIENT = Client
TOOLS = "".join(
    [
        tool("modify_file", asking("backup", text="Create backup files?")),
        tool("three", asking("sure"), asking("how", SELECT), asking("name", "Text")),
        tool("held", asking("sure"), asking("name", "Text"), stateful=True),
        tool(
            "fixed",
            asking("sure"),
            asking("name", "Text"),
            more="questions = { sure = { answer = true }, name = { target = 'user' } }",
            stateful=True,
        ),
        tool("misfixed", asking("sure"), more="questions.sure.answer = 'yes'"),
        tool("model", asking("sure"), more="questions.sure.target = 'assistant'"),
        tool("tabled", asking("sure"), more="questions.sure.target = { model = 'small' }"),
        tool("secret", asking("pass", "Secret"), stateful=True),
        tool("leaky", asking("pass", "Secret"), more="questions.pass.target = 'assistant'"),
        tool("stored", asking("pass", "Secret"), more="questions.pass.answer = 'canary'"),
        tool("again", asking("sure")).replace('call["answers"]:', "():"),
    ]
)


def call(client: Client, name: str, **more: Any) -> int:
    return client.start("tools/call", tool=name, **more)


def ask(client: Client, **more: Any) -> int:
    """Ask by a tool without a process, which is cheaper."""
    return call(client, "ask_user", arguments={"question": "?", "type": "boolean"}, **more)


# ── pushed ───────────────────────────────────────────────────────────────────────────────────────


def test_a_tool_that_needs_input_asks_its_caller_and_is_run_again(join: Join) -> None:
    """The documents' example: modify a file, with its question; the caller sends arguments once
    and sees the result only."""
    host = join()
    context = {"messages": [{"role": "user", "content": "Modify file X"}]}
    running = call(host, "modify_file", call_id="call_a3b7", context=context)
    asked = host.asked()
    handle = asked["params"].pop("handle")
    session = asked["params"].pop("session")
    assert asked["params"] == {
        "call_id": "call_a3b7",
        "inquiry_id": "tool_call.modify_file.call_a3b7",
        "question": {
            "id": "backup",
            "text": "Create backup files?",
            "answer_type": {"type": "boolean"},
        },
        "schema": {
            "type": "object",
            "properties": {
                "inquiry_id": {"type": "string", "const": "tool_call.modify_file.call_a3b7"},
                "answer": {"type": "boolean"},
            },
            "required": ["inquiry_id", "answer"],
            "additionalProperties": False,
        },
        "target": "caller",
        "context": context,
    }
    host.result(asked, {"inquiry_id": "tool_call.modify_file.call_a3b7", "answer": True})
    state = host.finish(running)
    assert state["result"] == '{"backup": true}' and state["id"] == handle
    assert state["session"] == session and state["notifications"] == []


def test_a_question_that_the_client_is_asked_is_no_notice_to_it(join: Join) -> None:
    """It is one once the client has declined."""
    host = join()
    running = call(host, "modify_file")
    asked = host.asked()
    assert host.call("notifications/drain")["notifications"] == []
    host.refuse(asked, -32601)
    notices: list[Any] = []

    def drained() -> bool:
        notices.extend(host.call("notifications/drain")["notifications"])
        return bool(notices)

    until(drained, "the notice")
    assert [notice["kind"] for notice in notices] == ["tool.waiting"]
    host.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": running}})


def test_several_questions_come_in_a_row_and_answers_are_kept(join: Join) -> None:
    host = join()
    running = call(host, "three")
    for id, answer in (("sure", True), ("how", 3), ("name", "Ada")):
        asked = host.asked()
        assert asked["params"]["question"]["id"] == id
        host.reply(asked, answer)
    assert json.loads(host.finish(running)["result"]) == {"sure": True, "how": 3, "name": "Ada"}


def test_a_tool_that_repeats_an_answered_question_fails(join: Join) -> None:
    host = join()
    running = call(host, "again")
    host.reply(host.asked(), True)
    message = host.finish(running)["error"]["message"]
    assert message.startswith("The tool asked 'sure' again, although it was given the answer")
    assert host.is_asked_nothing()


def test_parallel_calls_ask_in_parallel(join: Join) -> None:
    host = join()
    running = {f"c{n}": call(host, "modify_file", call_id=f"c{n}") for n in range(4)}
    asked = [host.asked() for _ in running]
    assert {one["params"]["call_id"] for one in asked} == set(running)
    for number, one in enumerate(reversed(asked)):
        host.reply(one, number % 2 == 0)
        state = host.finish(running[one["params"]["call_id"]])
        assert json.loads(state["result"]) == {"backup": number % 2 == 0}


def test_the_target_of_the_definition_is_passed_on(join: Join) -> None:
    host = join()
    for name, target in (("model", "assistant"), ("tabled", {"model": "small"})):
        running = call(host, name)
        asked = host.asked()
        assert asked["params"]["target"] == target
        host.reply(asked, True)
        assert host.finish(running)["result"] == '{"sure": true}'


@pytest.mark.parametrize(
    "wrong",
    [
        {"answer": "yes"},
        {"answer": None},
        {"answer": 1},
        {},
        {"answer": True, "why": "so"},
        {"answer": True, "inquiry_id": "tool_call.modify_file.other"},
        True,
        None,
        [],
    ],
)
def test_an_invalid_answer_is_asked_again_twice_and_then_declined(
    join: Join, wrong: object
) -> None:
    host, other = join(), join("other")
    running = ask(host, call_id="c")
    for _ in range(3):
        host.result(host.asked(), wrong)
    other.reply(other.asked(), True)
    assert host.finish(running)["result"] == "true"
    assert host.is_asked_nothing()


def test_an_invalid_answer_may_be_corrected(join: Join) -> None:
    host = join()
    running = ask(host)
    first = host.asked()
    assert "refused" not in first["params"]
    host.reply(first, "yes")
    again = host.asked()
    assert "true or false" in again["params"]["refused"]
    assert {**again["params"], "refused": 0} == {**first["params"], "refused": 0}
    host.reply(again, True)
    assert host.finish(running)["result"] == "true"


@pytest.mark.parametrize("code", [-32601, -32800])
def test_a_client_that_declines_is_passed_over(join: Join, code: int) -> None:
    host, other = join(), join("other")
    running = ask(host)
    host.refuse(host.asked(), code)
    other.reply(other.asked(), False)
    assert host.finish(running)["result"] == "false"


def test_a_failed_inquiry_stops_the_tool_with_the_reason(join: Join) -> None:
    host, other = join(), join("other")
    running = ask(host)
    host.refuse(host.asked(), -32000, "the model is not to be reached")
    state = host.finish(running)
    assert state["state"] == "stopped" and "result" not in state
    message = state["error"]["message"]
    assert message == "The inquiry failed: host answered: the model is not to be reached."
    assert other.is_asked_nothing()


def test_a_killed_client_is_passed_over(join: Join) -> None:
    host, other = join(able=False), join("first")
    running = ask(host)
    asked = other.asked()
    third = join("third")
    other.close()
    again = third.asked()
    assert again["params"] == asked["params"]
    third.reply(again, True)
    assert host.finish(running)["result"] == "true"


def test_the_callers_own_connection_is_asked_first(join: Join) -> None:
    other, host = join("other"), join()
    running = ask(host)
    host.reply(host.asked(), True)
    host.finish(running)
    assert other.is_asked_nothing()


def test_another_session_is_never_asked(asker: RunningDaemon, join: Join) -> None:
    host = join(able=False)
    with Client(asker, session="elsewhere") as stranger:
        running = call(host, "modify_file", call_id="c")
        until(lambda: host.call("inquiries/list")["inquiries"], "it is asked")
        assert stranger.is_asked_nothing()
        with pytest.raises(Refused, match="-32011"):
            stranger.call("inquiries/answer", inquiry_id="tool_call.modify_file.c", answer=True)
        host.call("inquiries/answer", inquiry_id="tool_call.modify_file.c", answer=True)
        host.finish(running)


def test_unsolicited_replies_are_counted_and_harm_nothing(asker: RunningDaemon, join: Join) -> None:
    host = join()
    before = host.call("daemon/status")["refused"].get("reply", 0)
    running = ask(host)
    asked = host.asked()
    for id in ("haft.2", "haft.0", 1, None, "x", asked["id"].upper(), [asked["id"]]):
        host.reply({"id": id}, False)
    deep = '{"jsonrpc":"2.0","id":"haft.77","result":' + "[" * 500 + "]" * 500 + "}"
    host.send_raw(deep.encode() + b"\n")
    host.send([{"jsonrpc": "2.0", "id": asked["id"], "result": {"answer": True}}])
    host.reply(asked, False)
    assert host.finish(running)["result"] == "true"
    host.reply(asked, False)
    assert host.call("daemon/status")["refused"]["reply"] == before + 10


def test_an_invalid_reply_counts_as_declined(join: Join) -> None:
    host, other = join(), join("other")
    for wrong in (
        {"result": {"answer": True}, "error": {"code": 1, "message": "m"}},
        {"error": "no"},
        {"error": {"code": "x"}},
    ):
        running = ask(host)
        host.send({"jsonrpc": "2.0", "id": host.asked()["id"], **wrong})
        other.reply(other.asked(), True)
        assert host.finish(running)["result"] == "true"


def test_a_silent_client_keeps_at_most_64_requests_and_others_are_asked(join: Join) -> None:
    host, other = join(), join("other")
    for number in range(64):
        call(host, "ask_user", call_id=f"c{number}", arguments={"question": "?"})
        host.asked()
    running = ask(host, call_id="more")
    asked = other.asked()
    assert asked["params"]["call_id"] == "more"
    other.reply(asked, True)
    assert host.finish(running)["result"] == "true"


# ── pulled ───────────────────────────────────────────────────────────────────────────────────────


def test_a_question_outlives_its_caller_and_another_client_answers(join: Join) -> None:
    gone = join()
    gone.call("spawn", tool="held", id="h", wait="input")
    pushed = gone.asked()["params"]
    gone.close()
    thin = join("thin", able=False)
    (listed,) = thin.call("inquiries/list")["inquiries"]
    assert listed == pushed and listed["call_id"] == "h.1"
    answer = {"inquiry_id": listed["inquiry_id"], "question": "sure"}
    for wrong in ("yes", None, 1):
        with pytest.raises(Refused, match="-32011"):
            thin.call("inquiries/answer", answer=wrong, **answer)
    assert thin.call("inquiries/answer", answer=True, **answer) == {}
    state = thin.call("fetch", id="h", wait="input")
    assert state["question"]["id"] == "name"
    with pytest.raises(Refused, match="is not asking the question 'sure'"):
        thin.call("inquiries/answer", answer=True, **answer)
    thin.call("apply", id="h", input="Ada", wait="stopped")
    assert thin.call("inquiries/list")["inquiries"] == []
    with pytest.raises(Refused, match="No inquiry with the id"):
        thin.call("inquiries/answer", inquiry_id=listed["inquiry_id"], answer=True)


@pytest.mark.parametrize("way", ["apply", "inquiries/answer"])
def test_the_first_answer_counts_and_asked_clients_are_notified(join: Join, way: str) -> None:
    host, other = join(), join("other", able=False)
    host.call("spawn", tool="held", id="h", wait="input")
    asked = host.asked()
    if way == "apply":
        other.call("apply", id="h", input=True, wait="input")
    else:
        inquiry = asked["params"]["inquiry_id"]
        other.call("inquiries/answer", inquiry_id=inquiry, answer=True)
    cancelled = host.told("$/cancelRequest")
    assert cancelled["params"] == {"id": asked["id"]} and "id" not in cancelled
    host.reply(asked, False)
    name = host.asked()
    assert name["params"]["question"]["id"] == "name"
    host.reply(name, "Ada")
    state = host.call("fetch", id="h", wait="stopped")
    assert json.loads(state["result"]) == {"sure": True, "name": "Ada"}


def test_a_client_that_connects_during_a_question_is_asked(join: Join) -> None:
    host = join(able=False)
    host.call("spawn", tool="held", id="h", wait="input")
    late = join("late")
    late.reply(late.asked(), True)
    assert late.asked()["params"]["question"]["id"] == "name"


def test_the_end_of_the_tool_withdraws_its_question(join: Join) -> None:
    host = join()
    host.call("spawn", tool="held", id="h", wait="input")
    asked = host.asked()
    host.call("abort", id="h")
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    assert host.call("inquiries/list")["inquiries"] == []


def test_a_cancelled_call_withdraws_its_question(join: Join) -> None:
    host = join()
    running = ask(host)
    asked = host.asked()
    host.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": running}})
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    with pytest.raises(Refused, match="-32800"):
        host.finish(running)


def test_questions_of_all_sessions_can_be_listed(join: Join) -> None:
    host = join(able=False)
    host.call("spawn", tool="held", id="h", wait="input")
    everything = host.call("inquiries/list", session="*")["inquiries"]
    assert host.call("inquiries/list")["inquiries"][0] in everything


# ── definitions ──────────────────────────────────────────────────────────────────────────────────


def test_a_configured_answer_needs_no_client(join: Join) -> None:
    host = join()
    state = host.call("spawn", tool="fixed", id="h", wait="input")
    assert state["question"]["id"] == "name"
    asked = host.asked()["params"]
    assert asked["question"]["id"] == "name" and asked["target"] == "user"


def test_an_invalid_configured_answer_stops_the_tool(join: Join) -> None:
    host = join()
    state = host.finish(call(host, "misfixed"))
    assert "the tool's definition is not valid: question 'sure' takes" in state["error"]["message"]


def test_a_question_for_a_user_is_answered_by_no_model(join: Join) -> None:
    host = join(able=False)
    for name in ("fixed", "secret"):
        host.call("spawn", tool=name, id=name, wait="input")
        params = {"action": "apply", "id": name, "input": "canary"}
        with pytest.raises(Refused, match="is for a person"):
            host.call("tools/call", tool=name, arguments=params)
        with pytest.raises(Refused, match="-32004"):  # No answer, and not refused as an answer.
            host.call(
                "tools/call",
                tool=name,
                arguments={**params, "input": {"resize": {"rows": 5, "cols": 5}}},
            )
        state = host.call("apply", id=name, input="mine", wait="stopped")
        assert "mine" in state["result"]


def test_a_model_may_answer_a_question_not_for_a_user(join: Join) -> None:
    host = join(able=False)
    host.call("tools/call", tool="held", arguments={"action": "spawn", "id": "h"})
    params = {"action": "apply", "id": "h", "input": True, "wait": "output"}
    state = host.call("fetch", id="h", wait="input")
    assert state["state"] == "waiting"
    host.call("tools/call", tool="held", arguments=params)
    assert host.call("fetch", id="h", wait="input")["question"]["id"] == "name"


@pytest.mark.parametrize(
    ("name", "why"), [("leaky", "only a person"), ("stored", "must not contain")]
)
def test_a_secret_is_answered_by_neither_model_nor_definition(
    join: Join, name: str, why: str
) -> None:
    host = join()
    state = host.finish(call(host, name))
    assert why in state["error"]["message"] and host.is_asked_nothing()


def test_a_secret_is_asked_of_a_user_and_stored_nowhere(asker: RunningDaemon, join: Join) -> None:
    host = join()
    host.call("spawn", tool="secret", id="a", wait="input")
    asked = host.asked()
    assert asked["params"]["target"] == "user"
    host.reply(asked, "canary-1")
    assert "canary-1" in host.call("fetch", id="a", wait="stopped")["result"]
    host.call("spawn", tool="secret", id="b", wait="input")
    pulled = host.asked()["params"]["inquiry_id"]
    host.call("inquiries/answer", inquiry_id=pulled, answer="canary-2")
    host.call("fetch", id="b", wait="stopped")
    for path in [asker.log, *(asker.state / "haft").rglob("*")]:
        assert not path.is_file() or b"canary" not in path.read_bytes(), path


def test_the_answering_client_is_recorded(asker: RunningDaemon, join: Join) -> None:
    host = join()
    host.call("spawn", tool="fixed", id="h", wait="input")
    host.reply(host.asked(), "Ada")
    session = host.call("fetch", id="h", wait="stopped")["session"]
    lines = (asker.state / "haft" / "audit.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    found = [
        record for record in records if record["event"] == "answer" and record["session"] == session
    ]
    for one in found:
        del one["at"]
    here = {"event": "answer", "session": session, "handle": "h", "generation": 1}
    client = next(record["client"] for record in records if record.get("session") == session)
    assert found == [
        {**here, "by": "definition", "question": "sure", "input": True},
        {**here, "by": "client", "client": client, "question": "name", "input": "Ada"},
    ]
