from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pexpect
import pytest

from haft.__main__ import main
from haft.cli.commands.spawn import generate_id
from tests.client.conftest import Serve
from tests.client.fake import LATER, FakeDaemon, Peer, Refuse, hello, running, stopped
from tests.client.terminal import HaftTerminal

Capture = pytest.CaptureFixture[str]
HAFT = [sys.executable, "-m", "haft"]
ROW = {"command": "x", "root": "/", "started_at": 1.0, "age_s": 5.0, "bytes": 1}


def test_help_and_version_have_the_usual_forms(capsys: Capture) -> None:
    assert main(["help"]) == main(["--help"]) == 0
    out = capsys.readouterr().out
    assert out[: len(out) // 2] == out[len(out) // 2 :]
    assert main(["help", "spawn"]) == main(["spawn", "--help"]) == 0
    out = capsys.readouterr().out
    assert out[: len(out) // 2] == out[len(out) // 2 :] and "--id" in out
    assert main(["help", "--help"]) == 0


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("spwan run", "'spawn'"),
        ("help abrot", "'abort'"),
        ("ps --al", "'--all'"),
        ("fetch a --wait patern", "'pattern'"),
        ("fetch a --timout-ms=5", "'--timeout-ms'"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_command(
    capsys: Capture, words: str, meant: str
) -> None:
    assert main(words.split()) == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_a_spawn_without_an_id_gets_a_free_one(serve: Serve, capsys: Capture) -> None:
    taken: list[str] = []

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        name = request["params"]["id"]
        if not taken:
            taken.append(name)
            raise Refuse(-32002, "handle_exists", f"There is a handle {name!r} already.", id=name)
        return running(name)

    daemon = serve(answer)
    assert main(["spawn", "run", "--", "true"]) == 0
    first, second = (call["id"] for call in daemon.calls("spawn"))
    assert first != second and re.fullmatch(r"run-[a-z2-9]{4}", second)
    assert capsys.readouterr().err == f"{second}: running, 1.2 s\n"
    assert main(["spawn", "run", "--id", "named"]) == 0


def test_a_generated_id_is_valid_for_any_tool_name() -> None:
    for tool in ("run", "_x", "é", "mcp.github.create_issue", "x" * 80, "a b"):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}", generate_id(tool))


def test_ps_leaves_out_completed_calls(serve: Serve, capsys: Capture) -> None:
    finished = {**stopped("call.0123456789abcdef", elapsed_ms=5000), **ROW}
    runs = {**running("call.fedcba9876543210"), **ROW}
    named = {**stopped("call.mine", elapsed_ms=5000), **ROW}
    for one in (finished, runs, named):
        one.pop("content", None)
    serve(lambda request, peer: {"handles": [finished, runs, named]})
    assert main(["ps"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["ID", runs["id"], "call.mine"]
    assert err == ""
    assert main(["ps", "-a"]) == 0
    assert finished["id"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fetch", "a", "--wait", "stopped"], "a runs on, `haft abort a` ends it"),
        (["apply", "a", "--line", "x"], "a runs on, `haft abort a` ends it"),
        (["spawn", "run", "--id", "a", "--wait", "stopped"], "a runs on, `haft abort a` ends it"),
        (["await", "a", "b"], "the handles run on, `haft abort a b` ends it"),
    ],
)
def test_ctrl_c_reports_that_the_handle_still_runs(
    serve: Serve, words: list[str], message: str
) -> None:
    asked = threading.Event()

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        asked.set()
        return LATER

    serve(answer)
    with subprocess.Popen([*HAFT, *words], stderr=subprocess.PIPE, text=True) as command:
        assert asked.wait(20)
        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=20)
    message = message.replace("b` ends it", "b` ends them")
    assert (command.returncode, err) == (130, f"haft {words[0]}: interrupted; {message}\n")


@pytest.fixture
def stoppable(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A daemon with one handle, whose process ends on request."""
    monkeypatch.setenv("HAFT_SOCKET", str(short_tmp / "s"))
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if request["method"] == "initialize":
            return {**hello(request), "pid": process.pid}
        if request["method"] == "handles/list":
            one = {**running("work"), **ROW}
            one.pop("content", None)
            return {"handles": [one]}
        assert process.stdin is not None
        process.stdin.close()
        return {}

    daemon = FakeDaemon(short_tmp / "s", answer)
    yield daemon
    daemon.close()
    process.kill()
    process.wait()


def test_stop_confirms_at_a_terminal_and_names_the_handles(stoppable: FakeDaemon) -> None:
    env = {**os.environ, "TERM": "dumb"}
    for answer, status in (("n", 1), ("", 1), ("y", 0)):
        person = HaftTerminal("stop", env=env)
        person.expect_exact("This will end 1 handle: work (run). Stop haftd? [y/N]")
        person.sendline(answer)
        person.expect(pexpect.EOF)
        person.close()
        assert person.exitstatus == status
        assert len(stoppable.calls("daemon/shutdown")) == (1 if answer == "y" else 0)


@pytest.mark.parametrize("is_json", [False, True])
def test_stop_does_not_confirm_without_a_terminal_and_names_the_ended_handles(
    stoppable: FakeDaemon, capsys: Capture, is_json: bool
) -> None:
    assert main(["--json", "stop"] if is_json else ["stop"]) == 0
    out, err = capsys.readouterr()
    if is_json:
        assert json.loads(out)["ended"] == [{"session": "default", "id": "work", "tool": "run"}]
    else:
        assert "and ended 1 handle: work (run)" in err
