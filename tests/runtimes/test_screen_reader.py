"""A screen is read in one step as by the library's own single calls."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from haftd.runtimes.terminal import screen_reader
from haftd.runtimes.terminal.library import load
from haftd.runtimes.terminal.screen import Screen
from haftd.runtimes.terminal.variation import restore

from .drawn import new, session


def read_singly(screen: Screen) -> screen_reader.Contents:
    terminal: Any = screen._open()
    col, row = terminal.cursor
    return screen_reader.Contents(
        restore(terminal.text()).split("\n"),
        (row, col),
        terminal.get("active_screen", "GhosttyTerminalScreen") != 0,
        terminal.get("scrollback_rows", "size_t"),
        screen._title(),
    )


@given(session)
def test_a_screen_is_read_as_by_single_calls(data: bytes) -> None:
    screen = new()
    screen.queue(data)
    while screen.draw():
        pass
    rows, cols = screen._drawn_size
    contents = screen_reader.read_screen(load(), screen._open()._t[0], rows, cols)
    assert contents == read_singly(screen)
    screen.close()


def test_a_screen_larger_than_the_buffer_is_read_whole() -> None:
    screen = Screen(100, 300, lambda reply: None)
    screen.queue("ü".encode() * 30_000)
    while screen.draw():
        pass
    contents = screen_reader.read_screen(load(), screen._open()._t[0], 100, 300)
    assert contents.lines == ["ü" * 300] * 100
    screen.close()
