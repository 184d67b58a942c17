"""Result review: until the decision no interface shows any part of the result."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.approval_client import Host, Join, records
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

CANARY = "canary-51c9"
CHANGED = "changed-51c9"
PRINT = "echo can''ary-51c9"
"""The command line is no secret: it does not have the word that it prints."""

_RAW = """
source = "local"
stateful = true
command = ["sh", "-c", "{{ tool.arguments.script }}"]
parameters.script = { type = "string", required = true }
"""
_OUTCOME = _RAW.replace("stateful = true", 'output = "outcome"')


def definition(name: str, body: str, more: str) -> str:
    return f"[tools.{name}]{body}{more}\n"


CLIENT = Host
TOOLS = "".join(
    [
        definition("seen", _RAW, 'result = "ask"'),
        definition("edited", _RAW, 'result = "edit"'),
        definition("muted", _RAW, 'result = "skip"'),
        definition("free", _RAW, 'result = "unattended"'),
        definition("both", _RAW, 'run = "ask"\nresult = "ask"'),
        definition("brief", _RAW, 'result = "ask"\nlimits = { wall_s = 0.3 }'),
        definition("says", _OUTCOME, 'result = "ask"'),
        definition("quiet", _OUTCOME, 'result = "skip"'),
        definition(
            "noted",
            _RAW,
            'result = "ask"\nnotify = { on_content = true, patterns = { it = "can.*" } }',
        ),
        definition("either", _RAW, 'result = "ask"\nruntime = "{{ tool.arguments.runtime }}"')
        + 'parameters.runtime = { enum = ["pty", "stdio"], default = "stdio" }\n',
    ]
)


def begin(host: Host, tool: str = "seen", script: str = PRINT, **more: Any) -> int:
    """Begin a call that runs to its end."""
    return host.start("tools/call", tool=tool, arguments={"script": script}, **more)


def outcome(**said: Any) -> str:
    """Return a script that prints an outcome, and the canary beside it."""
    said = {key: f"{value}%s" if value == "can" else value for key, value in said.items()}
    return f"{PRINT}-beside >&2; printf '{json.dumps(said)}' ary-51c9"


def everything(host: Host, id: str) -> str:
    """All that a client can read of a handle, without asking for leave."""
    reports: list[Any] = [host.call("handles/list"), host.call("output/search", pattern=".")]
    views = ("delta", "all", "tail")
    reports += [host.call("fetch", id=id, view=view, wait="none") for view in views]
    raw = host.call("fetch", id=id, view="raw", wait="none")
    reports += [raw, base64.b64decode(raw.get("content", "")).decode("utf-8", "replace")]
    reports.append(host.call("fetch", id=id, cursor=0, wait="none"))
    reports.append(host.call("await", all=[id], timeout_secs=0))
    reports.append(host.call("notifications/drain"))
    return json.dumps(reports)


def decided_by(how: str, host: Host, decision: str, **more: Any) -> Any:
    """Decide the pending review, by push or by pull; return the shown text."""
    if how == "push":
        asked = host.asked()
        host.say(asked, decision, **more)
        return asked["params"]
    found = host.one_waiting()
    host.decide(found, decision, **more)
    return found


by = pytest.mark.parametrize("how", ["push", "pull"])


def deciding(join: Join, how: str) -> Host:
    return join(able=how == "push")


# ── every decision ───────────────────────────────────────────────────────────────────────────────


@by
def test_an_allowed_result_is_returned(asker: RunningDaemon, join: Join, how: str) -> None:
    host = deciding(join, how)
    called = begin(host, call_id="c1")
    shown = decided_by(how, host, "allow", reason="fine")
    id, approval_id = shown.pop("id"), shown.pop("approval_id")
    assert shown == {
        "session": host.session,
        "tool": "seen",
        "action": "result",
        "arguments": {"text": f"{CANARY}\n"},
        "rendered": f"{CANARY}\n",
        "mode": "ask",
        "root": str(asker.home),
        "failed": False,
        "bytes": len(CANARY) + 1,
        "omitted": 0,
    }
    state = host.finish(called)
    assert state["result"] == f"{CANARY}\n" and state["review"] == "allowed"
    assert state["exit"] == {"code": 0} and state["id"] == id and state["call_id"] == "c1"
    assert CANARY in everything(host, id) and host.waiting() == []
    spawned, allowed = records(asker, host.session)
    assert spawned["event"] == "spawn" and approval_id
    assert (allowed["action"], allowed["decision"], allowed["reason"]) == (
        "result",
        "allow",
        "fine",
    )
    assert CANARY not in json.dumps([{**spawned, "command": ""}, allowed])


@by
def test_a_denied_result_is_returned_to_no_client(join: Join, how: str) -> None:
    host = deciding(join, how)
    called = begin(host)
    shown = decided_by(how, host, "deny", reason="has a name in it.")
    error = host.refused(called)
    assert error.code == -32007 and error.data["kind"] == "not_approved"
    assert error.data["action"] == "result" and error.data["tool"] == "seen"
    assert error.message == (
        "Tool 'seen' has run, and its result was withheld: host denied it: has a name in it."
    )
    assert CANARY not in everything(host, shown["id"])
    state = host.call("fetch", id=shown["id"])
    assert state["error"]["message"] == error.message and state["review"] == "denied"
    assert "result" not in state and "exit" not in state
    assert host.call("notifications/drain") == {"notifications": []}  # its call was answered


@by
def test_a_skipped_result_is_replaced_by_a_sentence(join: Join, how: str) -> None:
    host = deciding(join, how)
    called = begin(host, script=f"{PRINT}; exit 3")
    shown = decided_by(how, host, "skip", reason="seen by me")
    state = host.finish(called)
    assert state["result"] == "`seen` has run, and its result was not released: seen by me."
    assert state["review"] == "skipped" and "error" not in state and "exit" not in state
    assert CANARY not in everything(host, shown["id"])


@by
def test_a_result_can_be_edited(asker: RunningDaemon, join: Join, how: str) -> None:
    host = deciding(join, how)
    called = begin(host, "edited")
    shown = decided_by(how, host, "edit", arguments={"text": f"{CHANGED}\n"})
    assert shown["mode"] == "edit"
    state = host.finish(called)
    assert state["result"] == f"{CHANGED}\n" and state["review"] == "edited"
    text = everything(host, shown["id"])
    assert CANARY not in text and CHANGED in text
    assert host.call("fetch", id=shown["id"], view="all")["result"] == f"{CHANGED}\n"
    assert records(asker, host.session)[-1]["decision"] == "edit"
    assert CHANGED not in json.dumps(records(asker, host.session))


def test_an_invalid_replacement_is_asked_again(join: Join) -> None:
    host = join()
    called = begin(host)
    host.say(host.asked(), "edit", arguments={"texts": "x"})
    again = host.asked()
    assert "text: it is missing" in again["params"]["refused"]
    host.say(again, "edit", arguments={"text": 3})
    last = host.asked()
    assert last["params"]["arguments"] == {"text": f"{CANARY}\n"}
    host.say(last, "edit", arguments={"text": ""})
    assert host.finish(called)["result"] == ""


def test_an_invalid_pulled_replacement_is_refused_and_the_review_stays(join: Join) -> None:
    host = join(able=False)
    called = begin(host)
    found = host.one_waiting()
    with pytest.raises(Refused) as wrong:
        host.decide(found, "edit", arguments={"text": "x", "more": 1})
    assert wrong.value.code == -32005
    host.decide(found, "edit", arguments={"text": "x"})
    assert host.finish(called)["result"] == "x"


def test_a_definition_may_withhold_results(join: Join) -> None:
    host = join()
    for tool, script in (("muted", PRINT), ("quiet", outcome(type="success", content="can"))):
        state = host.finish(begin(host, tool, script))
        message = f"`{tool}` has run, and its result was not released: its definition says so."
        assert state["result"] == message and state["review"] == "skipped"
        assert CANARY not in everything(host, state["id"])
    assert host.is_asked_nothing()


def test_an_unattended_run_mentions_no_review(join: Join) -> None:
    host = join()
    state = host.finish(begin(host, "free"))
    assert state["result"] == f"{CANARY}\n" and "review" not in state
    assert host.is_asked_nothing()


def test_an_approval_can_hold_for_the_session(join: Join) -> None:
    host = join()
    for decision, review in (("allow", "allowed"), ("skip", "skipped")):
        called = begin(host, "seen" if decision == "allow" else "both")
        if decision == "skip":
            host.say(host.asked(), "allow", remember="session")
        host.say(host.asked(), decision, remember="session")
        assert host.finish(called)["review"] == review
    assert host.finish(begin(host, "seen"))["review"] == "allowed"
    # The word about the result is none about the run, and the other way round.
    assert host.finish(begin(host, "both"))["review"] == "skipped"
    assert host.is_asked_nothing()


def test_a_denial_can_hold_for_the_session(join: Join) -> None:
    host = join()
    first = begin(host)
    host.say(host.asked(), "deny", remember="session")
    assert host.refused(first).code == -32007
    again = host.refused(begin(host))
    assert again.code == -32007 and "an earlier decision" in again.message
    assert host.is_asked_nothing()


# ── reviewed results ─────────────────────────────────────────────────────────────────────────────


def test_an_outcome_is_returned_without_output_beside_it(join: Join) -> None:
    host = join()
    called = begin(host, "says", outcome(type="success", content="the result"))
    asked = host.asked()
    assert asked["params"]["arguments"] == {"text": "the result"}
    host.say(asked, "allow")
    state = host.finish(called)
    assert state["result"] == "the result" and state["review"] == "allowed"
    assert CANARY not in everything(host, state["id"])


@pytest.mark.parametrize("decision", ["allow", "edit", "deny"])
def test_a_failure_is_reviewed(join: Join, decision: str) -> None:
    host = join()
    failure = outcome(type="error", message="can", trace=["at x", "at y"], transient=True)
    called = begin(host, "says", failure)
    asked = host.asked()
    assert asked["params"]["failed"] is True
    assert asked["params"]["arguments"] == {"text": f"{CANARY}\nat x\nat y"}
    more = {"arguments": {"text": "it failed"}} if decision == "edit" else {}
    host.say(asked, decision, **more)
    if decision == "deny":
        assert CANARY not in host.refused(called).message
    else:
        error = host.finish(called)["error"]
        kept = {"message": CANARY, "trace": ["at x", "at y"], "transient": True}
        assert error == (
            kept
            if decision == "allow"
            else {"message": "it failed", "trace": [], "transient": True}
        )
    assert (CANARY in everything(host, asked["params"]["id"])) == (decision == "allow")


def test_the_output_of_a_failed_run_is_reviewed(join: Join) -> None:
    host = join()
    called = begin(host, script=f"{PRINT}; exit 3")
    asked = host.asked()["params"]
    assert asked["failed"] is True and asked["arguments"] == {"text": f"{CANARY}\n"}
    assert asked["rendered"] == f"The process exited with code 3.\n{CANARY}\n"
    host.decide(asked, "edit", arguments={"text": CHANGED})
    state = host.finish(called)
    assert state["content"] == CHANGED and state["exit"] == {"code": 3}
    assert state["error"]["message"] == "The process exited with code 3."


def test_a_run_ended_by_a_limit_is_reviewed(join: Join) -> None:
    host = join()
    called = begin(host, "brief", f"{PRINT}; exec sleep 60")
    asked = host.asked()["params"]
    assert CANARY in asked["arguments"]["text"] and "wall_s" in asked["rendered"]
    host.decide(asked, "skip")
    state = host.finish(called)
    assert "`wall_s`" in state["error"]["message"] and state["content"] == ""
    assert CANARY not in everything(host, asked["id"])


def test_a_tool_that_asks_is_answered_before_its_result_is_reviewed(join: Join) -> None:
    host = join(able=False)
    question = {"id": "q", "text": "go on?", "answer_type": {"type": "boolean"}}
    asks = json.dumps({"type": "needs_input", "question": question})
    script = f"""case "$HAFT_CALL" in *'"answers":{{}}'*) echo '{asks}';; *) {PRINT};; esac"""
    called = begin(host, "says", script)
    until(lambda: host.call("inquiries/list")["inquiries"] != [], "a question")
    assert host.waiting() == []
    (inquiry,) = host.call("inquiries/list")["inquiries"]
    host.call("inquiries/answer", inquiry_id=inquiry["inquiry_id"], answer=True)
    host.decide(host.one_waiting(), "allow")
    assert host.finish(called)["result"] == f"{CANARY}\n"


def test_both_the_run_and_its_result_may_need_approval(join: Join) -> None:
    host = join()
    called = begin(host, "both")
    first = host.asked()
    assert first["params"]["action"] == "call"
    host.say(first, "edit", arguments={"script": f"echo {CHANGED}"})
    second = host.asked()
    assert second["params"]["arguments"] == {"text": f"{CHANGED}\n"}
    host.say(second, "allow")
    assert host.finish(called)["result"] == f"{CHANGED}\n"
    called = begin(host, "both")
    host.say(host.asked(), "skip")
    state = host.finish(called)
    assert "was skipped" in state["result"] and host.is_asked_nothing()


def test_a_run_on_a_terminal_has_no_result_to_review(asker: RunningDaemon, join: Join) -> None:
    host = join()
    args = {"script": "true", "runtime": "pty"}
    with pytest.raises(Refused, match="visible immediately") as refused:
        host.call("spawn", tool="either", id="e", args=args)
    assert refused.value.code == -32014 and host.states() == {}
    called = host.start("tools/call", tool="either", arguments={"script": "echo x"})
    host.say(host.asked(), "allow")
    assert host.finish(called)["result"] == "x\n"


# ── no other door ────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_shown_while_running_or_under_review(join: Join) -> None:
    host, other = join(able=False), join("other", able=False)
    subscribed = ["state", "output", "screen", "notification"]
    other.call("subscribe", events=subscribed)
    script = f"{PRINT}; read -r line; {PRINT}-$line"
    spawned = host.call("spawn", tool="seen", id="h", args={"script": script}, wait="none")
    assert spawned["state"] == "running" and spawned["review"] == "held"
    host.call("apply", id="h", input={"text": ""}, wait="none")
    assert CANARY not in everything(other, "h")
    reply = host.call("apply", id="h", input={"line": "typed"}, wait="none")
    assert CANARY not in json.dumps(reply)
    found = host.one_waiting()
    assert found["arguments"] == {"text": f"{CANARY}\n{CANARY}-typed\n"}
    assert host.call("fetch", id="h")["review"] == "waits"
    assert host.states() == {"h": "running"}
    text = everything(other, "h")
    assert CANARY not in text
    with pytest.raises(Refused, match="has ended"):
        host.call("apply", id="h", input={"line": "more"})
    waiting = host.start("await", all=["h"])
    pushed = list(other._kept)
    assert CANARY not in json.dumps(pushed)
    host.decide(found, "allow")
    (state,) = host.finish(waiting)["completed"]
    assert state["result"] == f"{CANARY}\n{CANARY}-typed\n" and state["review"] == "allowed"
    message = ""
    while CANARY not in message:
        message = other.told("handle/output")["params"]["data"]
    while (pushed_state := other.told("handle/state")["params"])["state"] != "stopped":
        assert CANARY not in json.dumps(pushed_state)
    assert pushed_state["review"] == "allowed"


@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_no_notice_shows_output_before_the_decision(join: Join, decision: str) -> None:
    host, other = join(able=False), join("other", able=False)
    other.call("subscribe", events=["notification"])
    host.call("spawn", tool="noted", id="h", args={"script": PRINT}, wait="none")
    found = host.one_waiting()
    assert host.call("notifications/drain") == {"notifications": []}
    host.decide(found, decision)
    end = "tool.stopped" if decision == "allow" else "tool.failed"
    told = [other.told("session/notification")["params"]]
    while told[-1]["kind"] != end:
        told.append(other.told("session/notification")["params"])
    if decision == "deny":
        assert [message["kind"] for message in told] == [end] and CANARY not in json.dumps(told)
    else:
        until(lambda: CANARY in json.dumps(host.call("notifications/drain")), "the match")


def test_a_denied_result_of_a_spawn_is_its_error(join: Join) -> None:
    host, other = join(), join("other", able=False)
    other.call("subscribe", events=["state", "output", "notification"])
    spawned = host.start("spawn", tool="seen", id="h", args={"script": PRINT}, wait="stopped")
    host.say(host.asked(), "deny")
    state = host.finish(spawned)
    assert state["state"] == "stopped" and state["review"] == "denied"
    assert state["error"]["message"].startswith("Tool 'seen' has run, and its result was withheld")
    while other.told("handle/state")["params"]["state"] != "stopped":
        pass
    assert CANARY not in json.dumps(other._kept) and CANARY not in everything(other, "h")


def test_an_aborted_run_shows_nothing_and_asks_no_review(join: Join) -> None:
    host, other = join(), join("other", able=False)
    script = f"{PRINT}; echo ready >&2; exec sleep 60"
    host.call("spawn", tool="seen", id="h", args={"script": script}, wait="none")
    state = other.call("abort", id="h")
    assert state["ended_by"] == {"by": "abort", "client": "other"} and state["review"] == "dropped"
    assert CANARY not in everything(host, "h") and host.is_asked_nothing()


# ── given up ─────────────────────────────────────────────────────────────────────────────────────


def test_a_cancelled_call_discards_its_result(asker: RunningDaemon, join: Join) -> None:
    host = join()
    number = begin(host)
    asked = host.asked()
    host.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
    assert host.refused(number).code == -32800
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    id = asked["params"]["id"]
    until(lambda: host.states() == {id: "stopped"}, "the end")
    assert host.waiting() == [] and CANARY not in everything(host, id)
    state = host.call("fetch", id=id)
    assert state["review"] == "dropped" and "cancelled before" in state["error"]["message"]
    assert state["ended_by"] == {"by": "abort", "client": "host"}


def test_a_disconnected_caller_discards_its_result(join: Join) -> None:
    host, other = join(), join("other", able=False)
    begin(host)
    id = host.asked()["params"]["id"]
    host.close()
    until(lambda: other.states() == {id: "stopped"}, "the end")
    assert other.waiting() == [] and CANARY not in everything(other, id)


def test_a_spawned_run_awaits_its_review_without_its_client(join: Join) -> None:
    host, other = join(), join("other", able=False)
    host.call("spawn", tool="seen", id="h", args={"script": PRINT}, wait="none")
    host.asked()
    host.close()
    other.decide(other.one_waiting(), "allow")
    assert other.call("fetch", id="h", wait="stopped")["result"] == f"{CANARY}\n"


def test_a_review_can_be_aborted(join: Join) -> None:
    host, other = join(), join("other", able=False)
    called = begin(host)
    id = host.asked()["params"]["id"]
    state = other.call("abort", id=id)
    assert state["ended_by"] == {"by": "abort", "client": "other"} and state["review"] == "dropped"
    assert host.finish(called)["error"]["message"].startswith("It was cancelled")
    assert CANARY not in everything(other, id)


def test_a_turns_end_aborts_a_review(join: Join) -> None:
    host, other = join(), join("other", able=False)
    other.call("turn/begin")
    called = begin(host)
    host.asked()
    (state,) = other.call("turn/end")["handles"]
    assert state["ended_by"]["by"] == "turn_end" and state["review"] == "dropped"
    assert host.finish(called)["review"] == "dropped"


def test_a_closed_session_has_no_result_waiting(join: Join) -> None:
    host, other = join(), join("other", able=False)
    called = begin(host)
    host.asked()
    closed = other.call("session/close")
    assert CANARY not in json.dumps(closed)
    error = host.refused(called)
    assert error.code == -32007 and "its session was closed" in error.message
    assert other.waiting() == []


def test_a_stopping_daemon_returns_nothing_under_review(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """The error does not suggest a retry: the tool has run."""
    daemon = make_daemon()
    daemon.tools(TOOLS)
    daemon.start()
    with Host(daemon, "host", "s", able=True) as host:
        called = begin(host)
        host.asked()
        host.call("daemon/shutdown")
        state = host.finish(called)
    assert state["ended_by"]["by"] == "shutdown" and state["review"] == "dropped"
    assert "cancelled before" in state["error"]["message"] and CANARY not in json.dumps(state)
    assert daemon.process is not None and daemon.process.wait(20) == 0


def test_an_expired_review_withholds_the_result(make_daemon: Callable[..., RunningDaemon]) -> None:
    daemon = make_daemon("[daemon]\napproval_timeout_s = 0.2\n")
    daemon.tools(TOOLS)
    daemon.start()
    with Host(daemon, "host", "s", able=True) as host:
        called = begin(host)
        asked = host.asked()
        error = host.refused(called)
        assert error.code == -32007 and "nobody decided within 0.2 s" in error.message
        assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
        assert CANARY not in everything(host, asked["params"]["id"])


def test_a_retry_waits_for_the_same_review_and_runs_nothing(join: Join, tmp_path: Path) -> None:
    host, other = join(), join("other", able=False)
    script = f"echo run >> {tmp_path}/runs; {PRINT}"
    first = begin(host, script=script, call_id="again")
    asked = host.asked()
    second = begin(other, script=script, call_id="again")
    assert len(other.states()) == 1
    host.say(asked, "deny")
    assert host.refused(first).code == other.refused(second).code == -32007
    assert other.refused(begin(other, script=script, call_id="again")).code == -32007
    assert (tmp_path / "runs").read_text() == "run\n"


# ── hostile results ──────────────────────────────────────────────────────────────────────────────


def test_a_long_result_is_shown_by_its_beginning_and_its_end(join: Join) -> None:
    host = join()
    script = f"echo begin; head -c 10000000 /dev/zero | tr '\\0' '\\1'; echo; {PRINT}"
    called = begin(host, script=script)
    asked = host.asked()["params"]
    text, size = asked["arguments"]["text"], asked["bytes"]
    assert size == 10_000_000 + len(f"begin\n\n{CANARY}\n")
    assert text.startswith("begin\n") and text.endswith(f"{CANARY}\n") and len(text) < 17_000
    assert asked["omitted"] > size - 17_000 and "bytes left out" in asked["rendered"]
    assert len(asked["rendered"]) < 33_000 and "\x01" not in asked["rendered"]
    host.decide(asked, "allow")
    state = host.finish(called)
    assert state["truncated"]["bytes"] == size and state["result"].startswith("begin\n")


def test_invisible_characters_in_a_result_are_escaped(join: Join) -> None:
    host = join()
    script = r"printf 'a\342\200\256b\177\033]0;title\007c\033[2J\tx\377'"
    called = begin(host, script=script)
    asked = host.asked()["params"]
    assert asked["arguments"]["text"] == "a\u202eb\x7fc\tx\ufffd"
    assert asked["rendered"] == "a\\u202eb\\x7fc\\tx\ufffd"
    host.decide(asked, "allow")
    assert host.finish(called)["result"] == asked["arguments"]["text"]
