from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haft_protocol.methods import SearchParams
from haftd import match_scheduler
from haftd.caller import Caller
from haftd.core.search import LineMatch, Slice, match_lines
from haftd.core.spool import Spool
from haftd.core.text import STRIPPED
from haftd.match_scheduler import Turn
from haftd.methods import output
from haftd.methods.output import output_search
from tests.core.disks import make
from tests.methods.conftest import Room
from tests.patience import PATIENCE_S
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


@pytest.fixture
def long(room: Room) -> Room:
    """Three handles with a megabyte each, in lines of 4,000 bytes."""
    script = "yes $(printf '%4000s' | tr ' ' z) | head -n 250"
    for name in ("a", "b", "c"):
        room.spawn(name, script, wait="stopped", max_bytes=0)
    return room


def size(reply: Any) -> int:
    return sum(len(match["line"]) for match in reply["matches"])


def test_the_lines_of_all_handles_fit_into_one_reply(long: Room) -> None:
    reply = long.call("output/search", pattern="z", max_matches=10_000)
    assert reply["more"] is True and 2_000_000 < size(reply) <= 2 << 20
    one = long.call("output/search", pattern="z", ids=["b"], max_matches=10_000)
    assert one["more"] is False and size(one) == 1_000_000


def test_the_searches_of_a_batch_share_half_of_its_text(long: Room) -> None:
    params = {"session": long.session, "pattern": "z", "max_matches": 10_000}
    fetch = {"session": long.session, "id": "a", "view": "all", "max_bytes": 4 << 20}
    calls: list[tuple[str, dict[str, Any]]] = [("output/search", params)] * 20
    calls += [("fetch", fetch | {"id": name}) for name in ("a", "b", "c")]
    long.wire.send(
        [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(calls)
        ]
    )
    replies = [reply["result"] for reply in long.wire.receive()]
    found, states = replies[:20], replies[20:]
    assert all(reply["more"] for reply in found)
    assert 900_000 < sum(map(size, found)) <= 1 << 20
    texts = [len(state["result"]) for state in states]
    assert all(state["truncated"]["bytes"] == 1_000_250 for state in states)
    assert 1_800_000 < sum(map(size, found)) + sum(texts) <= 2 << 20


def test_the_searches_of_a_connection_run_one_after_another(long: Room) -> None:
    """Each holds its matches until its reply, so many at once would hold many times as much."""
    long.spawn("short", "echo z", wait="stopped")
    ids = [["a", "b", "c"] * 20, ["short"], ["short"]]
    with long.daemon.connect() as other:
        calls = [
            {"jsonrpc": "2.0", "id": n, "method": "output/search", "params": params}
            for n, names in enumerate(ids, 901)
            if (params := {"session": long.session, "pattern": "no z", "ids": names})
        ]
        for call in calls:
            long.wire.send(call)
        assert other.call("output/search", session=long.session, pattern="^z$", ids=["short"])
        replies = [long.wire.receive() for _ in ids]
    assert [reply["id"] for reply in replies] == [901, 902, 903]


def _access(spool: Spool) -> Any:
    handle = SimpleNamespace(id="a", generation=1, spool=spool, rendering=STRIPPED)
    return SimpleNamespace(find=lambda caller, params, name: handle)


def _search(spool: Spool, pattern: str) -> Any:
    params = SearchParams(pattern=pattern, ids=("a",))
    return output_search(_access(spool), Caller("unix"), params).run()


async def test_a_costly_match_holds_no_other_call_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others, begun = threading.Event(), threading.Event()

    def slow(part: Slice) -> list[LineMatch]:
        begun.set()
        assert others.wait(PATIENCE_S), "the loop has no turn during the match"
        return match_lines(part)

    monkeypatch.setattr(output, "match_lines", slow)
    spool = make()
    spool.append(b"x" * 5_000 + b"y\n")
    found = []

    async def search() -> None:
        found.append(await _search(spool, "(x|xx|xxx){0,300}y"))

    async with trio.open_nursery() as searches:
        searches.start_soon(search)
        await trio.to_thread.run_sync(begun.wait, PATIENCE_S)
        others.set()
    assert [match.cursor for match in found[0].matches] == [0] and not found[0].more


async def test_a_search_and_the_other_calls_of_a_client_take_turns() -> None:
    client, spool, found = Caller("unix"), make(), list[object]()
    spool.append(b"x" * 5_000 + b"y\n")
    params = SearchParams(pattern="(x|xx|xxx){0,300}y", ids=("a",))

    async def search() -> None:
        found.append(await output_search(_access(spool), client, params).run())

    async with trio.open_nursery() as searches:
        async with Turn(client):
            searches.start_soon(search)
            await wait_all_tasks_blocked()
            assert match_scheduler._threads().borrowed_tokens == 0 and not found
    assert len(found) == 1


async def test_a_search_ends_after_its_time_with_the_matches_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spool = make(memory=1 << 21)
    spool.append(b"needle\n" + b"x\n" * 500_000)
    assert not (await _search(spool, "needle")).more
    monkeypatch.setattr(output, "MAX_MATCHING_S", 0.0)
    result = await _search(spool, "needle")
    assert [match.line for match in result.matches] == ["needle"] and result.more
