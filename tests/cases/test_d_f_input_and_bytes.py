"""Public reports, groups D (stdin; the forms without prompts of a terminal) and F (bytes)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.conftest import Desk, text
from tests.running import RunningDaemon
from tests.wire import Refused

DRIP = r"""
import os, time
for piece in (b"a\xe2", b"\x89", b"\xa4z\n"): os.write(1, piece); time.sleep(0.1)
"""


def test_RB_018_end_of_input(desk: Desk) -> None:
    for first in ({"line": "foo"}, "foo"):
        handle = desk.spawn("cat", pty=True)
        desk.apply(handle, first, wait="pattern", pattern="foo", view="tail", max_bytes=0)
        desk.apply(handle, {"eof": True}, wait="stopped")
        state = desk.done(handle)
        assert state["exit"] == {"code": 0} and "foo" in text(state)
    handle = desk.spawn("cat")
    desk.apply(handle, "foo", wait="none")
    state = desk.apply(handle, {"eof": True}, wait="stopped")
    assert state["exit"] == {"code": 0} and state["result"] == "foo"


def test_RB_020_input_to_a_process_that_has_ended(desk: Desk) -> None:
    handle = desk.spawn("true", wait="stopped")
    with pytest.raises(Refused) as caught:
        desk.apply(handle, "\x03")
    assert caught.value.code == -32008 and caught.value.data["state"]["exit"] == {"code": 0}


def test_RB_020_input_to_a_closed_stdin(desk: Desk, tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
    handle = desk.spawn(sh=f"exec <&-; echo closed; {wait}; exit 3")
    desk.fetch(handle, wait="output")
    with pytest.raises(Refused) as caught:
        for _ in range(3):
            desk.apply(handle, {"line": "x"}, wait="none")
    assert caught.value.code == -32004 and "input" in caught.value.message
    go.touch()
    assert desk.done(handle)["exit"] == {"code": 3}


def test_RB_020_a_shell_that_ends_itself(desk: Desk) -> None:
    handle = desk.spawn("bash", "--norc", pty=True)
    state = desk.apply(handle, {"line": "set -euo pipefail; false"}, wait="stopped")
    assert state["exit"] == {"code": 1}
    with pytest.raises(Refused, match="-32008"):
        desk.apply(handle, {"line": "echo hi"})
    assert text(desk.done(desk.spawn("echo", "hi"))) == "hi\n"


def test_RB_021_a_prompt_is_seen_and_answered(desk: Desk) -> None:
    sh = "printf 'Continue? [y/N] '; read a; echo got:$a"
    handle = desk.spawn(sh=sh, pty=True)
    state = desk.fetch(handle, wait="input")
    assert state["waited"] == "input"
    assert state["state"] == "running" and state["content"].endswith("Continue? [y/N] ")
    state = desk.apply(handle, {"line": "y"}, wait="stopped")
    assert "got:y" in text(state) and state["exit"] == {"code": 0}


def test_RB_024_a_child_cannot_reach_a_terminal_of_the_daemon(desk: Desk) -> None:
    state = desk.done(desk.spawn(sh="echo x > /dev/tty; echo rc=$?"))
    assert "rc=0" not in text(state) and "rc=" in text(state)


def test_RB_031_a_character_that_comes_in_pieces_stays_whole(desk: Desk) -> None:
    handle = desk.spawn(sys.executable, "-S", "-c", DRIP)
    parts = []
    while True:
        state = desk.fetch(handle, wait="output", timeout_ms=5000)
        parts.append(text(state))
        if state["state"] == "stopped":
            break
    assert "".join(parts) == "a≤z\n"


def test_RB_031_a_limit_never_cuts_a_character(desk: Desk) -> None:
    handle = desk.spawn(sh=r"printf 'AAAA\342\202\254BBBB'", wait="stopped")
    for more in ({"max_bytes": 5}, {"max_bytes": 6, "cursor": 0}, {"max_bytes": 6, "view": "tail"}):
        state = desk.fetch(handle, **more)
        assert "\ufffd" not in text(state)
        assert state["omitted"] > 0
    assert text(desk.fetch(handle, view="all")) == "AAAA€BBBB"


def test_RB_031_an_unfinished_character_at_the_end_is_shown_once(desk: Desk) -> None:
    assert text(desk.done(desk.spawn(sh=r"printf 'A\342\202'"))) == "A\ufffd"


def test_RB_032_bytes_that_are_no_text(desk: Desk) -> None:
    state = desk.done(desk.spawn(sh=r"printf '\377\376\000\001ok\n'"))
    assert state["exit"] == {"code": 0}
    assert text(state) == "\ufffd\ufffd\x00\x01ok\n"
    state = desk.done(desk.spawn(sh="head -c 65536 /dev/urandom"))
    assert state["cursor"] == 65536 and "\ufffd" in text(state)
    assert desk.wire.call("ping") == {"pong": True}


def test_RB_024_the_daemon_keeps_its_terminal(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    """Started in the foreground of a terminal, it is never stopped by what it starts."""
    import os
    import pty

    daemon = make_daemon()
    pid, master = pty.fork()
    if pid == 0:
        os.chdir("/")
        os.execvpe(sys.executable, [sys.executable, "-m", "haftd"], daemon.env)
    try:
        end = time.monotonic() + 20
        while not daemon.socket.exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        with daemon.connect() as wire:
            desk = Desk(daemon, wire, "default")
            state = desk.done(
                desk.spawn(sh="bash -ic 'echo in' </dev/null; echo x > /dev/tty; echo rc=$?")
            )
            assert "rc=" in text(state) and "rc=0" not in text(state)
            desk.done(desk.spawn("bash", "-lc", "echo in", pty=True))
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            assert fields[0] in (b"S", b"R"), "the daemon is stopped"
            assert os.tcgetpgrp(master) == pid
            wire.call("daemon/shutdown")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(master)
