from __future__ import annotations

import itertools
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.forkserver import ForkedProcess
from tests.patience import PATIENCE_S
from tests.processes import is_running
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

_sessions = itertools.count()


@pytest.fixture
def session() -> str:
    return f"edge{next(_sessions)}"


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def run(session: str, id: str, *argv: str, **more: Any) -> dict[str, Any]:
    return {"session": session, "tool": "run", "id": id, "args": {"argv": list(argv)}, **more}


def test_a_handle_aborted_before_it_runs_is_stopped_by_abort(
    shared_daemon: RunningDaemon,
) -> None:
    with shared_daemon.connect() as wire:
        for _ in range(10):
            name = f"edge{next(_sessions)}"
            wire.send(
                [
                    request(1, "spawn", **run(name, "a", "sleep", "60")),
                    request(2, "abort", session=name, id="a"),
                    request(3, "await", session=name, all=["a"]),
                ]
            )
            replies = wire.receive()
            for state in (
                replies[0]["result"],
                replies[1]["result"],
                replies[2]["result"]["completed"][0],
            ):
                assert state["state"] == "stopped" and state["ended_by"]["by"] == "abort"
            assert wire.call("fetch", session=name, id="a")["ended_by"]["by"] == "abort"


def test_awaiting_a_failed_start_reports_the_failure(
    shared_daemon: RunningDaemon, session: str
) -> None:
    with shared_daemon.connect() as wire:
        wire.send(
            [
                request(1, "spawn", **run(session, "a", "/no/such/program")),
                request(2, "await", session=session, all=["a"]),
                request(3, "apply", session=session, id="a", input="x"),
            ]
        )
        spawned, awaited, applied = wire.receive()
        assert spawned["error"]["code"] == -32012
        assert applied["error"]["code"] == -32012
        (state,) = awaited["result"]["completed"]
        assert "/no/such/program" in state["error"]["message"]
        with pytest.raises(Refused, match="-32001"):
            wire.call("fetch", session=session, id="a")


@pytest.mark.parametrize("wrong", [{"pattern": "(", "wait": "pattern"}, {"view": "screen"}])
def test_a_refused_call_has_no_effect(
    shared_daemon: RunningDaemon, session: str, wrong: dict[str, Any]
) -> None:
    with shared_daemon.connect() as wire:
        with pytest.raises(Refused, match="-32602"):
            wire.call("spawn", **run(session, "a", "cat"), **wrong)
        with pytest.raises(Refused, match="-32001"):
            wire.call("fetch", session=session, id="a")
        wire.call("spawn", **run(session, "a", "cat"), wait="none")
        with pytest.raises(Refused, match="-32602"):
            wire.call("apply", session=session, id="a", input={"line": "no"}, **wrong)
        state = wire.call("apply", session=session, id="a", input={"line": "yes"},
                          wait="pattern", pattern="yes")  # fmt: skip
        assert state["content"] == "yes\n"
        wire.call("abort", session=session, id="a")


def test_processes_left_by_an_earlier_use_of_an_id_are_still_reached(
    shared_daemon: RunningDaemon, session: str
) -> None:
    def left_by(id: str) -> int:
        command = "sleep 60 >/dev/null 2>&1 & echo x"
        params = run(session, id) | {"args": {"command": command}}
        state = wire.call("spawn", **params, wait="stopped")
        return int(state["left_behind"][0]["pid"])

    with shared_daemon.connect() as wire:
        first, other = left_by("a"), left_by("b")
        wire.call("spawn", **run(session, "a", "true"), wait="stopped")
        wire.call("spawn", **run(session, "b", "true"), wait="stopped")
        wire.call("abort", session=session, id="a")
        assert not is_running(first)
        assert is_running(other)
        wire.call("session/close", session=session)
        assert not is_running(other)


def test_a_wait_for_output_ends_at_a_question(make_daemon: Callable[..., RunningDaemon]) -> None:
    script = (
        "import json,os\n"
        "a = json.loads(os.environ['HAFT_CALL'])['tool']['answers']\n"
        "print(json.dumps({'type': 'success', 'content': 'ok'} if 'q' in a else {'type': 'needs_input',"
        " 'question': {'id': 'q', 'text': 'Q?', 'answer_type': 'Boolean'}}))"
    )
    daemon = make_daemon()
    daemon.tools(
        "[tools.ask]\nsource = 'local'\nstateful = true\noutput = 'outcome'\n"
        f'command = ["{sys.executable}", "-c", """{script}"""]\n'
    )
    with daemon.start().connect() as wire:
        began = time.monotonic()
        state = wire.call("spawn", tool="ask", id="a", wait="output", timeout_ms=60_000)
        assert state["state"] == "waiting" and time.monotonic() - began < 50


def test_a_screen_is_pushed_as_changes_and_stays_after_the_end(
    shared_daemon: RunningDaemon, session: str
) -> None:
    script = "printf 'one\\ntwo\\n'; read x; printf '\\033[1;1HONE'; read x"
    params = run(session, "t") | {
        "args": {"command": script, "terminal": True, "rows": 5, "cols": 20}
    }
    with shared_daemon.connect() as wire:
        first = wire.call("spawn", **params, view="screen")["screen"]
        assert first["lines"][:2] == ["one", "two"] and len(first["lines"]) == 5
        second = wire.call("apply", session=session, id="t", input={"line": "x"}, view="screen",
                           since_revision=first["revision"])["screen"]  # fmt: skip
        assert "lines" not in second and second["changed"]["0"] == "ONE"
        assert "1" not in second["changed"] and second["revision"] > first["revision"]
        unknown = wire.call("fetch", session=session, id="t", view="screen",
                            since_revision=10**9)["screen"]  # fmt: skip
        assert unknown["lines"][0] == "ONE"
        wire.call("apply", session=session, id="t", input={"line": "x"}, wait="stopped")
        last = wire.call("fetch", session=session, id="t", view="screen")
        assert last["state"] == "stopped" and last["screen"]["lines"][0] == "ONEx"


def test_an_unremovable_call_file_harms_nothing(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon()
    daemon.tools(
        "[tools.big]\nsource = 'local'\nstateful = true\ncommand = ['cat']\n"
        "[tools.big.parameters]\ntext = { type = 'string' }\n"
    )
    with daemon.start().connect() as wire:
        wire.call("spawn", tool="big", id="a", args={"text": "x" * 70_000}, wait="none")
        (path,) = (daemon.state / "haft" / "calls").iterdir()
        path.unlink()
        path.mkdir()
        state = wire.call("apply", id="a", input={"eof": True}, wait="stopped")
        assert state["exit"] == {"code": 0}
        wire.call("spawn", tool="big", id="a", args={"text": "x"}, wait="none")
        assert wire.call("abort", id="a")["state"] == "stopped"
        assert os.path.isdir(f"/proc/{daemon.pid}")


def test_of_daemons_started_at_once_one_serves_and_the_others_report_it(short_tmp: Path) -> None:
    many = [RunningDaemon(short_tmp / "one") for _ in range(5)]
    try:
        for target in many:
            target.start(wait=False)
        left = {
            target.process: target for target in many if isinstance(target.process, ForkedProcess)
        }
        codes = []
        while len(left) > 1:
            ended, _, _ = select.select([*left], [], [], PATIENCE_S)
            assert ended, "more than one daemon goes on"
            codes += [process.wait() for process in ended]
            left = {process: one for process, one in left.items() if process not in ended}
        (winner,) = left.values()
        assert codes == [75] * 4
        winner.wait_until_up()
        with winner.connect() as wire:
            assert wire.call("daemon/status")["pid"] == winner.pid
    finally:
        for target in many:
            target.close()


def test_repeated_stop_requests_still_exit_with_0(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon().start()
    process = daemon.process
    assert process is not None
    while process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.005)
    assert process.returncode == 0


def test_unawaited_input_is_answered_at_once(shared_daemon: RunningDaemon, session: str) -> None:
    with shared_daemon.connect() as wire:
        wire.call("spawn", **run(session, "deaf", "sleep", "60"), wait="none")
        began = time.monotonic()
        state = wire.call("apply", session=session, id="deaf", input="x" * 500_000, wait="none",
                          timeout_ms=60_000)  # fmt: skip
        assert state["waited"] == "immediate" and time.monotonic() - began < 30
        wire.call("abort", session=session, id="deaf")
