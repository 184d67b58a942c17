"""`haft run`: a command's streams, input, signals and exit status, and a handle that outlives the client."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pexpect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haft.__main__ import main
from haft.cli.commands.run import as_text, signal_number
from haft.cli.relay import STDERR, STDOUT, split
from haft_protocol.pushes import PushedBytes
from tests.client.conftest import Serve
from tests.client.fake import Peer, Refuse
from tests.client.person import DETACH, Person, Place
from tests.effort import examples
from tests.faults.harness import until
from tests.forkserver import run_haft, run_haft_on_bytes
from tests.running_daemon import RunningDaemon

PIPE = subprocess.PIPE


def words(place: Place, *more: str) -> list[str]:
    return [sys.executable, "-m", "haft", "--session", place.session, "run", *more]


def run(place: Place, *more: str, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    words = ["--session", place.session, "run", *more]
    return run_haft_on_bytes(words, env=place.daemon.env, given=input)


def start(place: Place, script: str, *more: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start `sh -c SCRIPT` as the handle `h`."""
    arguments = words(place, "--id", "h", *more, "--", "sh", "-c", script)
    streams: dict[str, Any] = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE} | options
    return subprocess.Popen(arguments, env=place.daemon.env, **streams)


@given(st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=4))), st.integers(0, 100))
def test_each_byte_of_a_push_goes_to_its_stream(
    writes: list[tuple[bool, bytes]], start: int
) -> None:
    at, spans = start, []
    for is_stderr, data in writes:
        if is_stderr:
            spans.append((at, at + len(data)))
        at += len(data)
    whole = b"".join(data for _, data in writes)
    push = PushedBytes("s", "h", 1, start, at, b64encode(whole).decode(), stderr=tuple(spans))
    for fd, is_stderr in ((STDOUT, False), (STDERR, True)):
        written = b"".join(data for stream, data in writes if stream is is_stderr)
        assert b"".join(piece for other, piece in split(push) if other == fd) == written


@pytest.mark.parametrize("number", [*map(int, signal.Signals), 32, 33, 40])
def test_the_daemons_name_of_a_signal_has_its_number(number: int) -> None:
    from haftd.host.launch.launched_process import name_signal

    assert signal_number(name_signal(number)) == number


@settings(max_examples=examples(12), deadline=None)
@given(st.lists(st.binary(max_size=6).filter(lambda word: b"\0" not in word), max_size=4))
def test_arguments_that_are_no_text_arrive_unchanged(words: list[bytes]) -> None:
    command = as_text(["printf", r"%s\0", *map(os.fsdecode, words)])
    "".join(command).encode()
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == b"".join(word + b"\0" for word in words or [b""])


def test_a_file_whose_name_is_no_text_is_an_argument(place: Place, tmp_path: Path) -> None:
    path = os.fsdecode(bytes(tmp_path) + b"/caf\xe9 \\ ")
    Path(path).write_text("read")
    done = run(place, "--", "cat", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"read", b"")


def test_too_many_arguments_are_counted(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(request: dict[str, Any], peer: Peer) -> object:
        raise Refuse(-32009, "limit_exceeded", "The message has too many.", limit="max_values")

    serve(answer)
    assert main(["run", "-d", "--", *["a"] * 1200]) == 125
    assert "the command has 1,200 arguments" in capsys.readouterr().err


def test_streams_are_apart_and_input_is_bytes_to_its_end(place: Place) -> None:
    data = bytes(range(256)) * 4096
    done = run(place, "--", "sh", "-c", "cat; echo over >&2; exit 3", input=data)
    assert (done.returncode, done.stderr) == (3, b"over\n")
    assert done.stdout == data


def test_an_end_that_the_command_has_shown_leaves_no_notice(place: Place) -> None:
    """The output is left for the session."""
    done = run(place, "--id", "h", "--", "sh", "-c", "read x; echo out; exit 4", input=b"\n")
    assert (done.returncode, done.stdout) == (4, b"out\n")
    assert place.call("notifications/drain")["notifications"] == []
    assert place.call("fetch", id="h")["content"] == "out\n"


def test_an_end_that_is_not_kept_leaves_no_notice_either(place: Place) -> None:
    done = run(place, "--rm", "--", "sh", "-c", "read x; exit 2", input=b"\n")
    assert done.returncode == 2
    assert place.call("notifications/drain")["notifications"] == []


def test_two_full_streams_are_both_read_to_their_ends(place: Place) -> None:
    """Each is ahead of the reader at the same time, so that both wait."""
    script = "head -c 3000000 /dev/zero & head -c 3000000 /dev/zero >&2; wait"
    done = run(place, "--", "sh", "-c", script)
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 3_000_000)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["--", "sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["--", "no-such-program"], 127),
        (["--", "/tmp"], 126),
        (["--", "/etc/passwd"], 126),
        (["--"], 125),
        (["true"], 125),
        (["--no-such-option", "--", "true"], 125),
        (["-t", "--", "true"], 125),
    ],
)
def test_the_exit_status_is_a_shells(place: Place, command: list[str], status: int) -> None:
    done = run_haft(["--session", place.session, "run", *command], env=place.daemon.env)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.count("\n") == (status < 128)


def test_a_signal_is_forwarded_and_the_command_decides(place: Place) -> None:
    script = "trap 'echo caught; exit 7' TERM; echo ready; while :; do read -r _; done"
    client = start(place, script)
    assert client.stdout is not None and client.stdout.readline() == b"ready\n"
    client.send_signal(signal.SIGTERM)
    assert client.communicate(timeout=60) == (b"caught\n", b"")
    assert client.returncode == 7


def test_a_stop_stops_the_command_and_a_resumption_resumes_it(place: Place) -> None:
    client = start(place, "echo ready; cat")
    assert client.stdout is not None and client.stdout.readline() == b"ready\n"
    client.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(client.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    until(
        lambda: place.call("handles/list")["handles"][0].get("suspended"), "the command is stopped"
    )
    client.send_signal(signal.SIGCONT)
    assert client.communicate(b"on\n", timeout=60) == (b"on\n", b"")
    assert client.returncode == 0


def test_a_stopped_command_is_resumed_when_its_client_is_killed(place: Place) -> None:
    client = start(place, "echo ready; read -r line; echo $line")
    assert client.stdout is not None and client.stdout.readline() == b"ready\n"
    client.send_signal(signal.SIGTSTP)
    os.waitpid(client.pid, os.WUNTRACED)
    until(
        lambda: place.call("handles/list")["handles"][0].get("suspended"), "the command is stopped"
    )
    client.kill()
    client.communicate()
    place.call("apply", id="h", input={"line": "on"}, wait="none")
    state = place.call("fetch", id="h", wait="stopped", cursor=0, timeout_ms=60_000)
    assert state["result"] == "ready\non\n"


def test_a_command_without_a_reader_gets_sigpipe(place: Place) -> None:
    with start(place, "exec yes") as client:
        assert client.stdout is not None
        client.stdout.readline()
        client.stdout.close()
        assert client.wait(60) == 128 + signal.SIGPIPE


def test_a_command_outlives_a_killed_client(place: Place) -> None:
    client = start(place, "echo ready; read -r _; echo went on; exec head -c 9000000 /dev/zero")
    assert client.stdout is not None and client.stdout.readline() == b"ready\n"
    client.kill()
    client.communicate()
    place.call("apply", id="h", input={"line": ""}, wait="none")
    state = place.call("fetch", id="h", wait="stopped", cursor=0, max_bytes=20)
    assert state["exit"]["code"] == 0 and state["cursor"] > 9_000_000


def test_a_detached_command_is_named_and_nothing_else_is_printed(place: Place) -> None:
    done = run(place, "-d", "--id", "h", "--", "cat")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"h\n", b"")
    assert place.call("fetch", id="h")["state"] == "running"


def test_a_start_whose_output_is_not_shown_leaves_it_for_the_session(
    serve: Serve, place: Place
) -> None:
    """The start is replayed with a wait, so that the output is there before the reply."""

    def answer(request: dict[str, Any], peer: Peer) -> object:
        raise Refuse(-32009, "limit_exceeded", "Not here.", limit="max_handles")

    daemon = serve(answer)
    assert main(["run", "-d", "--id", "h", "--", "sh", "-c", "echo first; cat"]) == 125
    (params,) = daemon.calls("spawn")
    state = place.wire.call("spawn", **{**params, "session": place.session, "wait": "output"})
    assert state["content"] == ""
    assert place.call("fetch", id="h")["content"] == "first\n"
    args = {"argv": ["false"]}
    again = {**params, "session": place.session, "id": "f", "args": args, "wait": "stopped"}
    assert place.wire.call("spawn", **again)["state"] == "stopped"
    (notice,) = place.call("notifications/drain")["notifications"]
    assert notice["id"] == "f"


def test_a_terminals_command_gets_a_terminal_below_what_is_there(place: Place) -> None:
    script = "tty >/dev/null && stty size; echo typed; read -r line; echo got $line; exit 5"
    with in_terminal(place, "h", "--", "sh", "-c", script) as person:
        person.until("typed")
        person.type("hello\r")
        assert person.ends() == 5
        assert person.lines == ["24 80", "typed", "hello", "got hello"]
        assert b"\x1b[2J" not in person.drawn
        assert person.restored
    assert place.call("notifications/drain")["notifications"] == []


def test_a_detached_terminal_leaves_the_command_running(place: Place) -> None:
    with in_terminal(place, "h", "--", "sh", "-c", "echo here; cat") as person:
        person.until("here")
        person.type(DETACH)
        assert person.ends() == 0
        assert any("haft" in line and "attach h" in line for line in person.lines)
    assert place.call("fetch", id="h")["state"] == "running"


def in_terminal(place: Place, id: str, *more: str) -> Person:
    return Person(place.daemon, "--session", place.session, "--id", id, *more, command="run")


def test_a_job_in_the_background_gets_pipes_and_is_not_stopped(place: Place) -> None:
    haft = shlex.join(words(place, "--", "sh", "-c", "test -t 1 || echo pipes"))
    shell = pexpect.spawn(
        "bash",
        ["--norc", "-c", f"set -m; {haft} & wait $!; echo status $?"],
        env={**place.daemon.env, "TERM": "dumb"},
    )
    try:
        shell.expect(r"pipes\r\n(.*\r\n)*status 0\r\n", timeout=60)
    finally:
        shell.close(force=True)


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_closed_stream_is_no_other_descriptor(place: Place, stream: int) -> None:
    haft = shlex.join(words(place, "--", "sh", "-c", "echo out; echo err >&2; cat"))
    done = subprocess.run(
        ["sh", "-c", f"{haft} {stream}>&-"],
        env=place.daemon.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout == (b"" if stream == 1 else b"out\n")
    assert done.stderr == (b"" if stream == 2 else b"err\n")


def test_a_terminated_client_in_a_terminal_ends_the_command(place: Place) -> None:
    script = "trap exit TERM; echo ready; while :; do read -r _ || exit; done"
    with in_terminal(place, "h", "--", "sh", "-c", script) as person:
        person.until("ready")
        os.kill(person.pid, signal.SIGTERM)
        assert person.ends() == 128 + signal.SIGTERM
    state = place.call("fetch", id="h", wait="stopped")
    assert (state["state"], state["ended_by"]) == ("stopped", {"by": "exit"})


def test_the_end_of_the_daemon_is_that_of_the_command(daemon: RunningDaemon) -> None:
    place = Place(daemon, "s")
    client = start(place, "echo ready; exec cat")
    assert client.stdout is not None and client.stdout.readline() == b"ready\n"
    daemon.kill9()
    _, errors = client.communicate(timeout=60)
    assert (client.returncode, errors) == (
        125,
        b"haft run: haftd has ended, and all handles with it; `haft doctor` looks for problems\n",
    )
    place.wire.close()
