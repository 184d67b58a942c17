from __future__ import annotations

import base64
import sys
from collections.abc import Callable

import pytest

from tests.cases.conftest import Desk, text
from tests.running_daemon import RunningDaemon

MARKED = (
    r"\033[31mred\033[0m \033]8;;http://x.invalid\033\\link\033]8;;\033\\ "
    r"\033]0;title\007\033]633;C\007\033[?25l\033(Bend\n"
)
MARKED_BYTES = (
    b"\x1b[31mred\x1b[0m \x1b]8;;http://x.invalid\x1b\\link\x1b]8;;\x1b\\ "
    b"\x1b]0;title\x07\x1b]633;C\x07\x1b[?25l\x1b(Bend\n"
)
PIECES = r"""
import os, time
for piece in (b"A\x1b", b"[3", b"1mB\x1b]8;;u", b"\x07C\n"):
    os.write(1, piece); time.sleep(0.1)
"""
on_both = pytest.mark.parametrize("on_terminal", [False, True], ids=["pipe", "terminal"])


def raw(desk: Desk, handle: str) -> bytes:
    """Every byte that the program printed."""
    state = desk.fetch(handle, view="raw", cursor=0, max_bytes=1 << 24)
    return base64.b64decode(state["content"])


# -- RB-039: escape sequences


@on_both
def test_RB_039_text_is_free_of_escapes_and_raw_has_every_byte(
    desk: Desk, on_terminal: bool
) -> None:
    handle = desk.spawn(sh=f"printf '{MARKED}'", pty=on_terminal, wait="stopped")
    for more in ({"view": "delta"}, {"view": "all"}, {"view": "tail"}, {"cursor": 0}):
        assert text(desk.fetch(handle, **more)) == "red link end\n"
    end = b"\r\n" if on_terminal else b"\n"
    assert raw(desk, handle) == MARKED_BYTES.replace(b"\n", end)


@on_both
def test_RB_039_a_sequence_in_pieces_is_one(desk: Desk, on_terminal: bool) -> None:
    handle = desk.spawn(sys.executable, "-S", "-c", PIECES, pty=on_terminal)
    parts: list[str] = []
    while True:
        state = desk.fetch(handle, wait="output", timeout_ms=5000)
        parts.append(text(state))
        if state["state"] == "stopped":
            break
    assert "".join(parts) == "ABC\n"


def test_RB_039_forced_colour_reaches_no_text(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    forced = {"FORCE_COLOR": "3", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color"}
    daemon = make_daemon(env=forced).start()
    script = "if [ -n \"$FORCE_COLOR$CLICOLOR_FORCE\" ]; then printf '\\033[31mred\\033[0m\\n'; else echo red; fi"
    with daemon.connect() as wire:
        desk = Desk(daemon, wire, "default")
        for on_terminal in (False, True):
            handle = desk.spawn(sh=script, pty=on_terminal, wait="stopped")
            assert text(desk.fetch(handle)) == "red\n"
        handle = desk.spawn(sh='echo "$NO_COLOR $TERM"', wait="stopped")
        assert text(desk.fetch(handle)) == "1 dumb\n"


def test_RB_039_shell_integration_marks_hide_neither_prompt_nor_end(desk: Desk) -> None:
    handle = desk.spawn("bash", "--norc", "--noediting", pty=True, wait="input")
    marks = r"PS1='\[\e]133;A\a\]$ \[\e]133;B\a\]'; PS0='\e]133;C\a'"
    desk.apply(handle, {"line": marks}, wait="input", timeout_ms=20_000)
    state = desk.apply(handle, {"line": "echo h''i"}, wait="input", timeout_ms=20_000)
    assert state["waited"] == "input"
    assert state["content"] == "echo h''i\nhi\n$ "
    assert state["input_wanted"]["prompt"] == "$ "


# -- RB-041: the size


def test_RB_041_a_terminal_has_its_size_from_the_first_moment(desk: Desk) -> None:
    handle = desk.spawn(sh="stty size; tput cols", pty=True, rows=40, cols=200)
    assert text(desk.done(handle)) == "40 200\n200\n"
    assert text(desk.done(desk.spawn(sh="stty size", pty=True))) == "24 80\n"


def test_RB_041_a_resize_reaches_the_program(desk: Desk) -> None:
    script = "trap 'stty size; exit' WINCH; echo READY; while :; do sleep 0.05; done"
    handle = desk.spawn(sh=script, pty=True)
    desk.fetch(handle, wait="pattern", pattern="READY", cursor=0)
    desk.apply(handle, {"resize": {"rows": 33, "cols": 101}}, wait="none")
    state = desk.done(handle, view="all")
    assert text(state) == "READY\n33 101\n"


def test_RB_041_the_environment_does_not_contradict_the_size(
    make_daemon: Callable[..., RunningDaemon],
) -> None:
    daemon = make_daemon(env={"COLUMNS": "37", "LINES": "11"}).start()
    show = "import os, shutil; print(*shutil.get_terminal_size()); print(*os.environ)"
    with daemon.connect() as wire:
        desk = Desk(daemon, wire, "default")
        for on_terminal in (False, True):
            handle = desk.spawn(
                sys.executable, "-S", "-c", show, pty=on_terminal, rows=40, cols=200
            )
            size, names = text(desk.done(handle)).splitlines()
            assert size == ("200 40" if on_terminal else "80 24")
            assert not {"COLUMNS", "LINES"} & set(names.split())
