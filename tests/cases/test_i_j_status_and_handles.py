"""Public reports, groups I (wrong status) and J (handles)."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable

import pytest

from tests.cases.conftest import Desk, text
from tests.running_daemon import RunningDaemon
from tests.wire import Refused


@pytest.mark.parametrize("pty", [False, True])
def test_RB_042_signals_and_exit_codes_are_distinguished(desk: Desk, pty: bool) -> None:
    state = desk.done(desk.spawn(sh="printf part; kill -9 $$", pty=pty))
    assert state["exit"] == {"signal": "KILL"} and state["content"] == "part"
    assert "result" not in state and "KILL" in state["error"]["message"]
    state = desk.done(desk.spawn(sh="kill -SEGV $$", pty=pty))
    assert state["exit"] == {"signal": "SEGV"} and "result" not in state
    state = desk.done(desk.spawn(sys.executable, "-c", "raise SystemExit(7)", pty=pty))
    assert state["exit"] == {"code": 7} and "7" in state["error"]["message"]
    assert state["ended_by"] == {"by": "exit"}


@pytest.mark.parametrize("rounds", [15, pytest.param(500, marks=pytest.mark.soak)])
def test_RB_043_an_abort_that_races_with_the_end_reports_the_actual_end(
    desk: Desk, rounds: int
) -> None:
    rng = random.Random(43)
    for _ in range(rounds):
        handle = desk.spawn(sh="read line; exit 7")
        desk.apply(handle, {"line": "go"}, wait="none")
        for _ in range(rng.randrange(6)):
            desk.wire.call("ping")
        try:
            state = desk.abort(handle)
        except Refused as refused:
            assert refused.code == -32008
            state = refused.data["state"]
        how = (state["ended_by"]["by"], *state["exit"].items())
        assert how in (("exit", ("code", 7)), ("abort", ("signal", "TERM"))), state
        again = desk.fetch(handle)
        assert (again["exit"], again["ended_by"]) == (state["exit"], state["ended_by"])


def test_RB_043_an_abort_of_an_ended_handle_changes_nothing(desk: Desk) -> None:
    handle = desk.spawn(sh="exit 7", wait="stopped")
    with pytest.raises(Refused, match="-32008"):
        desk.abort(handle)
    state = desk.fetch(handle)
    assert state["exit"] == {"code": 7} and state["ended_by"] == {"by": "exit"}


def test_RB_044_a_failed_spawn_leaves_no_handle(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    daemon = make_daemon().start()
    desk = open_desk(daemon)
    journal = daemon.socket.with_name("handles.lock")
    away = journal.with_name("away")
    journal.rename(away)
    away.unlink()
    journal.mkdir()
    tag = f"30.{time.monotonic_ns()}"
    with pytest.raises(Refused) as caught:
        desk.spawn("sleep", tag, as_="ghost")
    assert caught.value.code == -32012
    assert desk.list() == []
    assert not any(tag in line for line in _commands())
    journal.rmdir()
    desk.spawn("true", as_="ghost", wait="stopped")
    assert desk.last["exit"] == {"code": 0} and desk.last["generation"] == 1


def _commands() -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline") as file:
                    found.append(file.read())
            except OSError:
                continue
    return found


def test_RB_045_a_result_stays_readable_and_unchanged(desk: Desk) -> None:
    handle = desk.spawn(sh="echo hi; exit 5", view="delta", max_bytes=65536, wait="none")
    desk.done(handle)
    answers = [desk.fetch(handle) for _ in range(3)]
    with desk.daemon.connect() as other:
        answers.append(other.call("fetch", session=desk.session, id=handle))
    assert {answer["content"] for answer in answers} == {"hi\n"}
    assert all(answer["exit"] == {"code": 5} for answer in answers)


def test_RB_046_a_handle_is_known_as_soon_as_spawn_answers(desk: Desk) -> None:
    failures: list[object] = []

    def one(number: int) -> None:
        try:
            with desk.daemon.connect() as wire:
                mine = Desk(desk.daemon, wire, desk.session)
                handle = mine.spawn(sh="sleep 0.2; echo ok", as_=f"n{number}")
                assert text(mine.done(handle)) == "ok\n"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_RB_047_running_work_is_found_again_through_the_list(desk: Desk) -> None:
    desk.spawn(sh="echo start; sleep 300", as_="build")
    desk.fetch("build", wait="output", view="tail")
    with desk.daemon.connect() as wire:
        again = Desk(desk.daemon, wire, desk.session)
        (row,) = again.list()
        assert row["state"] == "running" and "sleep 300" in row["command"]
        assert row["root"].startswith("/") and row["age_s"] >= 0 and row["bytes"] == 6
        assert abs(row["last_output_at"] - time.time()) < 60
        assert abs(row["started_at"] - time.time()) < 60
        assert row["pid"] > 1 and row["memory"] > 0 and row["cpu_s"] >= 0
        assert again.fetch(row["id"])["content"] == "start\n"
        assert again.abort(row["id"])["state"] == "stopped"


def test_RB_048_after_a_restart_lost_work_is_reported_and_its_id_not_reused(
    make_daemon: Callable[..., RunningDaemon], open_desk: Callable[..., Desk]
) -> None:
    daemon = make_daemon().start()
    desk = open_desk(daemon)
    desk.spawn("sleep", "300", as_="x")
    pid = desk.list()[0]["pid"]
    daemon.kill9()
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass
    daemon.start()
    desk = open_desk(daemon)
    (row,) = desk.list()
    assert (row["id"], row["state"], row["ended_by"]) == ("x", "stopped", {"by": "lost"})
    others = [desk.spawn("echo", "other") for _ in range(20)]
    assert "x" not in others
    state = desk.fetch("x")
    assert state["ended_by"]["by"] == "lost" and "other" not in str(state)
    # By the guardian or by this daemon: the sentence is true of both.
    assert "the tool's processes were ended as well" in state["error"]["message"]
    desk.spawn("echo", "again", as_="x", wait="stopped")
    assert desk.last["generation"] == 2
    desk._call("session/close")
    assert desk.list() == []


@pytest.mark.parametrize(
    ("bound", "most"),
    [("retain_stopped_max = 20", 20), pytest.param("", 256, marks=pytest.mark.soak)],
)
def test_RB_049_ended_handles_are_bounded_and_live_ones_never_evicted(
    make_daemon: Callable[..., RunningDaemon],
    open_desk: Callable[..., Desk],
    bound: str,
    most: int,
) -> None:
    daemon = make_daemon(f"[daemon]\nmax_handles_session = 3\n{bound}\n").start()
    desk = open_desk(daemon)
    desk.spawn("sleep", "120", as_="old")
    for number in range(most + 10):
        desk.spawn("true", as_=f"n{number}", wait="stopped")
    rows = desk.list()
    assert len([row for row in rows if row["state"] == "stopped"]) == most
    assert desk.fetch("old")["state"] == "running"
    files = [path for path in daemon.state.rglob("*") if path.is_file()]
    assert len(files) <= most + 44
    desk.spawn("sleep", "120", as_="b")
    desk.spawn("sleep", "120", as_="c")
    with pytest.raises(Refused) as caught:
        desk.spawn("sleep", "120", as_="d")
    assert caught.value.code == -32009
    assert "max_handles_session" in caught.value.message and "3" in caught.value.message
    assert {one["id"] for one in desk.list() if one["state"] == "running"} == {"old", "b", "c"}
    with pytest.raises(Refused) as caught:
        desk.fetch("n0")
    assert caught.value.code == -32001 and caught.value.data["expired"] is True
