"""Cases of the groups J and L as an assistant meets them: through `tools/call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cases.conftest import Desk, text
from tests.running_daemon import RunningDaemon
from tests.wire import Refused


def params(desk: Desk, **arguments: Any) -> dict[str, Any]:
    return {"session": desk.session, "tool": "run", "arguments": arguments}


def call(desk: Desk, **arguments: Any) -> dict[str, Any]:
    reply: dict[str, Any] = desk.wire.call("tools/call", **params(desk, **arguments))
    return reply


def sh(script: str) -> dict[str, Any]:
    return {"argv": ["sh", "-c", script]}


def test_RB_045_an_ended_call_can_be_read_again_unchanged(desk: Desk) -> None:
    once = call(desk, **sh("echo hi; exit 5"))
    assert (once["content"], once["exit"]) == ("hi\n", {"code": 5})
    with desk.daemon.connect() as wire:
        other = Desk(desk.daemon, wire, desk.session)
        for one in (desk, other, desk):
            again = call(one, action="fetch", id=once["id"])
            assert (again["content"], again["exit"]) == ("hi\n", {"code": 5})
            assert again["state"] == "stopped" and again["error"] == once["error"]


def test_RB_046_fifty_spawns_and_their_reads_in_one_batch(desk: Desk) -> None:
    """An error of one call cancels no other."""
    members = []
    for number in range(50):
        script = sh("sleep 0.2; echo ok")
        members.append(params(desk, action="spawn", id=f"n{number}", **script))
        members.append(
            params(desk, action="fetch", id=f"n{number}", wait="stopped", view="all")
            if number != 25
            else params(desk, action="fetch", id="nobody")
        )
    desk.wire.send(
        [
            {"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": one}
            for at, one in enumerate(members)
        ]
    )
    replies = desk.wire.receive()
    assert [reply["id"] for reply in replies] == list(range(100))
    wrong = [reply for reply in replies if "error" in reply]
    assert [(one["id"], one["error"]["code"]) for one in wrong] == [(51, -32001)]
    reads = [reply["result"] for reply in replies[1::2] if "result" in reply]
    assert [text(one) for one in reads] == ["ok\n"] * 49


def test_RB_047_work_with_a_lost_id_is_found_and_ended_by_calls(desk: Desk) -> None:
    call(desk, action="spawn", id="build", **sh("echo start; exec sleep 300"))
    with desk.daemon.connect() as wire:
        again = Desk(desk.daemon, wire, desk.session)
        while (row := again.list()[0])["bytes"] < len("start\n"):
            pass
        assert row["state"] == "running" and "sleep 300" in row["command"]
        found = call(again, action="fetch", id=row["id"], view="all")
        assert found["content"] == "start\n" and found["tool"] == row["tool"] == "run"
        assert call(again, action="abort", id=row["id"])["state"] == "stopped"


def test_RB_048_a_call_on_work_lost_in_a_crash_reports_lost(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    daemon = make_daemon().start()
    desk = open_desk(daemon)
    call(desk, action="spawn", id="x", argv=["sleep", "300"])
    daemon.kill9()
    desk = open_desk(daemon.start())
    others = [call(desk, argv=["echo", "other"])["id"] for _ in range(20)]
    assert "x" not in others and len(set(others)) == 20
    state = call(desk, action="fetch", id="x")
    assert state["ended_by"]["by"] == "lost" and "other" not in str(state)
    with pytest.raises(Refused) as caught:
        call(desk, action="apply", id="x", input="more")
    assert caught.value.code == -32008


def test_RB_049_calls_are_bounded_and_evict_no_running_handle(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    daemon = make_daemon("[daemon]\nmax_handles_session = 2\nretain_stopped_max = 20\n").start()
    desk = open_desk(daemon)
    call(desk, action="spawn", id="old", argv=["sleep", "120"])
    for _ in range(24):
        call(desk, argv=["sh", "-c", "yes | head -c 300000"])
    rows = desk.list()
    assert len(rows) <= 21 and call(desk, action="fetch", id="old")["state"] == "running"
    files = [one for one in (daemon.state / "haft" / "spool").iterdir() if one.is_file()]
    assert len(files) <= 20, "what was cut is kept for as long as its handle, and no longer"
    call(desk, action="spawn", id="b", argv=["sleep", "120"])
    with pytest.raises(Refused) as caught:
        call(desk, argv=["true"])
    assert caught.value.code == -32009 and "max_handles_session" in caught.value.message


def test_RB_058_a_running_call_delays_no_other_and_ends_when_cancelled(
    desk: Desk,
) -> None:
    wire = desk.wire
    running = wire.start("tools/call", **params(desk, argv=["sleep", "60"]))
    while not (rows := desk.list()):
        pass
    assert wire._kept == [], "it has not been answered, and held nobody up"
    (row,) = rows
    state = call(desk, action="abort", id=row["id"])
    assert state["state"] == "stopped"
    ended = wire.finish(running)
    assert ended["ended_by"]["by"] == "abort" and ended["id"] == row["id"]
    another = wire.start("tools/call", **params(desk, argv=["sleep", "60"]))
    while len(desk.list()) < 2:
        pass
    wire.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": another}})
    with pytest.raises(Refused) as caught:
        wire.finish(another)
    assert caught.value.code == -32800
    assert call(desk, argv=["echo", "free"])["result"] == "free\n"
