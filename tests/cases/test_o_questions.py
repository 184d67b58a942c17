from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.cases.conftest import Desk
from tests.faults.harness import until
from tests.inquiries.fake import FakeBackend
from tests.inquiries.test_router import Room
from tests.running_daemon import RunningDaemon
from tests.wire import Refused


def ask(desk: Desk, name: str, *options: str) -> dict[str, Any]:
    """Ask the user through a handle, with no client connected that could answer."""
    args = {"question": "Which?", "options": list(options)}
    state: dict[str, Any] = desk._call("spawn", tool="ask_user", id=name, args=args, wait="input")
    assert state["state"] == "waiting", state
    return state


def said(state: dict[str, Any]) -> bool:
    """Return true if a state holds anything that could be taken for an answer."""
    return "result" in state or "answer" in state or bool(state.get("content"))


def test_RB_071_a_question_survives_reconnecting_clients(
    shared_daemon: RunningDaemon, desk: Desk
) -> None:
    with shared_daemon.connect() as wire:
        asker = Desk(shared_daemon, wire, desk.session)
        ask(asker, "q", "a", "b")
        state = asker.fetch("q", wait="stopped", timeout_ms=300)
        assert state["state"] == "waiting" and not said(state)
    (open_one,) = desk._call("inquiries/list")["inquiries"]
    assert open_one["handle"] == "q" and open_one["question"]["text"] == "Which?"
    for wrong in ("", "c", None, True, ["a"], {"answer": "a"}):
        with pytest.raises(Refused) as caught:
            answer(desk, open_one, wrong)
        assert caught.value.code in (-32011, -32602)
        assert desk.fetch("q")["state"] == "waiting", wrong
    answer(desk, open_one, "b")
    state = desk.fetch("q", wait="stopped", timeout_ms=5_000)
    assert (state["state"], state["result"]) == ("stopped", "b")
    with pytest.raises(Refused):
        answer(desk, open_one, "a")
    assert desk.fetch("q")["result"] == "b"


def answer(desk: Desk, inquiry: dict[str, Any], value: object) -> Any:
    return desk._call("inquiries/answer", inquiry_id=inquiry["inquiry_id"], answer=value)


def test_RB_071_a_cancelled_question_has_no_answer(desk: Desk) -> None:
    ask(desk, "q", "a", "b")
    state = desk.abort("q")
    assert state["state"] == "stopped" and state["ended_by"]["by"] == "abort"
    assert "aborted" in state["error"]["message"] and not said(state)
    assert desk._call("inquiries/list")["inquiries"] == []


def test_RB_071_a_call_without_a_user_to_ask_is_not_empty(desk: Desk) -> None:
    arguments = {"question": "Which?", "options": ["a", "b"]}
    number = desk.wire.start(
        "tools/call", session=desk.session, tool="ask_user", arguments=arguments
    )
    with desk.daemon.connect() as wire:
        other = Desk(desk.daemon, wire, desk.session)
        until(lambda: other._call("inquiries/list")["inquiries"], "a question")
        (found,) = other._call("inquiries/list")["inquiries"]
        assert desk.wire._kept == []
        answer(other, found, "a")
    assert desk.wire.finish(number)["result"] == "a"


async def test_RB_072_no_clock_ends_a_question(autojump_clock: MockClock) -> None:
    room = Room(FakeBackend())
    with trio.move_on_after(7 * 86_400) as week:
        await room.ask()
    assert week.cancelled_caught and room.end is None and room.records == []


@pytest.mark.soak
def test_RB_072_after_a_minute_it_is_still_open(desk: Desk) -> None:
    ask(desk, "q", "yes", "no")
    state = desk.fetch("q", wait="stopped", timeout_ms=65_000)
    assert (state["state"], state["waited"]) == ("waiting", "deadline") and not said(state)


def test_RB_072_an_expired_wait_answers_nothing(desk: Desk) -> None:
    ask(desk, "t", "yes", "no")
    state = desk.fetch("t", wait="stopped", timeout_ms=100)
    assert (state["state"], state["waited"]) == ("waiting", "deadline") and not said(state)
    awaited = desk._call("await", all=["t"], timeout_secs=60)
    assert "timed_out" not in awaited and awaited["completed"] == awaited["pending"] == []
    assert [row["state"] for row in awaited["waiting"]] == ["waiting"]


def test_RB_072_an_expired_limit_is_named_and_answers_nothing(
    shared_daemon: RunningDaemon, desk: Desk
) -> None:
    asks = '{"type":"waiting","question":{"id":"go","text":"Delete?","answer_type":"Boolean"}}'
    shared_daemon.tools(
        "[tools.asks]\nsource = 'local'\nstateful = true\noutput = 'events'\nlimits.wall_s = 1\n"
        f"parameters = {{}}\ncommand = ['sh', '-c', '''echo '{asks}'; exec sleep 300''']\n",
        "limited.toml",
    )
    assert desk.wire.call("daemon/reload")["problems"] == []
    first = desk._call("spawn", tool="asks", id="t", wait="input")
    assert first["state"] == "waiting" and first["question"]["text"] == "Delete?"
    state = desk.fetch("t", wait="stopped", timeout_ms=10_000)
    assert state["state"] == "stopped" and state["ended_by"]["by"] == "limit"
    assert "wall_s" in state["error"]["message"] and not said(state)
    assert not {"yes", "no", "proceed", "continue"} & set(state["error"]["message"].split())
