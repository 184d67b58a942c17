from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import until
from tests.methods.conftest import Room
from tests.methods.test_tools_call import sh, states
from tests.wire import Refused

Beside = Callable[[], Room]

LSP = ("$/cancelRequest", "id")
MCP = ("notifications/cancelled", "requestId")


def request(
    room: Room, number: object, method: str = "tools/call", **params: Any
) -> dict[str, Any]:
    params = {"session": room.session} | params
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def run(room: Room, id: object, script: str) -> dict[str, Any]:
    return request(room, id, tool="run", arguments=sh(script))


def spawn(room: Room, id: object, name: str, script: str = "exec cat") -> dict[str, Any]:
    return request(room, id, "spawn", tool="run", id=name, args=sh(script), wait="none")


def ids(replies: Any) -> list[object]:
    return [reply["id"] for reply in replies]


def codes(replies: Any) -> list[int | None]:
    return [reply["error"]["code"] if "error" in reply else None for reply in replies]


def send(room: Room, *members: object) -> Any:
    room.wire.send(list(members))
    return room.wire.receive()


# -- members


def test_an_await_finds_the_spawns_of_its_batch_in_any_order(room: Room) -> None:
    """By both names of a spawn, the method's and a call with an action, before as well as after."""
    called = request(
        room, 3, tool="run", arguments={"action": "spawn", "id": "called", **sh("exit 3")}
    )
    first = request(room, 1, "await", all=["verb", "called"])
    last = request(room, 4, tool="await", arguments={"any": ["verb"]})
    replies = send(room, first, spawn(room, 2, "verb", "exit 2"), called, last)
    assert ids(replies) == [1, 2, 3, 4] and codes(replies) == [None] * 4
    ended = {row["id"]: row["exit"]["code"] for row in replies[0]["result"]["completed"]}
    assert ended == {"verb": 2, "called": 3}
    assert replies[3]["result"]["completed"][0]["id"] == "verb"


@pytest.mark.parametrize("where", ["with a live handle", "within"])
def test_a_clash_fails_the_whole_batch_before_anything_runs(room: Room, where: str) -> None:
    trace = room.daemon.base / f"clash-{room.session}"
    if where == "within":
        clash = [spawn(room, 2, "one"), spawn(room, 3, "one")]
    else:
        room.spawn("one", "exec cat")
        clash = [spawn(room, 2, "one"), spawn(room, 3, "free", f"touch {trace}")]
    before = states(room)
    others = [run(room, 1, f"touch {trace}"), request(room, 4, "await", any=["one"])]
    replies = send(room, others[0], *clash, others[1])
    assert ids(replies) == [1, 2, 3, 4] and codes(replies) == [-32002] * 4
    assert all(
        "`one`" in reply["error"]["message"] or "'one'" in reply["error"]["message"]
        for reply in replies
    )
    assert states(room) == before and not trace.exists()


def test_every_member_gets_its_own_reply_and_a_notification_none(room: Room) -> None:
    told = {**run(room, 0, "true"), "method": "handles/list", "params": {}}
    del told["id"]
    wrong = {"jsonrpc": "1.0", "id": 5, "method": "ping"}
    replies = send(
        room,
        run(room, "a", "echo a"),
        7,
        told,
        "text",
        [],
        [request(room, 6, "ping")],
        wrong,
        {"jsonrpc": "2.0", "id": 8, "method": "no/such"},
        {"jsonrpc": "2.0", "id": 9, "method": "ping", "params": [1]},
        {"jsonrpc": "2.0", "method": "no/such"},
        run(room, "b", "echo b"),
    )
    none = None
    assert ids(replies) == ["a", none, none, none, none, 5, 8, 9, "b"]
    bad = -32600
    assert codes(replies) == [None, bad, bad, bad, bad, bad, -32601, -32602, None]
    assert replies[0]["result"]["result"] == "a\n" and replies[-1]["result"]["result"] == "b\n"


def test_replies_are_in_request_order_whatever_the_order_of_ends(room: Room) -> None:
    trace = room.daemon.base / f"order-{room.session}"
    waits = f"while [ ! -e {trace} ]; do sleep 0.01; done; echo late"
    replies = send(room, run(room, 2, waits), run(room, 1, f"touch {trace}; echo early"))
    assert ids(replies) == [2, 1]
    assert [reply["result"]["result"] for reply in replies] == ["late\n", "early\n"]


def test_the_size_of_a_batch_is_limited(room: Room) -> None:
    members = [request(room, n, "ping") for n in range(257)]
    for member in members:
        del member["params"]
    assert ids(send(room, *members[:256])) == list(range(256))
    reply = send(room, *members)
    assert reply["id"] is None and reply["error"]["code"] == -32009
    assert reply["error"]["data"]["limit"] == "max_batch" and "256" in reply["error"]["message"]
    reply = send(room)
    assert reply["id"] is None and reply["error"]["code"] == -32600


def test_notifications_alone_have_no_reply_and_take_effect(room: Room) -> None:
    members = [spawn(room, 0, "one"), spawn(room, 0, "two")]
    for member in members:
        del member["id"]
    room.wire.send(members)
    assert room.wire.call("ping") == {"pong": True}, "the next message is the reply to this"
    assert set(states(room)) == {"one", "two"}


# -- ends of calls


@pytest.mark.parametrize(("method", "name"), [LSP, MCP])
@pytest.mark.parametrize("in_batch", [True, False])
def test_a_cancelled_call_ends_its_work_and_other_calls_go_on(
    room: Room, beside: Beside, method: str, name: str, in_batch: bool
) -> None:
    trace = room.daemon.base / f"go-{room.session}"
    endless = run(room, "x", "exec sleep 300")
    good = run(room, "y", f"while [ ! -e {trace} ]; do sleep 0.01; done; echo fine")
    if in_batch:
        room.wire.send([endless, good])
    else:
        room.wire.send(endless)
        room.wire.send(good)
    until(lambda: list(states(beside()).values()) == ["running"] * 2, "both run")
    cancel = {"jsonrpc": "2.0", "method": method, "params": {name: "x", "reason": "enough"}}
    if method == LSP[0]:
        del cancel["params"]["reason"]  # type: ignore[attr-defined]
    room.wire.send(cancel)
    until(lambda: "stopped" in states(beside()).values(), "its work has ended")
    trace.touch()
    replies = room.wire.receive() if in_batch else [room.wire.receive(), room.wire.receive()]
    assert ids(replies) == ["x", "y"] and codes(replies) == [-32800, None]
    assert replies[1]["result"]["result"] == "fine\n"


def test_an_mcp_cancellation_is_a_notification_with_an_id(room: Room) -> None:
    for params in ({}, {"requestId": 1.5}, {"requestId": None}, {"id": 1}):
        room.wire.send({"jsonrpc": "2.0", "method": MCP[0], "params": params})
    with pytest.raises(Refused, match="notification"):
        room.wire.call(MCP[0], requestId=1)
    assert room.wire.call("ping") == {"pong": True}


def test_the_work_of_a_batch_ends_with_its_client_except_for_spawns(
    room: Room, beside: Beside
) -> None:
    other = beside()
    endless = [run(room, n, "exec sleep 300") for n in range(3)]
    other.wire.send([*endless, spawn(room, 9, "kept")])
    until(lambda: list(states(room).values()) == ["running"] * 4, "all run")
    other.wire.close()
    until(lambda: list(states(room).values()).count("stopped") == 3, "the calls' work has ended")
    assert states(room)["kept"] == "running"


# -- size of the reply


def test_a_batch_reply_is_bounded_to_two_mebibytes_and_names_the_rest(room: Room) -> None:
    long = [run(room, n, f"yes line-{n} | head -c 250000") for n in range(12)]
    replies = send(room, *long, run(room, "short", "echo short"))
    *cut, short = [reply["result"] for reply in replies]
    assert short["result"] == "short\n" and "truncated" not in short
    assert sum(len(one["result"].encode()) for one in cut) <= 2 << 20
    assert {len(one["result"]) // 1_000 for one in cut} == {174}, "all alike"
    for number, one in enumerate(cut):
        saved = Path(one["truncated"]["path"])
        text = saved.read_text()
        assert len(text) == 250_000 and text.startswith(f"line-{number}\n")
        assert saved.stat().st_mode & 0o777 == 0o600
        assert saved.parent.stat().st_mode & 0o777 == 0o700
        assert one["truncated"]["bytes"] == 250_000
        assert f"{250_000 - one['truncated']['kept']} bytes left out" in one["result"]


@pytest.mark.parametrize("spelt", ["raw", "\\u0072aw"])
def test_base64_output_is_not_cut(room: Room, spelt: str) -> None:
    """Half of the base64 would be useless."""
    room.call("spawn", tool="run", id="big", args=sh("head -c 1200000 /dev/zero"), wait="stopped")
    one = json.dumps(request(room, 1, "fetch", id="big", view="raw", cursor=0, max_bytes=1_200_000))
    two = json.dumps(request(room, 2, "fetch", id="big", view="all", max_bytes=1_200_000))
    room.wire.send_raw(f"[{one},{two}]".replace('"raw"', f'"{spelt}"').encode() + b"\n")
    shown = room.wire.receive()[0]["result"]
    assert len(base64.b64decode(shown["content"])) == 1_200_000


def test_a_single_call_and_a_batch_that_fits_are_not_cut(room: Room) -> None:
    (reply,) = send(room, run(room, 1, "yes | head -c 200000"))
    assert len(reply["result"]["result"]) == 200_000 and "truncated" not in reply["result"]


# -- the file of a cut result


def test_the_saved_file_lives_as_long_as_its_handle(room: Room) -> None:
    call = room.call("tools/call", tool="run", arguments=sh("yes | head -c 1000000; exit 4"))
    path = Path(call["truncated"]["path"])
    assert path.stat().st_size == 1_000_000, "also what a failed program has printed"
    again = room.call("fetch", id=call["id"], view="tail", max_bytes=100)
    assert again["truncated"]["path"] == str(path)
    room.call("session/close")
    until(lambda: not path.exists(), "it went with its handle")


def test_a_saved_file_left_by_a_crash_is_removed_at_the_next_start(make_daemon: Any) -> None:
    daemon = make_daemon().start()
    with daemon.connect() as wire:
        call = wire.call("tools/call", tool="run", arguments=sh("yes | head -c 1000000"))
    path = Path(call["truncated"]["path"])
    foreign = path.parent / "0123456789ab.0123456789abcdef"
    foreign.touch()
    daemon.kill9()
    assert path.exists()
    daemon.start()
    assert not path.exists() and foreign.exists(), "another daemon's is not ours to remove"
    with daemon.connect() as wire:
        call = wire.call("tools/call", tool="run", arguments=sh("yes | head -c 1000000"))
        path = Path(call["truncated"]["path"])
        assert path.exists() and json.dumps(call)
    daemon.stop()
    assert not path.exists(), "and a stop leaves none"


def test_the_reads_of_a_batch_share_16_mib_and_go_on_where_they_end(room: Room) -> None:
    room.spawn("h", "yes $(printf '%4000s' | tr ' ' z) | head -n 250", wait="stopped", max_bytes=0)
    size, share = 250 * 4001, (16 << 20) // 32
    params = {"id": "h", "view": "raw", "max_bytes": 4 << 20}
    starts = [0, share] * 16
    calls = [request(room, n, "fetch", cursor=at, **params) for n, at in enumerate(starts)]
    for reply, at in zip(send(room, *calls), starts, strict=True):
        state = reply["result"]
        data = base64.b64decode(state["content"])
        assert len(data) == min(share, size - at) and state["cursor"] == at + len(data)
    replies = send(room, *calls[:2])
    assert len(base64.b64decode(replies[0]["result"]["content"])) == size
