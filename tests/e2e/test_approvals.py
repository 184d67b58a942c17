from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.approval_client import Host, Join, records
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

_RUN = """
source = "local"
stateful = true
command = ["sh", "-c", 'printf "%s\\n" "$0"; test "$0" = done && exit; read -r line; test "$line" != bad', "{{ tool.arguments.text }}"]
parameters.text = { type = "string", required = true }
parameters.times = { type = "integer", default = 1 }
"""


def definition(name: str, more: str) -> str:
    return f"[tools.{name}]{_RUN}{more}\n"


CLIENT = Host
TOOLS = "".join(
    [
        definition("careful", 'run = "ask"'),
        definition("edited", 'run = "edit"'),
        definition("skipped", 'run = "skip"'),
        definition("free", 'run = "unattended"'),
        definition("typed", 'run = { apply = "ask", default = "unattended" }'),
        definition("watched", 'run = { default = "ask", spawn = "unattended" }'),
        definition("mute", 'run = { fetch = "skip", apply = "skip", abort = "skip" }'),
        definition("unfed", 'run = { apply = "skip" }'),
        definition("reviewed", 'run = "unattended"\nresult = "ask"'),
        definition("called", 'run = { call = "ask" }'),
        definition("asfunction", 'run = "ask"\nstyle.parameters = "function_call"'),
        definition("hidden", 'run = "ask"\nstyle.parameters = "off"'),
    ]
)


# ── every decision ───────────────────────────────────────────────────────────────────────────────


def test_an_unconfigured_action_asks_no_approval(join: Join) -> None:
    host = join()
    host.finish(host.spawn("free"))
    host.call("apply", id="h", input={"eof": True}, wait="stopped")
    assert host.is_asked_nothing() and host.waiting() == []


def test_nothing_runs_before_approval(asker: RunningDaemon, join: Join) -> None:
    host = join()
    spawned = host.spawn("careful")
    asked = host.asked()["params"]
    approval_id = asked.pop("approval_id")
    assert asked == {
        "session": host.session,
        "tool": "careful",
        "action": "spawn",
        "id": "h",
        "arguments": {"text": "hello", "times": 1},
        "rendered": '{\n  "text": "hello",\n  "times": 1\n}',
        "mode": "ask",
        "root": str(asker.home),
    }
    assert host.states() == {"h": "pending"}
    assert host.call("fetch", id="h")["state"] == "pending"
    assert [row["approval_id"] for row in host.waiting()] == [approval_id]
    assert records(asker, host.session) == []
    host.decide({"approval_id": approval_id}, "allow", reason="fine")
    state = host.finish(spawned)
    assert state["state"] == "running" and state["content"] == "hello\n"
    allowed, spawn = records(asker, host.session)
    assert allowed.pop("at") and allowed["client"].pop("pid")
    assert allowed == {
        "event": "approval",
        "client": {"name": "host", "transport": "unix"},
        "session": host.session,
        "handle": "h",
        "generation": 1,
        "tool": "careful",
        "action": "spawn",
        "decision": "allow",
        "reason": "fine",
    }
    assert spawn["event"] == "spawn"


def test_a_denied_call_leaves_no_handle(asker: RunningDaemon, join: Join) -> None:
    host = join()
    spawned = host.spawn("careful")
    host.say(host.asked(), "deny", reason="not on a Friday.")
    error = host.refused(spawned)
    assert error.code == -32007 and error.data["kind"] == "not_approved"
    assert error.message == (
        "Tool 'careful' was not approved for 'spawn': host denied it: not on a Friday."
    )
    assert error.data["tool"] == "careful" and error.data["action"] == "spawn"
    assert host.states() == {} and host.waiting() == []
    assert host.call("notifications/drain") == {"notifications": []}
    with pytest.raises(Refused) as gone:
        host.call("fetch", id="h")
    assert gone.value.code == -32001
    assert [record["event"] for record in records(asker, host.session)] == ["approval"]


def test_a_denied_spawn_changes_nothing_of_the_handle_before(join: Join) -> None:
    host = join()
    host.finish(host.spawn("free", args={"text": "first"}))
    host.call("abort", id="h")
    spawned = host.spawn("careful")
    host.say(host.asked(), "deny")
    assert host.refused(spawned).code == -32007
    kept = host.call("fetch", id="h", view="all")
    assert kept["generation"] == 1 and kept["content"] == "first\n"


def test_a_skipped_call_succeeds_without_running(asker: RunningDaemon, join: Join) -> None:
    host = join()
    spawned = host.spawn("careful")
    host.say(host.asked(), "skip", reason="done by hand")
    state = host.finish(spawned)
    assert state["state"] == "stopped" and "exit" not in state and "error" not in state
    assert state["result"] == "`careful` was skipped and did not run: done by hand."
    assert state["ended_by"] == {"by": "exit", "client": "host"}
    assert host.call("fetch", id="h")["result"] == state["result"]
    assert [record["event"] for record in records(asker, host.session)] == ["approval"]


def test_a_definition_may_skip(join: Join) -> None:
    host = join()
    assert "was skipped" in host.finish(host.spawn("skipped"))["result"]
    called = host.call("tools/call", tool="skipped", arguments={"text": "done"})
    assert called["result"] == "`skipped` was skipped and did not run: its definition says so."
    assert host.is_asked_nothing()


def test_edited_arguments_run_once_valid(asker: RunningDaemon, join: Join) -> None:
    host = join()
    spawned = host.spawn("edited")
    asked = host.asked()
    assert asked["params"]["mode"] == "edit" and "refused" not in asked["params"]
    host.say(asked, "edit", arguments={"times": "many", "texts": "x"})
    again = host.asked()["params"]
    refused = again.pop("refused")
    assert refused.startswith("The arguments of 'edited' are invalid: ")
    for part in ("text: it is required", "texts: it is unknown", "times: it must be integer"):
        assert part in refused
    assert again == asked["params"] and host.states() == {"h": "pending"}
    wrong = {"text": 1, "times": []}
    with pytest.raises(Refused) as caught:
        host.decide(again, "edit", arguments=wrong)
    assert caught.value.code == -32005
    assert {problem["path"] for problem in caught.value.data["problems"]} >= {"times"}
    assert len(host.waiting()) == 1
    host.decide(again, "edit", arguments={"text": "canary-1 changed"})
    state = host.finish(spawned)
    assert state["state"] == "running" and state["content"] == "canary-1 changed\n"
    entries = records(asker, host.session)
    assert [record.get("decision") for record in entries] == ["edit", None]
    assert "canary-1" not in json.dumps(entries[0]) and "canary-1" not in asker.log_text()


@pytest.mark.parametrize(
    "wrong",
    [
        {"decision": "perhaps"},
        {"decision": "edit"},
        {"decision": "allow", "arguments": {}},
        {"decision": "edit", "arguments": {"text": "done"}, "remember": "session"},
        {"decision": "allow", "why": "so"},
        {},
        None,
        [],
        "allow",
    ],
)
def test_an_invalid_decision_is_reported_twice_and_then_counts_as_declined(
    join: Join, wrong: object
) -> None:
    host, other = join(), join("other")
    spawned = host.spawn("careful")
    for turn in range(3):
        asked = host.asked()
        assert ("refused" in asked["params"]) == bool(turn)
        host.result(asked, wrong)
    other.say(other.asked(), "allow")
    assert host.finish(spawned)["state"] == "running"
    assert host.is_asked_nothing()


@pytest.mark.parametrize(
    "wrong",
    [
        {"decision": "perhaps"},
        {"decision": "edit"},
        {"decision": "deny", "arguments": {}},
        {"decision": "edit", "arguments": {"text": "done"}, "remember": "turn"},
    ],
)
def test_an_invalid_pulled_decision_changes_nothing(join: Join, wrong: dict[str, Any]) -> None:
    host = join(able=False)
    spawned = host.spawn("careful")
    found = host.one_waiting()
    with pytest.raises(Refused) as caught:
        host.decide(found, **wrong)
    assert caught.value.code == -32602 and host.waiting() == [found]
    host.decide(found, "allow")
    assert host.finish(spawned)["state"] == "running"


# ── one-shot ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["careful", "called"])
def test_a_one_shot_call_waits_and_then_runs(join: Join, name: str) -> None:
    host = join()
    running = host.start("tools/call", tool=name, arguments={"text": "done"}, call_id="c")
    asked = host.asked()
    assert asked["params"]["action"] == "call"
    assert list(host.states().values()) == ["pending"]
    host.say(asked, "allow")
    reply = host.finish(running)
    assert reply["result"] == "done\n" and reply["call_id"] == "c"


def test_an_edited_one_shot_call_reads_its_end(join: Join) -> None:
    host = join()
    running = host.start("tools/call", tool="careful", arguments={"text": "x"})
    host.say(host.asked(), "edit", arguments={"text": "y"})
    reply = host.finish(running)
    assert reply["result"] == "y\n" and reply["exit"] == {"code": 0}


def test_a_client_that_may_not_call_may_not_spawn(join: Join) -> None:
    host = join()
    spawned = host.spawn("called")
    host.say(host.asked(), "deny")
    assert host.refused(spawned).code == -32007


def test_a_spawn_through_tools_call_awaits_approval(join: Join) -> None:
    host = join()
    arguments = {"action": "spawn", "id": "h", "text": "x"}
    running = host.start("tools/call", tool="careful", arguments=arguments)
    asked = host.asked()
    assert asked["params"]["action"] == "spawn" and asked["params"]["id"] == "h"
    host.say(asked, "edit", arguments={"text": "y"})
    assert host.finish(running)["content"] == "y\n"


# ── actions on a handle ──────────────────────────────────────────────────────────────────────────


def test_input_awaits_approval_and_is_then_written(join: Join) -> None:
    host = join()
    host.finish(host.spawn("typed"))
    reply = host.start("apply", id="h", input={"line": "good"}, timeout_ms=0)
    asked = host.asked()
    assert asked["params"]["action"] == "apply"
    assert asked["params"]["arguments"] == {"input": {"line": "good"}, "timeout_ms": 0}
    assert host.states() == {"h": "running"}
    host.say(asked, "edit", arguments={"input": {"nonsense": 1}})
    again = host.asked()
    assert "input" in again["params"]["refused"]
    host.say(again, "edit", arguments={"id": "other", "input": {"line": "bad"}})
    again = host.asked()
    assert "cannot be changed" in json.dumps(again["params"]["refused"])
    host.say(again, "edit", arguments={"input": {"line": "bad"}, "wait": "stopped"})
    assert host.finish(reply)["exit"] == {"code": 1}


def test_invalid_input_is_refused_before_approval(join: Join) -> None:
    host = join()
    host.finish(host.spawn("typed"))
    with pytest.raises(Refused) as caught:
        host.call("apply", id="h", input={"nonsense": 1})
    assert caught.value.code == -32602 and host.is_asked_nothing()


def test_a_secret_is_not_shown_and_so_not_edited(asker: RunningDaemon, join: Join) -> None:
    host = join()
    host.finish(host.spawn("typed"))
    secret = {"text": "canary-2", "secret": True}
    reply = host.start("apply", id="h", input=secret, timeout_ms=0)
    asked = host.asked()
    assert asked["params"]["arguments"]["input"] == {"withheld": True}
    assert "canary-2" not in json.dumps(asked)
    with pytest.raises(Refused) as caught:
        host.decide(asked["params"], "edit", arguments={"input": "x"})
    assert caught.value.code == -32005
    host.say(asked, "allow")
    host.finish(reply)
    assert "canary-2" not in (asker.state / "haft" / "audit.jsonl").read_text()


def test_reading_and_aborting_await_approval_where_the_policy_requires(join: Join) -> None:
    host = join()
    host.finish(host.spawn("watched"))
    read = host.start("fetch", id="h", view="all")
    host.say(host.asked(), "allow")
    assert host.finish(read)["content"] == "hello\n"
    ended = host.start("abort", id="h")
    asked = host.asked()
    assert asked["params"]["action"] == "abort" and asked["params"]["arguments"] == {}
    host.say(asked, "deny")
    assert host.refused(ended).code == -32007
    assert host.states() == {"h": "running"}


def test_an_abort_right_after_the_start_awaits_approval(join: Join) -> None:
    """The process does not exist yet, although its start needed no approval."""
    host = join()
    params = {"tool": "watched", "id": "h", "args": {"text": "hello"}}
    host.send(
        [
            {"jsonrpc": "2.0", "id": "s", "method": "spawn", "params": params},
            {"jsonrpc": "2.0", "id": "a", "method": "abort", "params": {"id": "h"}},
        ]
    )
    asked = host.asked()
    assert asked["params"]["action"] == "abort"
    host.say(asked, "deny")
    spawned, refused = host.receive()
    assert spawned["id"] == "s" and spawned["result"]["state"] == "running"
    assert refused["error"]["code"] == -32007


def test_a_skipped_action_is_reported_and_reads_nothing(join: Join) -> None:
    host = join()
    host.finish(host.spawn("mute", view="tail", max_bytes=0))
    for method, more in (("fetch", {}), ("apply", {"input": {"eof": True}}), ("abort", {})):
        state = host.call(method, id="h", **more)
        assert state["state"] == "running" and state["content"] == ""
        assert state["skipped"] == "It was skipped; nothing was done: its definition says so."


def test_a_skipped_action_reports_no_output_as_omitted(join: Join) -> None:
    """Neither output read before nor unread output is missing from a skipped action."""
    host = join()
    host.finish(host.spawn("unfed", args={"text": "ready"}, wait="pattern", pattern="ready\n"))
    state = host.call("apply", id="h", input="x")
    assert state["skipped"].startswith("It was skipped")
    assert (state["content"], state["cursor"]) == ("", 6)
    assert "omitted" not in state
    again = host.call("fetch", id="h", cursor=0)
    assert (again["content"], "omitted" in again) == ("ready\n", False)


def test_input_for_an_ended_handle_asks_no_more(join: Join) -> None:
    host, other = join(), join("other", able=False)
    host.finish(host.spawn("typed"))
    reply = host.start("apply", id="h", input="x")
    host.asked()
    other.call("abort", id="h")
    assert host.refused(reply).code == -32008
    assert host.waiting() == []
    assert host.told("$/cancelRequest")


# ── remembered ───────────────────────────────────────────────────────────────────────────────────


def test_a_session_decision_is_for_this_tool_and_action(join: Join) -> None:
    host = join()
    spawned = host.spawn("careful", "one")
    host.say(host.asked(), "allow", remember="session")
    host.finish(spawned)
    assert host.finish(host.spawn("careful", "two", args={"text": "else"}))["state"] == "running"
    assert host.is_asked_nothing()
    spawned = host.spawn("edited", "three")
    host.say(host.asked(), "deny")
    assert host.refused(spawned).code == -32007
    running = host.start("tools/call", tool="careful", arguments={"text": "done"})
    host.say(host.asked(), "deny")
    assert host.refused(running).code == -32007


def test_a_session_decision_is_for_this_folder(join: Join, tmp_path: Path) -> None:
    """A command such as `./deploy` is another program in another folder."""
    host = join()
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    spawned = host.spawn("careful", "one", root=str(first))
    asked = host.asked()
    assert asked["params"]["root"] == str(first)
    host.say(asked, "allow", remember="session")
    host.finish(spawned)
    assert host.finish(host.spawn("careful", "two", root=str(first)))["state"] == "running"
    spawned = host.spawn("careful", "three", root=str(second))
    host.say(host.asked(), "deny")
    assert host.refused(spawned).code == -32007


def test_an_approval_names_the_variables_that_the_call_changes(join: Join) -> None:
    host = join()
    spawned = host.spawn("careful", "one", env={"PATH": "/evil:/bin", "HAFT_NEW": "a secret"})
    asked = host.asked()
    assert asked["params"]["env"] == ["PATH", "HAFT_NEW"]
    assert "a secret" not in json.dumps(asked)
    host.say(asked, "deny")
    host.refused(spawned)
    spawned = host.spawn("careful", "one")
    asked = host.asked()
    assert "env" not in asked["params"]
    host.say(asked, "deny")
    host.refused(spawned)


def test_a_decision_is_about_the_definition_shown(asker: RunningDaemon, join: Join) -> None:
    host = join()
    spawned = host.spawn("careful", "one")
    host.say(host.asked(), "allow", remember="session")
    host.finish(spawned)
    changed = definition("careful", 'run = "ask"').replace("printf", "echo else; printf")
    asker.tools(changed, "zz.toml")
    try:
        host.call("tools/reload")
        spawned = host.spawn("careful", "two")
        host.say(host.asked(), "deny")
        assert host.refused(spawned).code == -32007
    finally:
        (asker.config / "haft" / "tools" / "zz.toml").unlink()
        host.call("tools/reload")


@pytest.mark.parametrize("how", ["another", "none"])
def test_edited_arguments_go_to_the_definition_shown(
    asker: RunningDaemon, join: Join, how: str
) -> None:
    host = join()
    name = f"passing_{how}"
    file = asker.config / "haft" / "tools" / "zz.toml"
    file.write_text(definition(name, 'run = "ask"'))
    try:
        host.call("tools/reload")
        spawned = host.spawn(name, "one", wait="stopped")
        called = host.start("tools/call", tool=name, arguments={"text": "done"})
        first, second = host.asked(), host.asked()
        changed = definition(name, 'run = "ask"').replace("printf", "echo else; printf")
        file.write_text(changed if how == "another" else "")
        host.call("tools/reload")
        for asked in (first, second):
            host.say(asked, "edit", arguments={"text": "done"})
        for running in (spawned, called):
            assert host.finish(running)["result"] == "done\n"
    finally:
        file.unlink()
        host.call("tools/reload")


def test_a_session_denial_is_kept_until_the_session_is_closed(join: Join) -> None:
    host = join()
    spawned = host.spawn("careful")
    host.say(host.asked(), "deny", remember="session", reason="never")
    host.refused(spawned)
    error = host.refused(host.spawn("careful"))
    assert error.message.endswith("an earlier decision in this session denied it: never.")
    assert host.is_asked_nothing()
    host.call("session/close")
    spawned = host.spawn("careful")
    host.say(host.asked(), "allow")
    assert host.finish(spawned)["state"] == "running"


def test_another_session_is_asked_separately(asker: RunningDaemon, join: Join) -> None:
    host = join()
    spawned = host.spawn("careful")
    host.say(host.asked(), "allow", remember="session")
    host.finish(spawned)
    with Host(asker, "stranger", f"{host.session}.other", able=True) as stranger:
        spawned = stranger.spawn("careful")
        stranger.say(stranger.asked(), "deny")
        assert stranger.refused(spawned).code == -32007


def test_a_turn_decision_ends_with_the_turn(join: Join) -> None:
    host = join()
    for id in ("first", "second"):
        host.call("turn/begin")
        spawned = host.spawn("careful", id)
        host.say(host.asked(), "allow", remember="turn")
        host.finish(spawned)
        assert host.finish(host.spawn("careful", f"{id}.again"))["state"] == "running"
        assert host.is_asked_nothing()
    host.call("turn/end", policy="keep")
    spawned = host.spawn("careful", "after")
    host.say(host.asked(), "deny")
    assert host.refused(spawned).code == -32007


def test_without_a_begun_turn_a_turn_decision_is_for_the_call(join: Join) -> None:
    host = join()
    for name in ("one", "two"):
        spawned = host.spawn("careful", name)
        host.say(host.asked(), "allow", remember="turn")
        assert host.finish(spawned)["state"] == "running"


# ── deciding clients ─────────────────────────────────────────────────────────────────────────────


def test_the_first_decision_counts_and_the_other_client_is_notified(join: Join) -> None:
    host, other = join(), join("other", able=False)
    spawned = host.spawn("careful")
    asked = host.asked()
    other.decide(other.one_waiting(), "allow")
    assert host.finish(spawned)["state"] == "running"
    assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
    host.say(asked, "deny")
    with pytest.raises(Refused) as late:
        host.decide(asked["params"], "deny")
    assert late.value.code == -32011
    assert host.call("fetch", id="h")["state"] == "running"


def test_a_client_without_approval_support_leaves_the_decision_to_others(join: Join) -> None:
    thin, able = join("thin", able=False), join("able")
    spawned = thin.spawn("careful")
    able.say(able.asked(), "allow")
    assert thin.finish(spawned)["state"] == "running"


def test_the_caller_is_asked_first(join: Join) -> None:
    other, host = join("other"), join()
    spawned = host.spawn("careful")
    asked = host.asked()
    assert other.is_asked_nothing()
    host.say(asked, "allow")
    host.finish(spawned)


@pytest.mark.parametrize("code", [-32601, -32800, -32000])
def test_a_client_that_declines_is_passed_over(join: Join, code: int) -> None:
    host, other = join(), join("other")
    spawned = host.spawn("careful")
    host.refuse(host.asked(), code)
    other.say(other.asked(), "allow")
    assert host.finish(spawned)["state"] == "running"


def test_a_disconnected_approver_is_replaced_by_a_new_one(join: Join) -> None:
    thin, able = join("thin", able=False), join("able")
    spawned = thin.spawn("careful")
    able.asked()
    able.close()
    later = join("later")
    later.say(later.asked(), "allow")
    assert thin.finish(spawned)["state"] == "running"


def test_another_session_neither_sees_nor_decides(asker: RunningDaemon, join: Join) -> None:
    host = join(able=False)
    spawned = host.spawn("careful")
    found = host.one_waiting()
    with Host(asker, "stranger", f"{host.session}.other", able=True) as stranger:
        assert stranger.waiting() == [] and stranger.is_asked_nothing()
        with pytest.raises(Refused) as caught:
            stranger.decide(found, "allow")
        assert caught.value.code == -32011
        assert found in stranger.call("approvals/list", session="*")["approvals"]
    host.decide(found, "allow")
    host.finish(spawned)


# ── batches ──────────────────────────────────────────────────────────────────────────────────────


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def test_an_await_in_the_same_batch_finds_the_pending_call(join: Join) -> None:
    host, other = join(), join("other", able=False)
    text = {"text": "x"}
    host.send(
        [
            request(101, "await", all=["one", "two", "three"]),
            request(102, "spawn", tool="free", id="one", args=text),
            request(103, "spawn", tool="careful", id="two", args=text),
            request(104, "spawn", tool="free", id="three", args=text),
        ]
    )
    asked = host.asked()
    until(
        lambda: host.states() == {"one": "running", "two": "pending", "three": "running"},
        "what waits",
    )
    host.say(asked, "skip")
    for name in ("one", "three"):
        other.call("abort", id=name)
    replies = next(message for message in iter(host.receive, None) if isinstance(message, list))
    assert [reply["id"] for reply in replies] == [101, 102, 103, 104]
    assert {reply["id"] for reply in replies[0]["result"]["completed"]} == {"one", "two", "three"}
    assert "was skipped" in replies[2]["result"]["result"]


def test_a_denial_in_the_middle_of_a_batch_affects_no_other_call(join: Join) -> None:
    host = join()
    text = {"text": "x"}
    host.send(
        [
            request(101, "spawn", tool="free", id="one", args=text),
            request(102, "spawn", tool="careful", id="two", args=text),
            request(103, "await", all=["two"]),
        ]
    )
    host.say(host.asked(), "deny")
    replies = next(message for message in iter(host.receive, None) if isinstance(message, list))
    assert replies[0]["result"]["state"] == "running"
    assert replies[1]["error"]["code"] == -32007
    (state,) = replies[2]["result"]["completed"]
    assert "was not approved" in state["error"]["message"]


# ── withdrawn ────────────────────────────────────────────────────────────────────────────────────


def test_a_cancelled_call_withdraws_its_approval(join: Join) -> None:
    host = join()
    for method, params in (
        ("spawn", {"tool": "careful", "id": "h", "args": {"text": "x"}}),
        ("tools/call", {"tool": "careful", "arguments": {"text": "done"}}),
    ):
        number = host.start(method, **params)
        asked = host.asked()
        host.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}})
        assert host.refused(number).code == -32800
        assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
        until(lambda: host.waiting() == [] and host.states() == {}, "what waits")
    assert host.call("notifications/drain") == {"notifications": []}


def send_together(host: Host, *messages: dict[str, Any]) -> None:
    """Send messages that the daemon reads in one pass of its loop."""
    host.send_raw(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


def start_awaited(host: Host, way: str) -> tuple[int, Any]:
    """Start what awaits approval; return the request's number and the approval."""
    text = {"text": "x"}
    if way == "action":
        host.finish(host.spawn("typed"))
        number = host.start("apply", id="h", input={"line": "a"}, wait="none")
    elif way == "result":
        number = host.spawn("reviewed", args={"text": "done"}, wait="stopped")
    elif way == "start":
        number = host.spawn("careful", args=text)
    else:
        number = host.start("tools/call", tool="careful", arguments=text)
    return number, host.one_waiting()


@pytest.mark.parametrize(
    ("way", "ending"),
    [
        ("start", "cancel"),
        ("start", "abort"),
        ("run to its end", "cancel"),
        ("run to its end", "abort"),
        ("action", "cancel"),
        ("result", "abort"),
    ],
)
def test_no_decision_is_accepted_behind_the_end_in_one_pass(
    join: Join, way: str, ending: str
) -> None:
    host = join(able=False)
    number, approval = start_awaited(host, way)
    ended: dict[str, Any] = {
        "jsonrpc": "2.0",
        "method": "$/cancelRequest",
        "params": {"id": number},
    }
    if ending == "abort":
        ended = request(800, "abort", id=approval["id"], grace_ms=0)
    decided = {"approval_id": approval["approval_id"], "decision": "allow"}
    send_together(host, ended, request(801, "approvals/decide", **decided))
    error = host.refused(801)
    assert "No action with the id" in error.message
    if ending == "cancel":
        assert host.refused(number).code == -32800
    else:
        assert host.finish(800)["state"] == host.finish(number)["state"] == "stopped"


@pytest.mark.parametrize("way", ["start", "action"])
def test_an_accepted_decision_counts_although_its_call_is_cancelled_in_the_same_pass(
    join: Join, way: str
) -> None:
    host = join(able=False)
    number, approval = start_awaited(host, way)
    decided = {"approval_id": approval["approval_id"], "decision": "allow"}
    send_together(
        host,
        request(801, "approvals/decide", **decided),
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}},
    )
    assert host.finish(801) == {}
    if way == "start":
        assert host.call("fetch", id="h", wait="output")["content"] == "x\n"
    else:
        assert host.call("fetch", id="h", wait="stopped")["state"] == "stopped"


def test_a_disconnected_caller_withdraws_its_approval(join: Join) -> None:
    host, other = join(), join("other")
    host.spawn("careful")
    host.asked()
    host.close()
    until(lambda: other.waiting() == [] and other.states() == {}, "what waits")
    with pytest.raises(Refused) as gone:
        other.call("fetch", id="h")
    why = "was not started: its client withdrew it while it waited for approval."
    assert gone.value.message == f"Handle 'h' of session {other.session!r} {why}"
    assert other.finish(other.spawn("free", "h"))["state"] == "running"


def test_a_start_outlives_a_call_that_does_not_wait_for_its_approval(join: Join) -> None:
    host, other = join(able=False), join("other", able=False)
    state = host.finish(host.spawn("careful", approval_timeout_ms=0))
    assert (state["state"], state["needs"]) == ("pending", "decision")
    host.close()
    assert other.states() == {"h": "pending"}
    other.decide(other.one_waiting(), "allow")
    assert other.call("fetch", id="h", wait="output")["state"] == "running"


def test_a_denied_start_that_no_call_waits_for_leaves_a_notice_and_its_reason(join: Join) -> None:
    host = join(able=False)
    host.finish(host.spawn("careful", approval_timeout_ms=0))
    host.decide(host.one_waiting(), "deny", reason="not on a Friday.")
    until(lambda: host.states() == {}, "the denial")
    [notice] = host.call("notifications/drain")["notifications"]
    why = "Tool 'careful' was not approved for 'spawn': host denied it: not on a Friday."
    assert (notice["kind"], notice["level"], notice["id"]) == ("tool.failed", "error", "h")
    assert notice["message"] == f"`h` (careful) was not started: {why}"
    for method, params in (("fetch", {"id": "h"}), ("await", {"any": ["h"]})):
        with pytest.raises(Refused) as gone:
            host.call(method, **params)
        assert gone.value.code == -32001 and "expired" not in gone.value.data
        assert (
            gone.value.message == f"Handle 'h' of session {host.session!r} was not started: {why}"
        )
    assert host.finish(host.spawn("free"))["generation"] == 1
    assert host.call("notifications/drain") == {"notifications": []}


def test_a_denial_that_a_call_has_returned_leaves_no_notice(join: Join) -> None:
    host = join(able=False)
    host.finish(host.spawn("careful", approval_timeout_ms=0, call_id="c"))
    awaited = host.start("await", all=["h"])
    repeated = host.spawn("careful", call_id="c")
    host.decide(host.one_waiting(), "deny", reason="no")
    [ended] = host.finish(awaited)["completed"]
    assert ended["error"]["message"].endswith("host denied it: no.")
    assert host.refused(repeated).code == -32007
    assert host.call("notifications/drain") == {"notifications": []}


def test_a_denial_that_only_a_repeated_call_has_returned_leaves_no_notice(join: Join) -> None:
    host = join(able=False)
    host.finish(host.spawn("careful", approval_timeout_ms=0, call_id="c"))
    repeated = host.spawn("careful", call_id="c")
    host.decide(host.one_waiting(), "deny", reason="no")
    assert host.refused(repeated).code == -32007
    assert host.call("notifications/drain") == {"notifications": []}


def test_a_start_without_an_approval_is_waited_for(join: Join) -> None:
    host = join(able=False)
    state = host.finish(host.spawn("free", approval_timeout_ms=0, wait="none"))
    assert state["state"] == "running"


@pytest.mark.parametrize("method", ["spawn", "tools/call"])
def test_a_handle_awaiting_approval_can_be_aborted_and_its_id_is_free(
    join: Join, method: str
) -> None:
    host, other = join(), join("other", able=False)
    if method == "spawn":
        started = host.spawn("careful")
    else:
        started = host.start("tools/call", tool="careful", arguments={"text": "done"})
    id = host.asked()["params"]["id"]
    state = other.call("abort", id=id)
    assert state["state"] == "stopped"
    assert state["ended_by"] == {"by": "abort", "client": "other"}
    assert state["error"]["message"] == "It was aborted by other."
    told = host.finish(started)
    assert (told["state"], told["ended_by"]) == ("stopped", state["ended_by"])
    assert other.call("fetch", id=id)["ended_by"] == state["ended_by"]
    assert host.waiting() == [] and host.told("$/cancelRequest")
    assert other.finish(other.spawn("free", id))["generation"] == 2


def test_a_closed_session_has_no_pending_approval(join: Join) -> None:
    host, other = join(), join("other", able=False)
    host.finish(host.spawn("watched", "w"))
    spawned, read = host.spawn("careful"), host.start("fetch", id="w")
    host.asked(), host.asked()
    other.call("session/close")
    assert host.refused(spawned).code == host.refused(read).code == -32007
    assert other.waiting() == [] and other.states() == {}


def test_a_stopping_daemon_answers_pending_calls(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon()
    daemon.tools(TOOLS)
    daemon.start()
    with Host(daemon, "host", "s", able=False) as host:
        host.finish(host.spawn("watched", "w"))
        spawned, read = host.spawn("careful"), host.start("fetch", id="w")
        until(lambda: len(host.waiting()) == 2, "two that wait")
        host.call("daemon/shutdown")
        assert host.refused(spawned).code == host.refused(read).code == -32013
    assert daemon.process is not None and daemon.process.wait(20) == 0


def test_an_expired_approval_is_a_denial(make_daemon: Callable[..., RunningDaemon]) -> None:
    daemon = make_daemon("[daemon]\napproval_timeout_s = 0.2\n")
    daemon.tools(TOOLS)
    daemon.start()
    with Host(daemon, "host", "s", able=True) as host:
        host.finish(host.spawn("watched", "w"))
        for method, params in (
            ("spawn", {"tool": "careful", "id": "h", "args": {"text": "x"}}),
            ("fetch", {"id": "w"}),
        ):
            number = host.start(method, **params)
            asked = host.asked()
            error = host.refused(number)
            assert error.code == -32007
            assert error.message.endswith("nobody decided within 0.2 s (`approval_timeout_s`).")
            assert host.told("$/cancelRequest")["params"] == {"id": asked["id"]}
        assert host.states() == {"w": "running"} and host.waiting() == []
        assert host.call("notifications/drain") == {"notifications": []}
        host.finish(host.spawn("careful", approval_timeout_ms=0))
        host.asked(), host.told("$/cancelRequest")
        until(lambda: host.states() == {"w": "running"}, "the withdrawal")
        [notice] = host.call("notifications/drain")["notifications"]
        assert notice["message"].endswith("nobody decided within 0.2 s (`approval_timeout_s`).")


def test_a_repeated_call_waits_with_the_first(join: Join) -> None:
    host, other = join(), join("other", able=False)
    first = host.spawn("careful", call_id="c")
    asked = host.asked()
    second = other.spawn("careful", call_id="c")
    host.say(asked, "edit", arguments={"text": "y"})
    assert host.finish(first)["generation"] == other.finish(second)["generation"] == 1
    assert other.finish(other.spawn("careful", call_id="c"))["generation"] == 1
    assert host.is_asked_nothing()


def test_a_pending_approval_survives_while_a_retry_waits(join: Join) -> None:
    first, retry = join("first"), join("retry")
    first.spawn("careful", call_id="c")
    first.asked()
    again = retry.spawn("careful", call_id="c")
    assert retry.states() == {"h": "pending"}
    first.close()
    retry.say(retry.asked(), "allow")
    assert retry.finish(again)["state"] == "running"


def test_a_pending_approval_is_cancelled_with_its_last_retry(join: Join) -> None:
    first, retry, other = join("first"), join("retry"), join("other", able=False)
    first.spawn("careful", call_id="c")
    first.asked()
    retry.spawn("careful", call_id="c")
    assert retry.states() == {"h": "pending"}
    first.close()
    retry.asked()
    assert other.states() == {"h": "pending"}
    retry.close()
    until(lambda: other.waiting() == [] and other.states() == {}, "what waits")


# ── rendering ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "rendered"),
    [
        ("asfunction", 'asfunction(text="a\\nb\\u202e\\x7f", times=1)'),
        ("hidden", ""),
        ("careful", '{\n  "text": "a\\nb\\u202e\\x7f",\n  "times": 1\n}'),
    ],
)
def test_arguments_are_rendered_as_the_definition_says(
    join: Join, name: str, rendered: str
) -> None:
    host = join(able=False)
    spawned = host.spawn(name, args={"text": "a\nb\u202e\x7f"})
    found = host.one_waiting()
    assert found["rendered"] == rendered
    assert found["arguments"]["text"] == "a\nb\u202e\x7f"
    host.decide(found, "deny")
    host.refused(spawned)
