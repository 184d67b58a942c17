"""Modes of the person's terminal are reset, those that the process reset itself are not; notices."""

from __future__ import annotations

import pytest

from haft.cli.terminal.terminal_modes import TerminalModes, notice
from haftd.runtimes.terminal.screen import Screen


@pytest.mark.parametrize("digits", [6, 4_301, 60_000])
@pytest.mark.parametrize("way", [b"h", b"l"])
def test_an_invalid_mode_number_is_ignored(digits: int, way: bytes) -> None:
    modes = TerminalModes()
    drawn = b"\x1b[?" + b"9" * digits + b";;7;1" + way
    assert modes.note(drawn) == drawn
    undo = modes.undo()
    assert b"9" not in undo
    assert (b"\x1b[?1l" if way == b"h" else b"\x1b[?7h") in undo


@pytest.mark.parametrize(
    ("drawn", "undone"),
    [
        (b"\x1b[?1049h\x1b[?25l", [b"\x1b[?1049l", b"\x1b[?25h"]),
        (b"\x1b[?1000;1006h", [b"\x1b[?1000l", b"\x1b[?1006l"]),
        (b"\x1b[?2004h\x1b[?1004h", [b"\x1b[?2004l", b"\x1b[?1004l"]),
        (b"\x1b[4h", [b"\x1b[4l"]),
        (b"\x1b[?7l", [b"\x1b[?7h"]),
        (b"\x1b=", [b"\x1b>"]),
        (b"\x1b[>5u", [b"\x1b[<99u"]),
        (b"\x1b[>4;2m", [b"\x1b[>4m"]),
        (b"\x1b[5 q", [b"\x1b[0 q"]),
        (b"\x1b]11;#000000\x07", [b"\x1b]111\x1b\\"]),
    ],
)
def test_enabled_modes_are_reset(drawn: bytes, undone: list[bytes]) -> None:
    modes = TerminalModes()
    quiet = modes.undo()
    modes.note(drawn)
    undo = modes.undo()
    for one in undone:
        assert one in undo and one not in quiet
    assert modes.undo() == quiet


@pytest.mark.parametrize("drawn", [b"\x1b[?1049h\x1b[?1049l", b"\x1b[?25l\x1b[?25h", b"\x1b[31m"])
def test_modes_the_program_reset_itself_are_left_alone(drawn: bytes) -> None:
    modes = TerminalModes()
    modes.note(drawn)
    assert modes.undo() == TerminalModes().undo()


def test_a_notice_is_in_the_last_rows_and_the_cursor_stays() -> None:
    def shown(text: str, **options: bool) -> tuple[tuple[str, ...], tuple[int, int]]:
        screen = Screen(4, 10, lambda reply: None)
        screen.feed(b"one\r\ntwo" + notice(text, 4, 10, **options))
        shot = screen.snapshot()
        return shot.lines, shot.cursor

    assert shown("hi\x1bthere") == (("one", "two", "", "hi there"), (1, 3))
    assert shown("hello 世界 and") == (("one", "two", "hello 世", "界 and"), (1, 3))
    assert shown("a" * 50)[0] == ("one", "a" * 9, "a" * 9, "a" * 9)
    assert shown("a" * 50 + "?", asks=True) == (("one", "a" * 9, "a" * 9, "aaaaa?"), (3, 6))
