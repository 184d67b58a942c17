"""The emoji presentation selector U+FE0F is kept in every view of a terminal."""

from __future__ import annotations

import pytest

from haftd.runtimes.terminal.screen import Screen

from .drawn import new
from .test_transcript import deltas, read

KEYCAP, HEART = "1\ufe0f\u20e3", "\u2764\ufe0f"
SHOWN = f"{KEYCAP} #\ufe0f {HEART}."


def texts_of(screen: Screen) -> list[str]:
    """Return the first row of a snapshot, of a painting, and of the last picture."""
    live = screen.snapshot().lines[0]
    painted = screen.paint().decode()
    last = screen.close()
    assert last is not None
    return [live, painted, last.lines[0], screen.paint().decode()]


@pytest.mark.parametrize("mode", ["", "\x1b[?2027h", "\x1b[?2027h\x1b[?2027l", "\x1b[?2027h\x1bc"])
def test_the_selector_is_kept_in_text_screen_and_paint(mode: str) -> None:
    assert read(f"{mode}gone\r{SHOWN}".encode()) == SHOWN
    screen = new([], rows=2, cols=20)
    screen.feed(f"\x1b[m{mode}{SHOWN}".encode())
    live, painted, last, last_painted = texts_of(screen)
    assert live == last == SHOWN
    assert SHOWN in painted and SHOWN in last_painted


def test_the_selector_is_kept_in_deltas_and_a_title() -> None:
    assert deltas(f"{KEYCAP} 1%".encode(), f"\r{KEYCAP} 2%".encode()) == [
        f"{KEYCAP} 1%",
        f"{KEYCAP} 2%",
    ]
    screen = new([], rows=2, cols=20)
    screen.feed(f"\x1b]2;{SHOWN}\x07".encode())
    assert screen.snapshot().title == SHOWN


def test_a_selector_byte_by_byte_is_kept() -> None:
    screen = new([], rows=2, cols=20)
    for byte in f"\x1b[m{SHOWN}".encode():
        screen.feed(bytes([byte]))
        screen.catch_up()
    assert screen.snapshot().lines[0] == SHOWN


@pytest.mark.parametrize(("mode", "column"), [("", 1), ("\x1b[?2027h", 2)])
def test_the_selectors_width_follows_the_mode(mode: str, column: int) -> None:
    screen = new([], rows=2, cols=20)
    screen.feed(f"\x1b[m{mode}{KEYCAP}".encode())
    assert screen.snapshot().cursor == (0, column)
