from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon
from tests.wire import Refused, Wire

ONE_SHOT = r"""
import json, os
call = json.loads(os.environ["HAFT_CALL"])
answers, name = call["tool"]["answers"], call["tool"]["arguments"]["name"]
def ask(id, text, kind):
    print(json.dumps({"type": "needs_input", "question": {"id": id, "text": text, "answer_type": kind}}))
    raise SystemExit
if "sure" not in answers: ask("sure", "Really change " + name + "?", "Boolean")
if not answers["sure"]:
    print(json.dumps({"type": "error", "message": "not sure", "trace": ["a", "b"], "transient": True}))
    raise SystemExit
if "how" not in answers: ask("how", "How?", {"Select": {"options": ["gently", "quickly"]}})
print(json.dumps({"type": "success", "content": name + " changed " + answers["how"]}))
"""

LIVE = r"""
import json, sys
def say(**state): print(json.dumps(state), flush=True)
first = json.loads(sys.stdin.readline())
assert first["method"] == "init", first
print("just a line", flush=True)
say(type="running", content="working\n")
say(type="waiting", content="", question={"id": "q", "text": "Name?", "answer_type": {"type": "text"}})
given = json.loads(sys.stdin.readline())
assert given["method"] == "apply", given
say(type="stopped", result={"Ok": "hello " + given["params"]["input"]})
"""

TOOLS = f"""
[tools.ask]
source = "local"
stateful = true
command = ["{sys.executable}", "-S", "-c", '''{ONE_SHOT}''']
output = "outcome"
[tools.ask.parameters]
name = {{ type = "string", required = true }}

[tools.live]
source = "local"
stateful = true
command = ["{sys.executable}", "-S", "-c", '''{LIVE}''']
output = "events"
parameters = {{}}
"""


@pytest.fixture
def wire(make_daemon: Callable[..., RunningDaemon]) -> Wire:
    daemon = make_daemon()
    daemon.tools(TOOLS)
    daemon.start()
    wire = daemon.connect()
    problems = wire.call("daemon/status")["problems"]
    assert problems == []
    return wire


def test_a_one_shot_that_asks_is_run_again_with_its_answers(wire: Wire) -> None:
    with wire:
        state = wire.call("spawn", tool="ask", id="a", args={"name": "x"}, wait="input")
        assert state["state"] == "waiting" and state["waited"] == "input"
        assert state["question"] == {
            "id": "sure",
            "text": "Really change x?",
            "answer_type": {"type": "boolean"},
        }
        for wrong in ("yes", 1, None):
            with pytest.raises(Refused) as caught:
                wire.call("apply", id="a", input=wrong)
            assert caught.value.code == -32011 and "true or false" in caught.value.message
        assert wire.call("fetch", id="a")["state"] == "waiting"
        state = wire.call("apply", id="a", input=True, wait="input")
        assert state["question"]["answer_type"] == {
            "type": "select",
            "options": ["gently", "quickly"],
        }
        with pytest.raises(Refused, match="-32011"):
            wire.call("apply", id="a", input="slowly")
        state = wire.call("apply", id="a", input="gently", wait="stopped")
        assert state["result"] == "x changed gently" and state["ended_by"] == {"by": "exit"}


def test_a_tools_failure_is_its_error(wire: Wire) -> None:
    with wire:
        wire.call("spawn", tool="ask", id="a", args={"name": "x"}, wait="input")
        state = wire.call("apply", id="a", input=False, wait="stopped")
        assert state["error"] == {"message": "not sure", "trace": ["a", "b"], "transient": True}
        assert "result" not in state


def test_a_waiting_handle_can_be_aborted_and_is_not_stopped(wire: Wire) -> None:
    with wire:
        wire.call("spawn", tool="ask", id="a", args={"name": "x"}, wait="input")
        waited = wire.call("await", all=["a"])
        assert waited["completed"] == [] and waited["waiting"][0]["state"] == "waiting"
        assert wire.call("abort", id="a")["ended_by"]["by"] == "abort"


def test_a_live_tool_reports_its_states(wire: Wire) -> None:
    with wire:
        state = wire.call("spawn", tool="live", id="l", wait="input")
        assert state["state"] == "waiting", str(state)
        assert "working\n" in state["content"] and "just a line\n" in state["content"]
        assert state["question"]["text"] == "Name?"
        state = wire.call("apply", id="l", input="Ada", wait="stopped")
        assert state["result"] == "hello Ada"


@pytest.mark.parametrize("output", ["outcome", "events"])
def test_a_malformed_outcome_is_a_failure_that_names_the_field(
    make_daemon: Callable[..., RunningDaemon], output: str
) -> None:
    message = '{"type": "error", "reason": "disk full"}'
    daemon = make_daemon()
    daemon.tools(f"""[tools.odd]
command = ["echo", '{message}']
output = "{output}"
parameters = {{}}
[tools.plain]
command = ["echo", '{message}']
output = "raw"
""")
    with daemon.start().connect() as wire:
        state = wire.call("tools/call", tool="odd", arguments={})
        assert "malformed `error` outcome: `message` is missing" in state["error"]["message"]
        assert "result" not in state
        assert state["content"] == message + "\n"
        assert state["content"] == message + "\n"
        assert wire.call("tools/call", tool="plain", arguments={})["result"] == message + "\n"


STEPS = r"""
import json, sys
def say(**state): print(json.dumps(state), flush=True)
sys.stdin.readline()
for turn in range(31):
    say(type="waiting", content=f"turn {turn}\n", question={"id": "q", "text": "Go on?", "answer_type": {"type": "text"}})
    sys.stdin.readline()
"""


def test_content_and_question_of_a_line_are_read_together(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """A reply with the content of a `waiting` line has its question, too."""
    daemon = make_daemon()
    daemon.tools(
        f"[tools.steps]\nsource = 'local'\nstateful = true\noutput = 'events'\nparameters = {{}}\n"
        f"""command = ["{sys.executable}", "-S", "-c", '''{STEPS}''']\n"""
    )
    daemon.start()
    with daemon.connect() as wire:
        seen = [wire.call("spawn", tool="steps", id="a", args={}, wait="output")]
        seen += [wire.call("apply", id="a", input="y", wait="output") for _ in range(30)]
    states = [(state["content"], state["state"]) for state in seen]
    assert states == [(f"turn {turn}\n", "waiting") for turn in range(31)]


ASKS_AT_ITS_END = r"""
import json, os, subprocess
answers = json.loads(os.environ["HAFT_CALL"])["tool"]["answers"]
if "q" in answers:
    print(json.dumps({"type": "success", "content": "done"}))
else:
    subprocess.Popen(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], stdout=2, stdin=2)
    print(json.dumps({"type": "needs_input", "content": "look\n", "question": {"id": "q", "text": "Go on?", "answer_type": "Text"}}))
"""


def test_content_and_question_of_an_outcome_are_read_together(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """Also where processes that the asking run left behind have to be ended in between."""
    daemon = make_daemon("[daemon]\nabort_grace_ms = 200\n")
    daemon.tools(
        "[tools.one]\nsource = 'local'\nstateful = true\noutput = 'outcome'\nparameters = {}\n"
        f"""command = ["{sys.executable}", "-S", "-c", '''{ASKS_AT_ITS_END}''']\n"""
    )
    daemon.start()
    with daemon.connect() as wire:
        state = wire.call("spawn", tool="one", id="a", args={}, wait="output")
        assert (state["content"], state["state"]) == ("look\n", "waiting")
        state = wire.call("apply", id="a", input="y", wait="stopped")
        assert state["result"] == "done"


ASKING = r"""
import json, sys
def say(**state): print(json.dumps(state), flush=True)
json.loads(sys.stdin.readline())
kind = json.loads(sys.argv[1])
say(type="waiting", content="", question={"id": "q", "text": "?", "answer_type": kind})
answer = json.loads(sys.stdin.readline())["params"]["input"]
say(type="stopped", result={"Ok": json.dumps(answer)})
"""
ASK = f"""
[tools.asking]
stateful = true
output = "events"
command = ["{sys.executable}", "-S", "-c", '''{ASKING}''', "{{{{ tool.arguments.kind }}}}"]
parameters.kind = {{ required = true }}
"""
NUMBERS = {"type": "select", "options": [1, 2.5, "2"]}
NULLABLE = {"type": "select", "options": [None, True]}
FORM = {"type": "form", "fields": {"web": {"options": ["wait", 3]}}}


@pytest.fixture
def answers(shared_daemon: RunningDaemon) -> Iterator[Callable[[object, object], dict[str, Any]]]:
    """Have a tool ask a question of a type, and answer by a call as a model makes it."""
    shared_daemon.tools(ASK)
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
        numbers = itertools.count()

        def answer(kind: object, value: object) -> dict[str, Any]:
            id = f"q{next(numbers)}"
            spawn = {"action": "spawn", "id": id, "kind": kind}
            wire.call("tools/call", tool="asking", arguments=spawn)
            assert wire.call("fetch", id=id, wait="input")["state"] == "waiting"
            apply = {"action": "apply", "id": id, "input": value, "wait": "stopped"}
            try:
                state: dict[str, Any] = wire.call("tools/call", tool="asking", arguments=apply)
            except Refused:
                assert wire.call("fetch", id=id)["state"] == "waiting"
                raise
            finally:
                wire.call("session/close")
            return state

        yield answer


@pytest.mark.parametrize(
    ("kind", "value", "answer"),
    [
        (NUMBERS, 1, 1),
        (NUMBERS, "1", 1),
        (NUMBERS, "2.5", 2.5),
        (NUMBERS, "2", "2"),
        (NULLABLE, None, None),
        (NULLABLE, "null", None),
        (NULLABLE, "true", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "text"}, "false", "false"),
        ({"type": "text"}, '{"line": "x"}', '{"line": "x"}'),
        (FORM, '{"web": "3"}', {"web": 3}),
        (FORM, {"web": "wait"}, {"web": "wait"}),
    ],
)
def test_a_model_can_answer_every_type_of_question(
    answers: Callable[[object, object], dict[str, Any]], kind: object, value: object, answer: object
) -> None:
    """Also in a call that fits a strict schema, where `input` is a text, a boolean or a number."""
    assert json.loads(answers(kind, value)["result"]) == answer


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (NUMBERS, None, "input: it is required"),
        (NUMBERS, "3", "takes one of"),
        ({"type": "boolean"}, "yes", "true or false"),
        ({"type": "boolean"}, None, "input: it is required"),
    ],
)
def test_an_invalid_answer_is_refused_and_the_question_stays(
    answers: Callable[[object, object], dict[str, Any]], kind: object, value: object, says: str
) -> None:
    with pytest.raises(Refused, match=says):
        answers(kind, value)


DIES = r"""
import json, sys
json.loads(sys.stdin.readline())
print(json.dumps({"type": "running", "content": "half done\n"}), flush=True)
raise SystemExit("the disk is full")
"""


def test_a_dead_live_tool_is_explained_by_its_stderr(shared_daemon: RunningDaemon) -> None:
    shared_daemon.tools(
        "[tools.dies]\nstateful = true\noutput = 'events'\nparameters = {}\n"
        f"""command = ["{sys.executable}", "-S", "-c", '''{DIES}''']\n"""
    )
    with shared_daemon.connect() as wire:
        wire.call("tools/reload")
        state = wire.call("spawn", tool="dies", id="dies", wait="stopped")
        assert state["error"] == {
            "message": "The process exited with code 1 before it printed a final state (`stopped`). Its "
            "standard error ends with: the disk is full",
            "trace": ["the disk is full"],
            "transient": False,
        }
        assert state["exit"] == {"code": 1}
        assert state["ended_by"] == {"by": "exit"}
        assert set(state["content"].splitlines()) == {"half done", "the disk is full"}
        called = wire.call("tools/call", tool="dies", arguments={"action": "fetch", "id": "dies"})
        assert called["error"] == state["error"]
        wire.call("session/close")
