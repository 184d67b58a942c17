"""output/timeline: when the bytes of an output were printed."""

from __future__ import annotations

import itertools

import pytest

from tests.methods.conftest import Room
from tests.wire import Refused


def test_points_give_the_time_of_each_burst(room: Room) -> None:
    room.spawn("cat", "exec cat", wait="none")
    before = room.call("output/timeline", id="cat")
    assert (before["points"], before["cursor"], before["more"]) == ([], 0, False)
    for number in range(3):
        room.call(
            "apply", id="cat", input={"line": f"line {number}"}, wait="pattern", pattern=str(number)
        )
        room.call("fetch", id="cat", wait="quiet", quiet_ms=50)
    reply = room.call("output/timeline", id="cat")
    assert [offset for offset, _ in reply["points"]] == [0, 7, 14] and reply["cursor"] == 21
    times = [at for _, at in reply["points"]]
    assert all(later - earlier >= 50 for earlier, later in itertools.pairwise(times))
    row = room.call("handles/list")["handles"][0]
    assert abs(reply["started_at"] + times[-1] / 1000 - row["last_output_at"]) < 0.01


def test_a_limit_leaves_the_later_points_for_the_next_call(room: Room) -> None:
    room.spawn("two", "echo one; sleep 0.1; echo two", wait="stopped")
    rest = room.call("output/timeline", id="two", cursor=4)
    assert [offset for offset, _ in rest["points"]] == [4] and rest["more"] is False


@pytest.mark.parametrize("max_points", [1, 2, 3])
def test_each_page_begins_at_a_later_point(room: Room, max_points: int) -> None:
    room.spawn("five", "for n in 1 2 3 4 5; do echo $n; sleep 0.05; done", wait="stopped")
    whole = room.call("output/timeline", id="five")["points"]
    assert len(whole) == 5
    cursor = 0
    points: list[list[int]] = []
    for _ in whole:
        page = room.call("output/timeline", id="five", cursor=cursor, max_points=max_points)
        assert len(page["points"]) <= max(2, max_points)
        points += page["points"][1:] if points else page["points"]
        if not page["more"]:
            break
        assert page["points"][-1][0] > cursor
        cursor = page["points"][-1][0]
    assert points == whole


def test_an_unknown_handle_is_refused(room: Room) -> None:
    with pytest.raises(Refused) as caught:
        room.call("output/timeline", id="nobody")
    assert caught.value.code == -32001


def test_a_timeline_moves_no_read_offset(room: Room) -> None:
    room.spawn("once", "echo once", wait="none")
    room.call("await", all=["once"])
    room.call("output/timeline", id="once")
    assert room.call("fetch", id="once")["result"] == "once\n"


def test_resizes_and_inputs_have_their_place_in_the_output_and_secrets_none(room: Room) -> None:
    script = "read a; echo one; read go; stty -echo; echo off; read b; echo two; read c"
    args = {"argv": ["sh", "-c", script], "terminal": True}
    room.call("spawn", tool="run", id="t", args=args, wait="input")
    room.call("apply", id="t", input={"resize": {"rows": 30, "cols": 90}}, wait="none")
    room.call("apply", id="t", input={"line": "four"}, wait="pattern", pattern="one")
    room.call("apply", id="t", input={"line": "go"}, wait="pattern", pattern="off")
    room.call(
        "apply", id="t", input={"line": "hidden", "secret": True}, wait="pattern", pattern="two"
    )
    whole = room.call("output/timeline", id="t")
    assert [[*entry[:1], *entry[2:]] for entry in whole["resizes"]] == [[0, 30, 90]]
    first, *others = whole["inputs"]
    assert first[0] == 0
    # Inputs of one grain are one. The echo may be off before the second line is written; the third
    # is secret.
    sizes = sum(size for _, _, size in (first, *others))
    assert sizes in (len("four"), len("four") + len("go"))
    later = room.call("output/timeline", id="t", cursor=1)
    assert "resizes" not in later and first not in later.get("inputs", [])
