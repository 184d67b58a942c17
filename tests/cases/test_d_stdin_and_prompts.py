from __future__ import annotations

import base64
import os
import pty
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases.conftest import FIXTURES, Desk, text
from tests.faults.harness import until
from tests.running_daemon import RunningDaemon
from tests.wire import Refused

ENDED = -32008
NOT_TAKEN = -32004
SECRET = "hunter2-never-shown"
INTERRUPTS: list[Any] = ["\x03", {"keys": ["C-c"]}, {"signal": "INT"}, {"line": "x"}, {"eof": True}]


# -- RB-018: the end of input on a terminal


@pytest.mark.parametrize(
    ("first", "shown"), [({"line": "foo"}, 2), ("foo", 2), (None, 0)], ids=["line", "begun", "none"]
)
def test_RB_018_end_of_input_ends_a_terminal_reader(desk: Desk, first: Any, shown: int) -> None:
    """Also in the middle of a line, where one EOF character only hands the line over."""
    handle = desk.spawn("cat", pty=True)
    if isinstance(first, dict):
        desk.apply(handle, first, wait="pattern", pattern="foo", view="tail", max_bytes=0)
    elif first is not None:  # cat prints nothing of a line that has not ended
        desk.apply(handle, first, wait="none", view="tail", max_bytes=0)
    state = desk.apply(handle, {"eof": True}, wait="stopped", view="all")
    assert state["exit"] == {"code": 0}
    assert text(state).count("foo") == shown


def test_RB_018_end_of_input_follows_all_input(desk: Desk) -> None:
    handle = desk.spawn(sh="stty -echo; echo READY; exec cat", pty=True)
    desk.fetch(handle, wait="pattern", pattern="READY")
    for n in range(20):
        desk.apply(handle, {"line": f"line {n}"}, wait="none", view="tail", max_bytes=0)
    state = desk.apply(handle, {"eof": True}, wait="stopped", view="all")
    assert text(state).split()[1:] == " ".join(f"line {n}" for n in range(20)).split()


def test_RB_018_end_of_input_ends_one_reader_only(desk: Desk) -> None:
    handle = desk.spawn(sh="cat; echo between; cat; echo after", pty=True)
    desk.apply(handle, {"line": "one"}, wait="none")
    desk.apply(handle, {"eof": True}, wait="pattern", pattern="between")
    desk.apply(handle, "two", wait="none")
    state = desk.apply(handle, {"eof": True}, wait="stopped", view="all")
    assert text(state).count("one") == text(state).count("two") == 2
    assert text(state).endswith("after\n")


def test_RB_018_end_of_input_ends_a_shell_and_a_repl(desk: Desk) -> None:
    for argv in (["bash", "--norc"], ["sh"], [sys.executable, "-q", "-S"]):
        handle = desk.spawn(*argv, pty=True, wait="input", timeout_ms=20_000)
        assert desk.last["waited"] == "input", argv
        state = desk.apply(handle, {"eof": True}, wait="stopped", timeout_ms=20_000)
        assert state["exit"] == {"code": 0}, argv


def test_RB_018_end_of_input_on_a_pipe_closes_the_pipe(desk: Desk) -> None:
    for first in ({"line": "foo"}, "foo"):
        handle = desk.spawn("cat")
        desk.apply(handle, first, wait="none", view="tail", max_bytes=0)
        state = desk.apply(handle, {"eof": True}, wait="stopped")
        assert state["exit"] == {"code": 0} and state["result"].rstrip("\n") == "foo"
    handle = desk.spawn(sh="cat; sleep 60")
    desk.apply(handle, {"eof": True}, wait="none")
    with pytest.raises(Refused) as caught:
        desk.apply(handle, "more")
    assert caught.value.code == NOT_TAKEN


# -- RB-020: input for a process that has ended, or does not read any more


@pytest.mark.parametrize("on_terminal", [False, True], ids=["pipe", "terminal"])
def test_RB_020_input_to_a_process_that_has_ended(desk: Desk, on_terminal: bool) -> None:
    handle = desk.spawn("true", pty=on_terminal, wait="stopped")
    for value in INTERRUPTS:
        with pytest.raises(Refused) as caught:
            desk.apply(handle, value)
        assert caught.value.code == ENDED
        assert caught.value.data["state"]["exit"] == {"code": 0}
    assert desk.wire.call("ping") == {"pong": True}


def test_RB_020_input_to_a_closed_stdin(desk: Desk, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
    handle = desk.spawn(sh=f"exec <&-; echo closed; {wait}; exit 3")
    desk.fetch(handle, wait="output")
    with pytest.raises(Refused) as caught:
        for _ in range(3):
            desk.apply(handle, {"line": "x"}, wait="none")
    assert caught.value.code == NOT_TAKEN and "input" in caught.value.message
    go.touch()
    assert desk.done(handle)["exit"] == {"code": 3}


def test_RB_020_a_closed_stdin_on_a_terminal_harms_nothing(desk: Desk, tmp_path: Path) -> None:
    """The terminal itself stays open; typed input waits for the next reader."""
    go = tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
    handle = desk.spawn(sh=f"exec <&-; echo closed; {wait}; exit 3", pty=True)
    desk.fetch(handle, wait="pattern", pattern="closed")
    for _ in range(3):
        desk.apply(handle, {"line": "x"}, wait="none")
    go.touch()
    assert desk.done(handle)["exit"] == {"code": 3}


def test_RB_020_input_to_a_shell_that_exits(desk: Desk) -> None:
    handle = desk.spawn("bash", "--norc", pty=True)
    state = desk.apply(handle, {"line": "set -euo pipefail; false"}, wait="stopped")
    assert state["exit"] == {"code": 1}
    with pytest.raises(Refused) as caught:
        desk.apply(handle, {"line": "echo hi"})
    assert caught.value.code == ENDED and caught.value.data["state"]["exit"] == {"code": 1}
    assert text(desk.done(desk.spawn("echo", "hi"))) == "hi\n"


# -- RB-021: a prompt


def test_RB_021_a_prompt_is_detected_and_answered(desk: Desk) -> None:
    sh = "printf 'Continue? [y/N] '; read a; echo got:$a"
    handle = desk.spawn(sh=sh, pty=True)
    state = desk.fetch(handle, wait="input")
    assert state["waited"] == "input"
    assert state["state"] == "running" and state["content"].endswith("Continue? [y/N] ")
    assert state["input_wanted"] == {"kind": "line", "prompt": "Continue? [y/N] "}
    state = desk.apply(handle, {"line": "y"}, wait="stopped")
    assert text(state).endswith("got:y\n") and state["exit"] == {"code": 0}


def test_RB_021_without_input_the_same_program_ends_by_itself(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """A tool that takes no input has none: its read ends at once."""
    daemon = make_daemon()
    ask = "printf 'Continue? [y/N] '; read a; echo got:$a"
    daemon.tools(
        f"[tools.ask]\nsource = 'local'\nruntime = 'stdio'\nstateful = true\n"
        f'actions = ["spawn", "fetch", "abort"]\ncommand = ["sh", "-c", "{ask}"]\n'
    )
    daemon.start()
    with daemon.connect() as wire:
        state = wire.call("spawn", tool="ask", id="a", wait="stopped", timeout_ms=20_000)
        assert state["result"] == "Continue? [y/N] got:\n" and state["exit"] == {"code": 0}


# -- RB-022: secrets


@pytest.mark.parametrize("early", [False, True], ids=["at the prompt", "before the prompt"])
def test_RB_022_a_secret_appears_nowhere(desk: Desk, early: bool) -> None:
    """No view, list, log or file of the daemon has the secret. An early secret is held until the
    program has turned the echo off: the reader would discard early input, and the terminal
    show the text."""
    handle = desk.spawn(sys.executable, str(FIXTURES / "latepass.py"), pty=True)
    if not early:
        state = desk.fetch(handle, wait="input", timeout_ms=20_000)
        assert state["content"].endswith("Password: ")
        assert state["input_wanted"] == {"kind": "secret", "prompt": "Password: "}
    secret = {"line": SECRET, "secret": True}
    state = desk.apply(handle, secret, wait="stopped", timeout_ms=20_000, view="all")
    assert state["exit"] == {"code": 0} and f"LEN {len(SECRET)}" in text(state)
    shown = [desk.fetch(handle, view=view) for view in ("all", "tail", "screen", "delta")]
    raw = base64.b64decode(desk.fetch(handle, view="raw", cursor=0)["content"])
    wire, daemon = desk.wire, desk.daemon
    listed = [desk.list(), wire.call("daemon/status"), wire.call("session/list")]
    assert SECRET not in repr([state, *shown, *listed]) and SECRET.encode() not in raw
    kept = [file for file in daemon.base.rglob("*") if file.is_file() and not file.is_socket()]
    assert daemon.log in kept and [file for file in kept if file.name == "audit.jsonl"]
    assert not [file for file in kept if SECRET.encode() in file.read_bytes()]


def test_RB_022_a_refused_secret_is_in_no_error(desk: Desk) -> None:
    handle = desk.spawn("true", pty=True, wait="stopped")
    for value in ({"line": SECRET, "secret": True}, {"line": SECRET, "secret": "yes"}):
        with pytest.raises(Refused) as caught:
            desk.apply(handle, value)
        assert SECRET not in f"{caught.value} {caught.value.data}"
    assert SECRET not in desk.daemon.log_text()


# -- RB-024: the daemon's own terminal


def test_RB_024_a_child_cannot_reach_a_terminal_of_the_daemon(desk: Desk) -> None:
    state = desk.done(desk.spawn(sh="echo x > /dev/tty; echo rc=$?"))
    assert "rc=0" not in text(state) and "rc=" in text(state)


def test_RB_024_a_child_on_a_terminal_has_its_own_terminal(desk: Desk) -> None:
    state = desk.done(desk.spawn(sh="echo x > /dev/tty; echo rc=$?", pty=True))
    assert text(state) == "x\nrc=0\n"


def test_RB_024_the_daemon_keeps_its_terminal(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """In the foreground of a terminal, the daemon is never stopped by a child, and no program's
    output gets there."""
    daemon = make_daemon()
    pid, master = pty.fork()
    if pid == 0:
        os.chdir("/")
        os.execvpe(sys.executable, [sys.executable, "-m", "haftd"], daemon.env)
    try:
        until(daemon.is_up, "an answering daemon")
        with daemon.connect() as wire:
            desk = Desk(daemon, wire, "default")
            state = desk.done(
                desk.spawn(sh="bash -ic 'echo in' </dev/null; echo SEEN > /dev/tty; echo rc=$?")
            )
            assert "rc=" in text(state) and "rc=0" not in text(state)
            desk.done(desk.spawn("bash", "-lc", "echo in", pty=True))
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            assert fields[0] in (b"S", b"R"), "the daemon is stopped"
            assert os.tcgetpgrp(master) == pid
            wire.call("daemon/shutdown")
        printed = bytearray()
        try:
            while data := os.read(master, 4096):
                printed += data
        except OSError:
            pass  # how the end of a terminal reads
        assert b"SEEN" not in printed
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(master)


# -- RB-090: a secret at the prompt of a program that echoes typed input itself


EDITORS = {
    "bash": (("bash", "--norc", "-i"), "read -rs x; echo LEN ${#x}"),
    "bash, no pastes": (
        ("env", "TERM=dumb", "bash", "--norc", "-i"),
        "read -rs x; echo LEN ${#x}",
    ),
    "zsh": (("zsh", "-f"), "read -rs x; echo LEN ${#x}"),
    "python": (
        (sys.executable, "-q"),
        "import getpass; print('LEN', len(getpass.getpass()))",
    ),
}


@pytest.mark.parametrize("name", EDITORS)
def test_RB_090_a_secret_waits_at_the_prompt_of_a_program_that_echoes_itself(
    desk: Desk, name: str
) -> None:
    argv, asks = EDITORS[name]
    if not shutil.which(argv[0]):
        pytest.skip(f"no {argv[0]}")
    handle = desk.spawn(*argv, pty=True, wait="input", timeout_ms=20_000)
    state = desk.apply(handle, {"line": SECRET, "secret": True}, timeout_ms=200)
    assert state["state"] == "running" and state["input_wanted"]["kind"] != "secret"
    desk.apply(handle, {"signal": "INT"}, wait="input")
    state = desk.apply(handle, {"line": asks}, wait="none")
    state = desk.apply(
        handle, {"line": SECRET, "secret": True}, wait="pattern", pattern="LEN [0-9]"
    )
    assert state["waited"] == "matched"
    state = desk.fetch(handle, view="all", wait="input")
    assert f"LEN {len(SECRET)}" in text(state) and SECRET not in text(state)
    assert SECRET not in desk.fetch(handle, cursor=0, view="raw")["content"]
    desk.abort(handle, grace_ms=0)
