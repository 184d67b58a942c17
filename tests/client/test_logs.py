from __future__ import annotations

import datetime
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haft.__main__ import main
from haft.cli import show
from haft.cli.commands.logs import Follower, last_lines
from haft.cli.values import read_time
from tests.client.conftest import Serve
from tests.client.fake import LATER, Peer, Refuse, running, stopped
from tests.effort import examples
from tests.running_daemon import RunningDaemon

Capture = pytest.CaptureFixture[str]


class Tape:
    """A handle's output: more of it with each wait, then the end."""

    def __init__(self, chunks: list[str], *, drain: list[str] | None = None) -> None:
        self.chunks = list(chunks)
        self.drain = list(drain or [])
        self.text = ""
        self.generation = 1
        self.asked: list[dict[str, Any]] = []

    def answer(self, request: dict[str, Any], peer: Peer) -> Any:
        params = request["params"]
        self.asked.append(params)
        if params.get("wait") == "output" and len(self.text) == params["cursor"] and self.chunks:
            self.text += self.chunks.pop(0)
        begin, size = params["cursor"], params["max_bytes"]
        text, omitted = self.text[begin:], 0
        if len(text) > size:
            omitted = len(text) - size
            text = text[: size // 2] + "…" + text[len(text) - (size - size // 2) :]
        fields = {"cursor": len(self.text), "generation": self.generation, "omitted": omitted}
        if self.chunks:
            return running("a", text, **fields)
        if self.drain:
            state = stopped("a", text, exit={"code": 0}, output_complete=False, **fields)
            self.text += self.drain.pop(0)
            return state
        return stopped("a", text, exit={"code": 0}, **fields)


@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(chunks=st.lists(st.text("ab\n", max_size=30), max_size=8))
def test_a_follower_writes_every_byte_once(
    chunks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(show, "write", written.append)
    monkeypatch.setattr("haft.cli.commands.logs._PIECE", 10)
    tape = Tape(chunks)

    class Direct:
        def raw(self, method: str, params: dict[str, Any]) -> bytes:
            return json.dumps(tape.answer({"params": params}, None)).encode()  # type: ignore[arg-type]

    follower = Follower("a")
    while not follower.done:
        follower.read(Direct(), wait="output")  # type: ignore[arg-type]
    assert "".join(written) == "".join(chunks)


def test_following_ends_with_the_handle_and_keeps_the_read_offset(
    serve: Serve, capsys: Capture
) -> None:
    tape = Tape(["one\n", "two\n", "three"])
    serve(tape.answer)
    assert main(["logs", "a", "-f"]) == 0
    out, err = capsys.readouterr()
    assert out == "one\ntwo\nthree"
    assert err == "a: stopped, exit 0, 1.2 s\n"
    assert all("cursor" in params for params in tape.asked)


def test_output_after_the_end_is_followed(serve: Serve, capsys: Capture) -> None:
    serve(Tape(["one\n"], drain=["two\n", "", "three\n"]).answer)
    assert main(["logs", "a", "-f"]) == 0
    assert capsys.readouterr().out == "one\ntwo\nthree\n"


def test_the_result_of_a_structured_tool_is_shown_once(serve: Serve, capsys: Capture) -> None:
    """A result is no output: every state of the stopped handle has the result."""
    looks = iter([False, False, True])

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        return stopped("a", "the result\n", cursor=50, output_complete=next(looks))

    serve(answer)
    assert main(["logs", "a", "-f"]) == 0
    assert capsys.readouterr().out == "the result\n"


def test_logs_without_follow_shows_the_current_output(serve: Serve, capsys: Capture) -> None:
    tape = Tape(["later"])
    tape.text = "one\n" * 3
    serve(tape.answer)
    assert main(["logs", "a"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("one\n" * 3, "a: running, 1.2 s\n")
    assert main(["logs", "a", "--cursor", "4"]) == 0
    assert capsys.readouterr().out == "one\n" * 2
    assert main(["logs", "a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["content"] == "one\n" * 3


def test_following_resumes_at_the_same_byte_after_a_lost_connection(
    serve: Serve, capsys: Capture
) -> None:
    tape = Tape(["one\n", "two\n", "three\n"])

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if len(tape.asked) == 1:
            tape.asked.append({})
            peer.close()
            return LATER
        return tape.answer(request, peer)

    serve(answer)
    assert main(["logs", "a", "-f"]) == 0
    out, err = capsys.readouterr()
    assert out == "one\ntwo\nthree\n"
    assert "lost at byte 4 of a" in err


def test_following_ends_when_another_daemon_lacks_the_handle(serve: Serve, capsys: Capture) -> None:
    tape = Tape(["one\n", "two\n"])

    def first(request: dict[str, Any], peer: Peer) -> Any:
        if tape.asked:
            daemon.stop_listening()
            serve(tape.answer, started_at=2.0)
            daemon.close()
            return LATER
        return tape.answer(request, peer)

    daemon = serve(first)
    assert main(["logs", "a", "-f"]) == 3
    out, err = capsys.readouterr()
    assert out == "one\n"
    assert err == "haft logs: haftd was restarted at byte 4 of a; its handles ended with it\n"


def test_a_missing_daemon_is_reported_with_the_offset(serve: Serve, capsys: Capture) -> None:
    tape = Tape(["one\n", "two\n"])

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        if tape.asked:
            daemon.close()
            return LATER
        return tape.answer(request, peer)

    daemon = serve(answer)
    assert main(["logs", "a", "-f"]) == 3
    err = capsys.readouterr().err
    assert err == (
        "haft logs: haftd has ended, and all handles with it; `haft doctor` looks for problems; "
        "the output was read up to byte 4 of a\n"
    )


def test_a_new_run_with_the_same_id_is_not_followed(serve: Serve, capsys: Capture) -> None:
    tape = Tape(["one\n", "two\n", "three\n"])

    def answer(request: dict[str, Any], peer: Peer) -> Any:
        tape.generation = 1 + (len(tape.asked) > 0)
        return tape.answer(request, peer)

    serve(answer)
    assert main(["logs", "a", "-f"]) == 2
    out, err = capsys.readouterr()
    assert out == "one\n"
    assert "was started again" in err


def test_following_has_no_json_form(serve: Serve, capsys: Capture) -> None:
    serve(lambda request, peer: running())
    assert main(["logs", "a", "-f", "--json"]) == 2


def test_an_expired_handle_is_reported_by_the_daemon(serve: Serve, capsys: Capture) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> Any:
        raise Refuse(-32001, "handle_not_found", "It has ended.", expired=True)

    serve(answer)
    assert main(["logs", "a"]) == 4


def test_the_last_lines_are_shown(serve: Serve, capsys: Capture) -> None:
    serve(lambda request, peer: stopped("a", "one\ntwo\nthree\r bar\nfour", exit={"code": 0}))
    for number, shown in ((0, ""), (1, "four"), (2, "three\r bar\nfour"), (9, None)):
        assert main(["logs", "a", "-n", str(number)]) == 0
        assert capsys.readouterr().out == (
            "one\ntwo\nthree\r bar\nfour" if shown is None else shown
        )
    assert last_lines(b"one\ntwo\n", 1) == b"two\n"
    assert main(["logs", "a", "-n", "-1"]) == main(["logs", "a", "-n", "1", "--json"]) == 2


def test_raw_logs_are_the_programs_bytes(shared_daemon: RunningDaemon, short_tmp: Path) -> None:
    """Also invalid UTF-8, and more than a reply holds."""
    data = b"\x1b[1mbold\x1b[0m \xff\r\n" * 80_000
    (short_tmp / "data").write_bytes(data)
    with shared_daemon.connect() as wire:
        words = ["cat", str(short_tmp / "data")]
        fields = {"tool": "run", "id": "raw", "session": "raw", "args": {"argv": words}}
        wire.call("spawn", **fields, wait="stopped", timeout_ms=20_000)
    haft = [sys.executable, "-m", "haft", "--session", "raw", "logs", "raw", "--raw"]
    for more, shown in (([], data), (["-n", "3"], data[-3 * data.index(b"\n") - 3 :])):
        done = subprocess.run([*haft, *more], env=shared_daemon.env, capture_output=True)
        assert (done.returncode, done.stdout == shown) == (0, True), done.stderr


def test_logs_since_a_time_are_the_output_from_then_on(
    shared_daemon: RunningDaemon,
) -> None:
    with shared_daemon.connect() as wire:
        words = ["sh", "-c", "echo old; sleep 0.4; echo new"]
        fields = {"tool": "run", "id": "bursts", "session": "since", "args": {"argv": words}}
        wire.call("spawn", **fields, wait="stopped", timeout_ms=20_000)
        timeline = wire.call("output/timeline", session="since", id="bursts")
    haft = [sys.executable, "-m", "haft", "--session", "since", "logs", "bursts"]
    (_, old), (_, new) = timeline["points"]
    for at, shown in ((old - 50, "old\nnew\n"), ((old + new) / 2, "new\n"), (new + 1000, "")):
        moment = datetime.datetime.fromtimestamp(timeline["started_at"] + at / 1000).isoformat()
        done = subprocess.run(
            [*haft, "--since", moment], env=shared_daemon.env, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, shown), done.stderr


@pytest.mark.parametrize(
    ("text", "ago"), [("90s", 90), ("5m", 300), ("1h30m", 5_400), ("2d", 172_800), ("0s", 0)]
)
def test_a_duration_counts_back_from_now(text: str, ago: int) -> None:
    assert read_time(text, 1e9) == 1e9 - ago


def test_a_time_of_day_is_its_last_occurrence() -> None:
    now = datetime.datetime(2026, 5, 4, 14, 0, 0)
    for text, at in (("13:59:30", (4, 13, 59, 30)), ("14:01", (3, 14, 1, 0))):
        day, hour, minute, second = at
        moment = datetime.datetime(2026, 5, day, hour, minute, second)
        assert read_time(text, now.timestamp()) == moment.timestamp()
    date = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
    assert read_time("2026-05-01T00:00:00Z", now.timestamp()) == date.timestamp()


@pytest.mark.parametrize("text", ["", "5", "5x", "m", "25:00", "yesterday", "-5m", "2026-13-01"])
def test_an_invalid_time_is_refused(text: str, capsys: Capture) -> None:
    assert main(["logs", "a", f"--since={text}"]) == 2
    assert "--since takes how long ago (90s, 5m, 2h30m)" in capsys.readouterr().err


def test_since_and_cursor_exclude_each_other(capsys: Capture) -> None:
    assert main(["logs", "a", "--since", "5m", "--cursor", "4"]) == 2
    assert "--since and --cursor cannot be combined" in capsys.readouterr().err
