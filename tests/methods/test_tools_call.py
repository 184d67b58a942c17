from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.faults.harness import until
from tests.methods.conftest import Room
from tests.wire import Refused

Beside = Callable[[], Room]


def call(room: Room, tool: str = "run", **more: Any) -> Any:
    arguments = more.pop("arguments", {})
    return room.call("tools/call", tool=tool, arguments=arguments, **more)


def sh(script: str, **more: Any) -> dict[str, Any]:
    return {"argv": ["sh", "-c", script], **more}


def states(room: Room) -> dict[str, str]:
    return {row["id"]: row["state"] for row in room.call("handles/list")["handles"]}


def test_a_call_without_an_action_runs_to_the_end(room: Room) -> None:
    state = call(room, arguments=sh("echo out; echo err >&2"), call_id="c1")
    assert state["state"] == "stopped" and state["result"] == "out\nerr\n"
    assert state["call_id"] == "c1" and state["notifications"] == []
    failed = call(room, arguments=sh("echo why; exit 3"))
    assert failed["exit"] == {"code": 3} and failed["content"] == "why\n"
    assert failed["call_id"] and failed["call_id"] != state["call_id"]


def test_every_answer_has_the_published_form(room: Room) -> None:
    document = room.call("rpc.discover")
    (method,) = [method for method in document["methods"] if method["name"] == "tools/call"]
    form = {**method["result"]["schema"], "components": document["components"]}
    valid = jsonschema.Draft202012Validator(form)
    begun(room, "before", "exit 3")
    settled(room, "before")
    answers = [
        call(room, arguments={"action": "spawn", "id": "one", **sh("read x")}),
        call(room, arguments={"action": "fetch", "id": "one"}),
        call(room, "await", arguments={"all": ["one"], "timeout_secs": 0}),
        call(room, arguments={"action": "apply", "id": "one", "input": {"line": "x"}}),
        call(room, "await", arguments={"all": ["one"]}),
        call(room, arguments=sh("exit 3")),
    ]
    for answer in answers:
        valid.validate(answer)
    assert [len(answer["notifications"]) for answer in answers] == [1, 0, 0, 0, 0, 0]
    assert answers[4]["completed"][0]["state"] == "stopped" and answers[2]["timed_out"] is True


def test_a_run_has_no_time_limit_and_delays_no_other_call(room: Room, beside: Beside) -> None:
    running = room.start(
        "tools/call", tool="run", arguments=sh("read x < $FIFO || sleep 60; echo $x")
    )
    until(lambda: "running" in states(beside()).values(), "it runs")
    assert not room.answered(running)
    (name,) = states(room)
    room.call("abort", id=name)
    assert room.wire.finish(running)["ended_by"]["by"] == "abort"


@pytest.mark.parametrize("whole", [{"from": 0}, {"view": "all"}])
def test_a_verb_that_reads_what_is_there_waits_for_nothing(room: Room, whole: Any) -> None:
    room.spawn("silent", "sleep 60")
    read = {"tool": "handle_read", "arguments": {"id": "silent", **whole}, "surface": "verbs"}
    read_at_once = room.start("tools/call", **read)
    read_later = room.start("tools/call", **read | {"arguments": {"id": "silent"}})
    room.pause()
    assert (room.answered(read_at_once), room.answered(read_later)) == (True, False)


def test_an_action_is_the_method_of_that_name(room: Room) -> None:
    spawned = call(
        room, arguments={"action": "spawn", "id": "one", **sh("read x; echo got $x; read y")}
    )
    assert (spawned["id"], spawned["state"]) == ("one", "running")
    asked = {"action": "apply", "id": "one", "input": {"line": "it"}, "wait": "output"}
    assert call(room, arguments=asked)["content"] == "got it\n"
    fetched = call(room, arguments={"action": "fetch", "id": "one", "view": "all"})
    assert fetched["content"] == "got it\n"
    aborted = call(room, arguments={"action": "abort", "id": "one"})
    assert aborted["state"] == "stopped" and aborted["ended_by"]["by"] == "abort"


def test_a_models_texts_are_converted_to_the_expected_types(room: Room) -> None:
    call(room, arguments={"action": "spawn", "id": "one", "argv": '["cat"]'})
    state = call(
        room, arguments={"action": "fetch", "id": "one", "wait": "output", "timeout_ms": "0"}
    )
    assert state["waited"] == "deadline"
    sent = {"action": "apply", "id": "one", "input": {"keys": '["C-d"]'}, "wait": "stopped"}
    assert call(room, arguments=sent)["state"] == "stopped"


@pytest.mark.parametrize("text", ['{"line":"x"}\n', '{"eof": true}', "true", "2", "[1]", '"a"'])
def test_text_input_to_a_program_is_not_converted(room: Room, text: str) -> None:
    call(room, arguments={"action": "spawn", "id": "one", "argv": ["cat"]})
    params = {"action": "apply", "id": "one", "input": text, "wait": "output"}
    assert call(room, arguments=params)["content"] == text


@pytest.mark.parametrize("value", [{"input": None}, {}])
def test_an_input_that_is_null_or_missing_is_required(room: Room, value: dict[str, Any]) -> None:
    call(room, arguments={"action": "spawn", "id": "one", "argv": ["cat"]})
    with pytest.raises(Refused, match="input: it is required") as caught:
        call(room, arguments={"action": "apply", "id": "one", **value})
    assert caught.value.code == -32005


def test_a_spawn_waits_as_requested(room: Room) -> None:
    spawn = {
        "action": "spawn",
        "id": "one",
        **sh("echo one; sleep 0.3; echo two"),
        "wait": "stopped",
    }
    state = call(room, arguments=spawn)
    assert (state["waited"], state["result"]) == ("stopped", "one\ntwo\n")
    bound = {"action": "spawn", "id": "two", "argv": ["cat"], "wait": "stopped", "timeout_ms": 0}
    assert call(room, arguments=bound)["waited"] == "deadline"
    pattern = {"action": "spawn", "id": "three", **sh("echo ready; exec cat"), "pattern": "^ready$"}
    assert call(room, arguments=pattern)["waited"] == "matched"


def test_all_faults_of_a_spawn_are_reported_at_once(room: Room) -> None:
    wrong = {"action": "spawn", "id": "no id", "argv": [], "wait": "soon", "timeout_ms": -1}
    with pytest.raises(Refused) as caught:
        call(room, arguments=wrong)
    paths = {problem["path"] for problem in caught.value.data["problems"]}
    assert paths == {"id", "argv", "wait", "timeout_ms"}


def test_a_call_without_an_action_may_name_it_null(room: Room) -> None:
    every = dict.fromkeys(["action", "id", "wait", "timeout_ms", "view", "pattern", "input"])
    assert call(room, arguments={**every, "command": "echo hi"})["result"] == "hi\n"


@pytest.mark.parametrize("name", ["id", "wait", "timeout_ms", "input"])
def test_action_parameters_without_an_action_are_refused(room: Room, name: str) -> None:
    with pytest.raises(Refused, match=f"{name}: it needs an `action`") as caught:
        call(room, arguments={name: "x", "argv": []})
    assert [problem["path"] for problem in caught.value.data["problems"]] == [name, "argv"]


@pytest.mark.parametrize(
    ("arguments", "kind", "about"),
    [
        ({"action": "poke", "id": "one"}, "action_not_supported", "poke"),
        ({"action": "fetch"}, "invalid_arguments", "id"),
        ({"action": "fetch", "id": "one", "wat": 1, "timeout_ms": "soon"}, "invalid_arguments", "wat"),
        ({"action": "fetch", "id": "one", "timeout_ms": 10**12}, "invalid_arguments", "timeout_ms"),
        ({"action": "apply", "id": "one"}, "invalid_arguments", "input"),
        ({"action": "spawn", "id": "no spaces", "argv": ["true"]}, "invalid_arguments", "id"),
        ({"action": "spawn", "id": "two", "argv": ["true"], "cwdd": "/"}, "invalid_arguments", "cwdd"),
        ({"argv": ["true"], "id": "two"}, "invalid_arguments", "id"),
        ({"action": "fetch", "id": "none"}, "handle_not_found", "none"),
    ],
)  # fmt: skip
def test_each_fault_is_reported_by_its_name(
    room: Room, arguments: dict[str, Any], kind: str, about: str
) -> None:
    call(room, arguments={"action": "spawn", "id": "one", "argv": ["cat"]})
    with pytest.raises(Refused, match=about) as caught:
        call(room, arguments=arguments)
    assert caught.value.data["kind"] == kind
    assert set(states(room)) == {"one"}


def test_all_faults_of_a_call_are_reported_at_once(room: Room) -> None:
    wrong = {"action": "fetch", "wat": 1, "timeout_ms": "soon"}
    with pytest.raises(Refused) as caught:
        call(room, arguments=wrong)
    assert {problem["path"] for problem in caught.value.data["problems"]} == {
        "id",
        "wat",
        "timeout_ms",
    }


def test_a_handle_belongs_to_its_tool(room: Room) -> None:
    call(room, arguments={"action": "spawn", "id": "one", "argv": ["cat"]})
    with pytest.raises(Refused, match="handle of the tool `run`") as caught:
        call(room, "shell", arguments={"action": "fetch", "id": "one"})
    assert caught.value.code == -32005


def test_await_needs_no_action(room: Room) -> None:
    call(room, arguments={"action": "spawn", "id": "one", "argv": ["true"]})
    room.spawn("two", "exec cat")
    done = call(room, "await", arguments={"any": ["one", "two"]})
    assert [row["id"] for row in done["completed"]] == ["one"]
    assert [row["id"] for row in done["pending"]] == ["two"]
    assert "call_id" in done and done["notifications"] == []
    for wrong in ({"every": ["one"]}, {}, {"all": [], "timeout_secs": 1}):
        with pytest.raises(Refused) as caught:
            call(room, "await", arguments=wrong)
        assert caught.value.code == -32005
        assert caught.value.data["problems"][0]["path"] in ("every", "all")


@pytest.mark.parametrize("how", ["cancel", "hang up"])
def test_a_run_ends_with_its_call(room: Room, beside: Beside, how: str) -> None:
    other = beside()
    running = other.start("tools/call", tool="run", arguments=sh("exec sleep 300"))
    until(lambda: "running" in states(room).values(), "it runs")
    if how == "cancel":
        other.cancel(running)
        with pytest.raises(Refused) as caught:
            other.wire.finish(running)
        assert caught.value.code == -32800
    else:
        other.wire.close()
    until(lambda: set(states(room).values()) == {"stopped"}, "its work has ended")


def test_a_cancelled_wait_harms_no_handle(room: Room) -> None:
    call(room, arguments={"action": "spawn", "id": "one", "argv": ["cat"]})
    waiting = room.start(
        "tools/call", tool="run", arguments={"action": "fetch", "id": "one", "wait": "output"}
    )
    room.pause()
    room.cancel(waiting)
    with pytest.raises(Refused):
        room.wire.finish(waiting)
    assert states(room) == {"one": "running"}


def test_a_retry_of_a_call_starts_nothing_twice(room: Room, beside: Beside) -> None:
    script = "echo once; read x < /dev/null; sleep 0.2"
    first = room.start("tools/call", tool="run", arguments=sh(script), call_id="again")
    until(lambda: len(states(room)) == 1, "it is started")
    retry = beside().call("tools/call", tool="run", arguments=sh(script), call_id="again")
    assert retry["result"] == "once\n" and room.wire.finish(first)["id"] == retry["id"]
    assert len(states(room)) == 1


def test_a_long_result_is_cut_and_reported_as_cut(room: Room) -> None:
    state = call(room, arguments=sh("head -c 1000000 /dev/zero | tr '\\0' x"))
    assert state["truncated"]["bytes"] == 1_000_000
    assert len(state["result"]) < 300_000 and "bytes left out" in state["result"]


# -- notices


def kinds(notices: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(notice["kind"], notice["id"]) for notice in notices]


def begun(room: Room, name: str, end: str) -> None:
    """Start processes that end later, so that no reply has shown their end."""
    go = room.daemon.base / f"go-{room.session}"
    room.spawn(name, f"while [ ! -e {go} ]; do sleep 0.01; done; {end}")


def settled(room: Room, *names: str) -> None:
    (room.daemon.base / f"go-{room.session}").touch()
    until(lambda: all(states(room)[name] == "stopped" for name in names), "they have stopped")


def test_a_notice_rides_on_the_next_call_once(room: Room) -> None:
    begun(room, "good", "true")
    begun(room, "bad", "exit 4")
    settled(room, "good", "bad")
    notices = call(room, arguments=sh("true"))["notifications"]
    assert sorted(kinds(notices)) == [("tool.failed", "bad"), ("tool.stopped", "good")]
    failed = next(notice for notice in notices if notice["id"] == "bad")
    assert failed["level"] == "error" and "code 4" in failed["message"] and failed["at"] > 1e9
    assert call(room, arguments=sh("true"))["notifications"] == []


def test_read_or_awaited_ends_are_no_notices(room: Room) -> None:
    for name in ("read", "awaited", "aborted", "unread"):
        begun(room, name, "true")
    room.call("abort", id="aborted")
    settled(room, "read", "awaited", "unread")
    room.call("await", all=["awaited"])
    room.call("fetch", id="read")
    assert kinds(room.call("notifications/drain")["notifications"]) == [("tool.stopped", "unread")]
    assert room.call("notifications/drain")["notifications"] == []


def test_notices_belong_to_their_session(room: Room) -> None:
    begun(room, "one", "true")
    settled(room, "one")
    elsewhere = f"{room.session}b"
    assert room.wire.call("notifications/drain", session=elsewhere)["notifications"] == []
    assert kinds(room.call("notifications/drain")["notifications"]) == [("tool.stopped", "one")]


# -- batches


def batch(room: Room, *calls: dict[str, Any]) -> list[Any]:
    """Send a batch of calls of `run`; return the replies by request."""
    params = [{"tool": "run", "session": room.session} | call for call in calls]
    room.wire.send(
        [
            {"jsonrpc": "2.0", "id": f"b{n}", "method": "tools/call", "params": one}
            for n, one in enumerate(params)
        ]
    )
    replies: list[Any] = room.wire.receive()
    assert [reply["id"] for reply in replies] == [f"b{n}" for n in range(len(calls))]
    return replies


def test_a_batch_spawns_and_awaits_its_own_handles(room: Room) -> None:
    check = {"arguments": {"action": "spawn", "id": "check", **sh("echo checked")}}
    test = {"arguments": {"action": "spawn", "id": "test", **sh("echo tested; exit 1")}}
    both = {"tool": "await", "arguments": {"all": ["check", "test"]}}
    waited, *spawned = batch(room, both, check, test)
    assert all("result" in reply for reply in spawned)
    done = {row["id"]: row for row in waited["result"]["completed"]}
    assert done["check"]["exit"] == {"code": 0} and done["test"]["exit"] == {"code": 1}
    # The spawn's own reply may have shown the output already, depending on timing.
    assert room.call("fetch", id="check", view="all")["result"] == "checked\n"


def test_a_batch_with_a_clash_runs_nothing_and_names_the_id(room: Room) -> None:
    trace = room.daemon.base / f"trace-{room.session}"
    spawn = {"arguments": {"action": "spawn", "id": "one", **sh(f"touch {trace}")}}
    run = {"arguments": sh(f"touch {trace}")}
    for reply in batch(room, spawn, run, spawn):
        assert reply["error"]["code"] == -32002 and "one" in reply["error"]["message"]
    assert states(room) == {} and not trace.exists()


def test_an_invalid_call_of_a_batch_fails_alone(room: Room) -> None:
    wrong = {"arguments": {"action": "spawn", "id": "no spaces", "argv": ["true"]}}
    unknown = {"tool": "no_such_tool"}
    good = {"arguments": sh("echo fine")}
    first, second, third = batch(room, wrong, unknown, good)
    assert first["error"]["code"] == -32005 and second["error"]["code"] == -32003
    assert third["result"]["result"] == "fine\n"


# -- a run to the end


@pytest.mark.parametrize("argv", [["cat"], ["sh", "-c", "read x; echo [$x]"], ["grep", "foo"]])
def test_a_run_to_the_end_reads_the_end_of_its_input(room: Room, argv: list[str]) -> None:
    state = call(room, arguments={"argv": argv})
    assert state["state"] == "stopped" and "exit" in state


def test_a_tool_on_a_terminal_requires_an_action(room: Room) -> None:
    with pytest.raises(Refused, match="terminal") as caught:
        call(room, "shell")
    assert caught.value.data["problems"][0]["path"] == "action" and states(room) == {}


def test_a_failed_start_is_reported_once_and_without_the_environment(room: Room) -> None:
    with pytest.raises(Refused) as caught:
        call(room, arguments={"argv": ["no-such-program-here"]})
    assert caught.value.code == -32012 and "/bin" not in caught.value.message
    assert room.call("notifications/drain")["notifications"] == []


def test_a_cancelled_retry_leaves_the_first_calls_run_alone(room: Room, beside: Beside) -> None:
    arguments = sh("exec sleep 300")
    room.start("tools/call", tool="run", arguments=arguments, call_id="again")
    until(lambda: "running" in states(beside()).values(), "it runs")
    other = beside()
    retry = other.start("tools/call", tool="run", arguments=arguments, call_id="again")
    other.pause()
    other.cancel(retry)
    with pytest.raises(Refused):
        other.wire.finish(retry)
    other.pause()
    assert list(states(other).values()) == ["running"]


def test_a_run_goes_on_while_a_retry_waits_for_it(room: Room, beside: Beside) -> None:
    arguments = sh("exec sleep 300")
    first = room.start("tools/call", tool="run", arguments=arguments, call_id="again")
    until(lambda: "running" in states(beside()).values(), "it runs")
    other = beside()
    retry = other.start("tools/call", tool="run", arguments=arguments, call_id="again")
    other.pause()
    room.cancel(first)
    with pytest.raises(Refused):
        room.wire.finish(first)
    room.pause()
    assert list(states(room).values()) == ["running"]
    other.cancel(retry)
    with pytest.raises(Refused):
        other.wire.finish(retry)
    until(lambda: list(states(room).values()) == ["stopped"], "it is ended with the last")


def test_a_result_is_bounded_by_its_definition(make_daemon: Any) -> None:
    daemon = make_daemon()
    daemon.tools(
        "[tools.long]\nsource = 'local'\noutput = 'raw'\nsize_threshold = 1000\n"
        "command = ['seq', '1', '5000']\n"
    )
    with daemon.start().connect() as wire:
        state = wire.call("tools/call", tool="long", arguments={})
    assert state["truncated"]["bytes"] == 23_893 and state["truncated"]["kept"] <= 1_000
    assert state["result"].startswith("1\n") and state["result"].endswith("5000\n")
