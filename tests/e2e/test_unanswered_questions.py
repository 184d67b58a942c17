"""An unanswered question delays no call without a bound."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Wire

ASKS = r"""
import json, os
answers = json.loads(os.environ["HAFT_CALL"])["tool"]["answers"]
if "name" not in answers:
    print(json.dumps({"type": "needs_input", "question": {"id": "name", "text": "Name?", "answer_type": "Text"}}))
else:
    print(json.dumps({"type": "success", "content": "hello " + answers["name"]}))
"""

TOOLS = f"""
[tools.asks]
output = "outcome"
stateful = true
command = ["{sys.executable}", "-S", "-c", '''{ASKS}''']
parameters = {{}}
[tools.once]
command = ["{sys.executable}", "-S", "-c", '''{ASKS}''']
parameters = {{}}
[tools.sleeps]
stateful = true
command = ["sleep", "300"]
parameters = {{}}
"""
BOUNDED = """
[tools.once.questions]
name = { timeout_s = 0.2 }
"""

Make = Callable[..., RunningDaemon]


def started(make_daemon: Make, config: str = "", tools: str = TOOLS) -> RunningDaemon:
    daemon = make_daemon(config)
    daemon.tools(tools)
    return daemon.start()


def batch(wire: Wire, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Send a batch and return its results, in order."""
    wire.send(
        [
            {"jsonrpc": "2.0", "id": at, "method": method, "params": params}
            for at, (method, params) in enumerate(calls)
        ]
    )
    return [reply["result"] for reply in wire.receive()]


def test_an_unanswered_question_fails_its_tool(make_daemon: Make) -> None:
    daemon = started(make_daemon, "[daemon]\nquestion_timeout_s = 0.2\n")
    with daemon.connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
        state = wire.call("tools/call", tool="once", arguments={})
        assert state["error"]["message"] == (
            "The inquiry failed: nobody answered question 'name' within 0.2 s"
            " (`question_timeout_s` of `[daemon]`)."
        )


def test_a_definition_bounds_its_own_questions(make_daemon: Make) -> None:
    daemon = started(make_daemon, tools=TOOLS + BOUNDED)
    with daemon.connect() as wire:
        assert wire.call("daemon/status")["problems"] == []
        state = wire.call("tools/call", tool="once", arguments={})
        assert state["error"]["message"].endswith(
            "within 0.2 s (`questions.name.timeout_s` of the tool)."
        )


def test_a_client_that_does_not_answer_is_bounded(make_daemon: Make) -> None:
    daemon = started(make_daemon, "[daemon]\nquestion_timeout_s = 0.2\n")
    with daemon.connect() as wire:
        wire.call(
            "initialize",
            client={"name": "t", "version": "1"},
            protocol=1,
            capabilities={"inquiry": True},
        )
        call = wire.start("tools/call", tool="once", arguments={})
        assert wire.told("inquiry/ask")["params"]["question"]["id"] == "name"
        assert "within 0.2 s" in wire.finish(call)["error"]["message"]


@pytest.mark.parametrize("value", ["-1", "'soon'", "true"])
def test_an_invalid_bound_of_a_question_is_a_problem(make_daemon: Make, value: str) -> None:
    daemon = started(
        make_daemon, tools=TOOLS + f"[tools.once.questions]\nname = {{ timeout_s = {value} }}\n"
    )
    with daemon.connect() as wire:
        [problem] = wire.call("daemon/status")["problems"]
        assert problem["key"] == "tools.once.questions.name.timeout_s"


def test_one_shots_of_a_batch_return_waiting_without_an_inquiry_client(make_daemon: Make) -> None:
    """The handle lives on, also when the connection of its call has gone."""
    daemon = started(make_daemon)
    with daemon.connect() as wire:
        one, two = batch(
            wire,
            ("tools/call", {"tool": "once", "arguments": {}, "call_id": "c1"}),
            ("tools/call", {"tool": "run", "arguments": {"argv": ["echo", "done"]}}),
        )
        assert two["result"] == "done\n"
        assert one["state"] == "waiting" and one["question"]["id"] == "name"
        assert one["inquiry_id"] == "tool_call.once.c1" and one["call_id"] == "c1"
        assert one["notifications"] == []
    with daemon.connect() as wire:
        waiting = wire.start("fetch", id=one["id"], wait="stopped")
        wire.call("inquiries/answer", inquiry_id=one["inquiry_id"], answer="Ada")
        assert wire.finish(waiting)["result"] == "hello Ada"


def test_a_single_one_shot_waits_for_another_connection(make_daemon: Make) -> None:
    daemon = started(make_daemon)
    with daemon.connect() as wire, daemon.connect() as other:
        call = wire.start("tools/call", tool="once", arguments={}, call_id="c1")
        while not other.call("inquiries/list")["inquiries"]:
            pass
        other.call("inquiries/answer", inquiry_id="tool_call.once.c1", answer="Ada")
        assert wire.finish(call)["result"] == "hello Ada"


def test_a_one_shot_of_a_batch_waits_for_an_asked_client(make_daemon: Make) -> None:
    daemon = started(make_daemon)
    with daemon.connect() as wire:
        wire.call(
            "initialize",
            client={"name": "t", "version": "1"},
            protocol=1,
            capabilities={"inquiry": True},
        )
        call = {"tool": "once", "arguments": {}, "call_id": "c1"}
        wire.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}])
        asked = wire.receive()
        assert asked["method"] == "inquiry/ask"
        wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"answer": "Ada"}})
        [reply] = wire.receive()
        assert reply["result"]["result"] == "hello Ada"


def test_await_answers_when_all_remaining_handles_wait_for_an_answer(make_daemon: Make) -> None:
    daemon = started(make_daemon)
    with daemon.connect() as wire:
        for name in "ab":
            wire.call("spawn", tool="asks", id=name, args={}, wait="input")
        wire.call("spawn", tool="sleeps", id="s", args={}, wait="none")
        wire.call("spawn", tool="run", id="r", args={"argv": ["true"]}, wait="stopped")
        reply = wire.call("await", all=["a", "r"], any=["b"])
        assert [row["id"] for row in reply["completed"]] == ["r"]
        assert reply["pending"] == [] and "timed_out" not in reply
        assert [row["id"] for row in reply["waiting"]] == ["a", "b"]
        assert reply["waiting"][0]["question"]["id"] == "name"
        # A running handle may still stop, and is awaited.
        waiting = wire.start("await", all=["a", "s"])
        reply = wire.call("await", all=["s", "a"], timeout_secs=0)
        assert [row["id"] for row in reply["pending"]] == ["s"] and reply["timed_out"]
        assert [row["id"] for row in reply["waiting"]] == ["a"]
        wire.call("abort", id="s")
        reply = wire.finish(waiting)
        assert [row["id"] for row in reply["completed"]] == ["s"]
        assert [row["id"] for row in reply["waiting"]] == ["a"]
        # Nor does an unneeded handle delay the reply.
        wire.call("spawn", tool="sleeps", id="s2", args={}, wait="none")
        reply = wire.call("await", all=["a"], any=["r", "s2"])
        assert [row["id"] for row in reply["pending"]] == ["s2"]
        assert [row["id"] for row in reply["waiting"]] == ["a"]
        waiting = wire.start("await", all=["a"])
        assert [row["id"] for row in wire.finish(waiting)["waiting"]] == ["a"]


def test_await_goes_on_while_a_client_is_asked(make_daemon: Make) -> None:
    daemon = started(make_daemon)
    with daemon.connect() as wire:
        wire.call(
            "initialize",
            client={"name": "t", "version": "1"},
            protocol=1,
            capabilities={"inquiry": True},
        )
        wire.call("spawn", tool="asks", id="a", args={}, wait="none")
        asked = wire.told("inquiry/ask")
        waiting = wire.start("await", all=["a"])
        assert wire.call("await", all=["a"], timeout_secs=0)["timed_out"]
        wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"answer": "Ada"}})
        assert wire.finish(waiting)["completed"][0]["result"] == "hello Ada"


def test_await_answers_when_the_asked_client_has_gone(make_daemon: Make) -> None:
    daemon = started(make_daemon)
    with daemon.connect() as wire:
        with daemon.connect() as other:
            other.call(
                "initialize",
                client={"name": "t", "version": "1"},
                protocol=1,
                capabilities={"inquiry": True},
            )
            other.call("spawn", tool="asks", id="a", args={}, wait="none")
            other.told("inquiry/ask")
            waiting = wire.start("await", all=["a"])
        assert [row["id"] for row in wire.finish(waiting)["waiting"]] == ["a"]


def test_a_model_is_informed_of_waiting(make_daemon: Make) -> None:
    daemon = started(make_daemon)
    with daemon.connect() as wire:
        tools = wire.call("tools/list")["tools"]
        [described] = [tool["description"] for tool in tools if tool["name"] == "await"]
        assert "`waiting`" in described and "`apply`" in described
        wire.call("spawn", tool="asks", id="a", args={}, wait="input")
        reply = wire.call("tools/call", tool="await", arguments={"all": ["a"]})
        assert [row["id"] for row in reply["waiting"]] == ["a"]
        assert json.dumps(reply["notifications"]) == "[]"


SECRET = r"""
import json, os
answers = json.loads(os.environ["HAFT_CALL"])["tool"]["answers"]
if "pin" not in answers:
    print(json.dumps({"type": "needs_input", "question": {"id": "pin", "text": "Your canary?", "answer_type": {"type": "secret"}}}))
else:
    print(json.dumps({"type": "success", "content": "thanks"}))
"""


def test_status_and_log_name_open_questions(make_daemon: Make) -> None:
    secret = f"""[tools.pin]
stateful = true
output = "outcome"
command = ["{sys.executable}", "-S", "-c", '''{SECRET}''']
parameters = {{}}
"""
    daemon = started(make_daemon, tools=TOOLS + secret)
    with daemon.connect() as wire:
        assert "questions" not in wire.call("daemon/status")
        before = time.time()
        wire.call("spawn", tool="pin", id="p", args={}, wait="input", call_id="c1")
        while (question := wire.call("daemon/status")["questions"][0])["asked"]:
            pass  # still looking for a client that can be asked
        assert before - 0.01 <= question.pop("since") <= time.time()
        assert question == {
            "inquiry_id": "tool_call.pin.c1",
            "session": "default",
            "question": "pin",
            "asked": False,
            "tool": "pin",
            "handle": "p",
        }
        state = wire.call("apply", id="p", input="canary-1234", wait="stopped")
        assert state["result"] == "thanks"
        assert "questions" not in wire.call("daemon/status")
    daemon.stop()
    lines = [json.loads(line) for line in daemon.log_text().splitlines() if line.startswith("{")]
    asked, settled = (
        [line for line in lines if line["event"] == event]
        for event in ("question asked", "question settled")
    )
    for [line] in (asked, settled):
        assert (line["inquiry"], line["tool"], line["handle"]) == ("tool_call.pin.c1", "pin", "p")
    assert settled[0]["how"] == "answered" and settled[0]["duration_s"] >= 0
    assert "canary" not in daemon.log_text()
