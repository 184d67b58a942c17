from __future__ import annotations

from typing import Any

import pytest

from tests.methods.conftest import Room
from tests.wire import Refused


@pytest.fixture
def two(room: Room) -> Room:
    """A stopped and a running handle, both with unread output."""
    room.spawn("over", "printf 'one apple\\ntwo pears\\nthree apples'", wait="stopped")
    room.spawn("runs", "printf 'pear\\n≤ apple pie\\nunfinished app'; exec cat")
    room.call(
        "fetch", id="runs", wait="pattern", pattern="unfinished app", view="tail", max_bytes=0
    )
    return room


def found(room: Room, pattern: str, **more: Any) -> list[tuple[str, int, str]]:
    reply = room.call("output/search", pattern=pattern, **more)
    assert reply["more"] is False
    return [(match["id"], match["cursor"], match["line"]) for match in reply["matches"]]


def test_matches_of_running_and_stopped_handles_have_offsets(two: Room) -> None:
    assert sorted(found(two, r"app")) == [
        ("over", 0, "one apple"),
        ("over", 20, "three apples"),
        ("runs", 5, "≤ apple pie"),
        ("runs", 19, "unfinished app"),
    ]
    assert found(two, r"^p.*r$") == [("runs", 0, "pear")]
    assert found(two, r"no such fruit") == []


def test_a_match_is_readable_from_its_cursor_on(two: Room) -> None:
    for name, cursor, line in found(two, r"app"):
        state = two.call("fetch", id=name, cursor=cursor)
        text = state["result"] if "result" in state else state["content"]
        assert text.startswith(line)


def test_later_output_is_found_later(two: Room) -> None:
    two.call(
        "apply", id="runs", input={"line": "le tart"}, wait="pattern", pattern="tart", cursor=0
    )
    assert ("runs", 19, "unfinished apple tart") in found(two, r"tart$")


def test_only_the_named_handles_are_searched(two: Room) -> None:
    assert {name for name, _, _ in found(two, r"app", ids=["over"])} == {"over"}
    assert {name for name, _, _ in found(two, r"app", ids=["runs", "over"])} == {"runs", "over"}
    assert found(two, r"app", ids=[]) == []
    with pytest.raises(Refused) as caught:
        two.call("output/search", pattern="app", ids=["over", "nobody"])
    assert caught.value.code == -32001 and "nobody" in caught.value.message


def test_a_search_moves_no_read_offset(two: Room) -> None:
    found(two, r"app")
    assert two.call("fetch", id="runs")["content"] == "pear\n≤ apple pie\nunfinished app"
    assert two.call("fetch", id="over")["result"].count("apple") == 2


@pytest.mark.parametrize("most", [1, 2, 3])
def test_more_matches_than_requested_are_reported(two: Room, most: int) -> None:
    reply = two.call("output/search", pattern="app", max_matches=most)
    assert len(reply["matches"]) == most and reply["more"] is True
    assert len(found(two, "app", max_matches=5)) == 4


def test_the_generation_identifies_the_use_of_an_id(two: Room) -> None:
    two.spawn("over", "echo second apple", wait="stopped")
    (line,) = two.call("output/search", pattern="apple", ids=["over"])["matches"]
    assert (line["generation"], line["line"]) == (2, "second apple")


def test_another_session_finds_nothing(two: Room) -> None:
    reply = two.wire.call("output/search", session=f"{two.session}-other", pattern="app")
    assert reply == {"matches": [], "more": False}


@pytest.mark.parametrize("pattern", ["(", "[a", r"(?<=x)y", r"(a)\1", ""])
def test_an_invalid_pattern_is_refused(two: Room, pattern: str) -> None:
    with pytest.raises(Refused) as caught:
        two.call("output/search", pattern=pattern)
    assert caught.value.code == -32602 and "pattern" in caught.value.message
