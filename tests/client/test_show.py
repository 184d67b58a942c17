from __future__ import annotations

import io
import os
from typing import Any

import pytest
from msgspec import to_builtins

from haft.cli import show
from haft_protocol.questions import Boolean, Choice, Form, Question, Secret, Select, Text
from haft_protocol.states import (
    EndedBy,
    Exit,
    HandleState,
    InputWanted,
    LeftBehind,
    Pending,
    Running,
    Screen,
    Stopped,
    ToolError,
    Truncated,
    Waiting,
)
from haftd.core.termination import Termination, failure_of


def json_of(value: object) -> dict[str, Any]:
    decoded: dict[str, Any] = to_builtins(value)
    return decoded


def running(*, suspended: bool) -> Running:
    return Running(
        id="build",
        tool="run",
        session="default",
        cursor=0,
        generation=1,
        elapsed_ms=1200,
        content="",
        suspended=suspended,
    )


def test_a_stopped_program_is_shown_as_suspended_with_a_hint() -> None:
    assert show.state_word(json_of(running(suspended=True))) == "suspended"
    line = show.state_line(json_of(running(suspended=True)))
    assert line.startswith("build: suspended, 1.2 s") and "haft apply build --signal CONT" in line
    assert show.state_word(json_of(running(suspended=False))) == "running"
    assert show.state_line(json_of(running(suspended=False))) == "build: running, 1.2 s"


def of(kind: Any, **fields: Any) -> Any:
    fields = {"id": "b", "tool": "t", "session": "s", "cursor": 0, "generation": 1, **fields}
    return kind(**{"elapsed_ms": 1200, **fields})


def reads(kind: Any, prompt: str, certain: bool) -> HandleState:
    return of(Running, content="", input_wanted=InputWanted(kind, prompt, certain))  # type: ignore[no-any-return]


def stopped(by: Any = "exit", client: str | None = None, **fields: Any) -> HandleState:
    ended = EndedBy(by) if client is None else EndedBy(by, client)
    return of(Stopped, ended_by=ended, **fields)  # type: ignore[no-any-return]


FAILED = ToolError("no\nway")
LOST = ToolError("haftd ended; start it again.", transient=True)
AGAIN = ToolError("busy", transient=True)
EXITED = failure_of(Termination(exit=Exit(code=1)))
DENIED = failure_of(Termination(exit=Exit(code=1), hint="An access was denied."))
LIMITED = failure_of(Termination(by=EndedBy("limit"), exit=Exit(signal="TERM"), limit="wall_s"))
LEFT = (LeftBehind(7, "sleep 5"), LeftBehind(8, "x" * 61))


@pytest.mark.parametrize(
    ("state", "word", "line", "colour"),
    [
        (of(Pending, content=""), "pending", "pending, 1.2 s", "dim"),
        (of(Running, content="", input_wanted=None), "running", "running, 1.2 s", "dim"),
        (reads("line", "Name? ", True), "running", "running, 1.2 s, reads a line: Name?", "dim"),
        (reads("key", "", False), "running", "running, 1.2 s, may read a key", "dim"),
        (
            of(Waiting, content="", question=Question(id="q", text="Go\ton?", answer_type=Boolean())),
            "waiting",
            "waiting, 1.2 s, asks: Go on? [yes/no]",
            "yellow",
        ),
        (stopped(exit=Exit(code=2), result=""), "exit 2", "stopped, exit 2, 1.2 s", "green"),
        (stopped(exit=Exit(signal="TERM"), result=""), "signal TERM", "stopped, signal TERM, 1.2 s", "green"),
        (stopped("daemon_stopped", result=""), "daemon stopped", "stopped, ended by daemon stopped, 1.2 s", "green"),
        (
            stopped("abort", "ed", exit=Exit(signal="KILL"), result=""),
            "signal KILL",
            "stopped, signal KILL, ended by abort by ed, 1.2 s",
            "green",
        ),
        (stopped(result=""), "stopped", "stopped, 1.2 s", "green"),
        (stopped(error=FAILED), "failed", "stopped, failed: no way, 1.2 s", "red"),
        (stopped(error=FAILED, exit=Exit(code=1)), "exit 1", "stopped, exit 1, failed: no way, 1.2 s", "red"),
        (stopped(error=EXITED, exit=Exit(code=1), content=""), "exit 1", "stopped, exit 1, 1.2 s", "red"),
        (
            stopped(error=DENIED, exit=Exit(code=1), content=""),
            "exit 1",
            "stopped, exit 1, failed: An access was denied, 1.2 s",
            "red",
        ),
        (
            stopped(by="limit", error=LIMITED, exit=Exit(signal="TERM"), content=""),
            "signal TERM",
            "stopped, signal TERM, ended by limit, failed: It was ended because it exceeded its limit `wall_s`, 1.2 s",
            "red",
        ),
        (
            stopped(by="lost", error=LOST),
            "lost",
            "stopped, ended by lost, failed: haftd ended; start it again, 1.2 s",
            "red",
        ),
        (
            stopped(error=AGAIN, exit=Exit(code=1), content=""),
            "exit 1",
            "stopped, exit 1, failed: busy (may succeed if tried again), 1.2 s",
            "red",
        ),
        (of(Running, content="", omitted=5), "running", "running, 1.2 s, 5 bytes left out", "dim"),
        (
            stopped(result="", truncated=Truncated(9, 4, "/f"), output_complete=False),
            "stopped",
            "stopped, 1.2 s, 4 of 9 bytes shown, all of it in /f, output not complete",
            "green",
        ),
        (
            stopped(result="", truncated=Truncated(9, 4, None), output_complete=True, left_behind=(), unconfirmed=()),
            "stopped",
            "stopped, 1.2 s, 4 of 9 bytes shown",
            "green",
        ),
        (
            stopped(result="", left_behind=LEFT, unconfirmed=(9, 10)),
            "stopped",
            f"stopped, 1.2 s, still runs: 7 sleep 5, 8 {'x' * 59}…, could not be ended: 9, 10",
            "green",
        ),
    ],
)  # fmt: skip
def test_a_state_is_a_word_a_line_and_a_colour(
    state: HandleState, word: str, line: str, colour: str
) -> None:
    assert (show.state_word(json_of(state)), show.state_line(json_of(state))) == (
        word,
        f"b: {line}",
    )
    assert show._colour(json_of(state)) == colour
    assert show.failed(json_of(state)) is (colour == "red")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Select(("a", "b" * 61)), f"[a | {'b' * 59}…]"),
        (Form({"x": Choice(("1", "2")), "y": Choice((True,))}), "[x=1|2 y=True]"),
        (Secret(), "[a secret]"),
        (Text(), "[text]"),
    ],
)
def test_a_question_is_shown_with_the_answers_that_it_takes(kind: object, text: str) -> None:
    assert show.takes(json_of(kind)) == text


@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [
        (0.04, "0.0 s", "0.0s"),
        (59.9, "59.9 s", "59.9s"),
        (60, "1 min 0 s", "1m0s"),
        (3599.9, "59 min 59 s", "59m59s"),
        (3600, "1 h 0 min", "1h0m"),
        (48 * 3600 - 1, "47 h 59 min", "47h59m"),
        (48 * 3600, "2 d 0 h", "2d0h"),
        (49 * 3600, "2 d 1 h", "2d1h"),
    ],
)
def test_a_duration_is_shown_in_two_units(seconds: float, long: str, short: str) -> None:
    assert (show.duration(seconds), show.short_duration(seconds)) == (long, short)


@pytest.mark.parametrize(
    ("size", "long", "short"),
    [
        (0, "0 B", "0B"),
        (1023, "1023 B", "1023B"),
        (1024, "1.0 KiB", "1.0K"),
        (99.9 * 1024, "99.9 KiB", "99.9K"),
        (100 * 1024, "100 KiB", "100K"),
        (1024**2, "1.0 MiB", "1.0M"),
        (1024**3, "1.0 GiB", "1.0G"),
        (5000 * 1024**3, "5000 GiB", "5000G"),
    ],
)
def test_an_amount_is_shown_in_a_binary_unit(size: float, long: str, short: str) -> None:
    assert (show.amount(size), show.short_amount(size)) == (long, short)


def test_a_text_of_a_program_is_one_line_of_a_bounded_length() -> None:
    assert show.plain(" a\x1b[1mb\n") == "a [1mb"
    assert show.plain("x" * 300) == "x" * 300
    assert show.plain("x" * 301) == "x" * 299 + "…"


@pytest.mark.parametrize(
    ("value", "width"),
    [("79", 79), ("1", 1), ("0", 80), ("", 80), ("-5", 80), ("99999", 99999), ("100000", 80)],
)
def test_the_width_is_that_of_the_environment_else_80(
    value: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", value)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert show.columns() == width


def test_a_screen_is_its_rows_or_the_changed_ones() -> None:
    screen = Screen(3, 9, (0, 0), False, "", 1, 0, ("a  ", "", "b", " ", ""))
    assert show._screen(json_of(screen)) == "a\n\nb\n"
    changed = Screen(3, 9, (0, 0), False, "", 1, 0, (), {"0": "a ", "2": ""})
    assert show._screen(json_of(changed)) == "0: a\n2: \n"


class Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("when", "is_terminal", "env", "coloured"),
    [
        ("auto", True, {"TERM": "xterm"}, True),
        ("auto", True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        ("auto", True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {}, False),
        ("auto", False, {"TERM": "xterm"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"TERM": "xterm"}, False),
    ],
)
def test_an_option_goes_before_the_environment_and_the_terminal(
    when: show.When,
    is_terminal: bool,
    env: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    show.choose_colours(when)
    try:
        text = show.paint("text", "red", Stream(is_terminal=is_terminal))
    finally:
        show.choose_colours("auto")
    assert text == ("\x1b[31mtext\x1b[0m" if coloured else "text")


def test_the_rest_of_the_output_is_discarded_and_errors_are_not() -> None:
    saved = [os.dup(fd) for fd in (1, 2)]
    try:
        show.discard_rest()
        assert os.path.samestat(os.fstat(1), os.stat(os.devnull))
        assert os.path.samestat(os.fstat(2), os.fstat(saved[1]))
    finally:
        for fd, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, fd)
            os.close(copy)
