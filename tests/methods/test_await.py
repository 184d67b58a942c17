from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from haftd.methods import await_
from tests.methods.conftest import Room
from tests.wire import Refused


def ids(states: list[dict[str, Any]]) -> list[str]:
    return sorted(state["id"] for state in states)


@pytest.fixture
def three(room: Room) -> Room:
    """Three handles that run until they are aborted."""
    for name in "abc":
        room.spawn(name, "exec sleep 300")
    return room


def test_any_answers_with_the_first_end(three: Room) -> None:
    waiting = three.start("await", any=["a", "b", "c"])
    three.pause()
    assert not three.answered(waiting)
    three.call("abort", id="b")
    reply = three.wire.finish(waiting)
    assert ids(reply["completed"]) == ["b"] and ids(reply["pending"]) == ["a", "c"]
    assert reply["completed"][0]["ended_by"]["by"] == "abort"
    assert {row["state"] for row in reply["pending"]} == {"running"}
    assert "timed_out" not in reply


def test_all_answers_with_the_last_end(three: Room) -> None:
    waiting = three.start("await", all=["a", "b", "c"])
    for name in "ca":
        three.call("abort", id=name)
        three.pause()
        assert not three.answered(waiting), name
    three.call("abort", id="b")
    reply = three.wire.finish(waiting)
    assert ids(reply["completed"]) == ["a", "b", "c"] and reply["pending"] == []


@pytest.mark.parametrize(("first", "last"), [("a", "b"), ("b", "a"), ("c", "a")])
def test_all_and_any_must_both_hold(three: Room, first: str, last: str) -> None:
    waiting = three.start("await", all=["a"], any=["b", "c"])
    three.call("abort", id=first)
    three.pause()
    assert not three.answered(waiting)
    three.call("abort", id=last)
    reply = three.wire.finish(waiting)
    assert ids(reply["completed"]) == sorted([first, last])
    assert ids(reply["pending"]) == sorted({"a", "b", "c"} - {first, last})


def test_a_handle_stopped_before_counts_at_once(three: Room) -> None:
    three.call("abort", id="a")
    for wanted in ({"any": ["a", "b"]}, {"all": ["a"]}, {"all": ["a"], "any": ["a", "c"]}):
        reply = three.call("await", timeout_secs=0, **wanted)
        assert ids(reply["completed"]) == ["a"] and "timed_out" not in reply


@pytest.mark.parametrize("bound", [0, 0.2])
@pytest.mark.parametrize(
    "wanted", [{"all": ["a", "b"]}, {"any": ["b", "c"]}, {"all": ["b"], "any": ["a", "c"]}]
)
def test_an_expired_await_is_reported_and_harms_nothing(
    three: Room, wanted: dict[str, list[str]], bound: float
) -> None:
    three.call("abort", id="a")
    reply = three.call("await", timeout_secs=bound, **wanted)
    named = {name for names in wanted.values() for name in names}
    assert reply["timed_out"] is True
    assert ids(reply["completed"]) == sorted(named & {"a"})
    assert ids(reply["pending"]) == sorted(named - {"a"})
    assert three.call("fetch", id="b")["state"] == "running"


def test_a_repeated_id_is_returned_once(three: Room) -> None:
    three.call("abort", id="a")
    reply = three.call("await", all=["a", "a"], any=["a", "b", "b"])
    assert ids(reply["completed"]) == ["a"] and ids(reply["pending"]) == ["b"]


def test_an_unknown_id_is_an_error_at_once(three: Room) -> None:
    for wanted in ({"any": ["a", "nobody"]}, {"all": ["nobody"], "any": ["a"]}):
        with pytest.raises(Refused) as caught:
            three.call("await", **wanted)
        assert caught.value.code == -32001 and "nobody" in caught.value.message


def test_each_completed_state_carries_its_own_result(room: Room) -> None:
    room.spawn("good", "echo fine")
    room.spawn("bad", "echo oh; exit 4")
    reply = room.call("await", all=["good", "bad"])
    good, bad = (next(s for s in reply["completed"] if s["id"] == n) for n in ("good", "bad"))
    assert good["result"] == "fine\n" and good["exit"] == {"code": 0}
    assert bad["content"] == "oh\n" and bad["exit"] == {"code": 4} and "error" in bad


@pytest.mark.parametrize("question", [None, "claimed", "unclaimed"])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_wait_ends_where_nobody_answers_the_question_of_a_running_tool(
    question: str | None, is_running: bool
) -> None:
    execution = SimpleNamespace(is_unclaimed=question == "unclaimed") if is_running else None
    supervisor = SimpleNamespace(execution_of=lambda handle: execution)
    is_over = await_._is_unclaimed(cast(Any, supervisor), cast(Any, None))
    assert is_over is (is_running and question == "unclaimed")
