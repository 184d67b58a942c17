"""A painted screen equals the screen: on an empty terminal the painting gives the same picture
and modes, and later output continues seamlessly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from haftd.runtimes.terminal import paint
from haftd.runtimes.terminal.library import load
from haftd.runtimes.terminal.screen import Screen
from tests.effort import examples

from .drawn import modes, new, session


def painted(screen: Screen) -> Screen:
    """A fresh screen that `screen` was painted on."""
    other = new(rows=screen.snapshot().rows, cols=screen.snapshot().cols)
    other.feed(screen.paint())
    return other


def drawn(data: bytes, rows: int = 8, cols: int = 30) -> Screen:
    screen = new(rows=rows, cols=cols)
    screen.feed(data)
    return screen


def alike(one: Screen, other: Screen) -> None:
    """Check that both screens and their modes are equal."""
    shown, again = one.snapshot(), other.snapshot()
    assert replace(again, revision=0, scrollback=0) == replace(shown, revision=0, scrollback=0)
    assert modes(other) == modes(one)


@settings(max_examples=examples(60))
@given(session)
def test_a_painted_screen_equals_the_screen(data: bytes) -> None:
    screen = drawn(data)
    alike(screen, painted(screen))


@settings(max_examples=examples(40))
@given(session)
def test_a_painting_of_a_painting_is_the_same_bytes(data: bytes) -> None:
    once = painted(drawn(data)).paint()
    assert painted(drawn(once)).paint() == once


def test_only_the_visible_part_of_a_title_is_painted() -> None:
    """A title ends at the first byte that could end it early."""
    screen = drawn(b"\x1b]2;plain\x1b\\")
    handle = screen._terminal._t[0]
    given = paint.paint(load(), handle, "a\x07\x1b[2Jb\x9cc\u202ed", unfinished=False)
    assert b"\x1b]2;a[2Jbcd\x1b\\" in given
    assert b"\x1b]2;" not in paint.paint(load(), handle, "\x07", unfinished=False)


@pytest.mark.soak
@settings(max_examples=20_000)
@given(session)
def test_any_drawn_screen_equals_its_painting(data: bytes) -> None:
    screen = drawn(data)
    alike(screen, painted(screen))


STEADY = (
    b"$ ls\r\n\x1b[1;34mfolder\x1b[0m  file\r\n\x1b]2;a \xc3\xa9 title\x07\x1b[?2004h\x1b[?1h\x1b="
    b"$ \x1b[?1049h\x1b[2J\x1b[2;7r\x1b[3;3H\xe6\xbc\xa2\xe5\xad\x97 \x1b[38;2;1;2;3mtext\x1b[0m"
    b"\x1b[?1002h\x1b[?1006h\x1b[>5u\x1b[8;1H\x1b[7m status \x1b[K\x1b[0m\x1b[4;5H\x1b[?25l"
)


@given(st.integers(0, len(STEADY)))
def test_later_output_continues_a_painting_at_any_cut(cut: int) -> None:
    """Also in the middle of an escape, and of a character."""
    screen = drawn(STEADY[:cut])
    other = painted(screen)
    other.feed(STEADY[cut:])
    screen.feed(STEADY[cut:])
    alike(screen, other)


def test_a_long_unterminated_escape_is_left_out() -> None:
    screen = drawn(b"ab\x1b]0;" + b"x" * 100_000)
    assert screen.paint() == b"ab\x1b[1;3H\x1b[0m"


def test_the_primary_screen_lies_below_the_alternate_one() -> None:
    for enter, leave in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?1047h", b"\x1b[?1047l")):
        screen = drawn(
            b"before\r\n\x1b[44m\x1b[K\x1b[0m\r\n$ \x1b[31m" + enter + b"\x1b[H\x1b[0mvim"
        )
        other = painted(screen)
        alike(screen, other)
        for one in (screen, other):
            one.feed(leave)
        alike(screen, other)
        assert other.snapshot().lines[:3] == ("before", "", "$")
        for one in (screen, other):
            assert b"48;5;4m" in one.paint()
            if leave == b"\x1b[?1049l":
                assert one.paint().endswith(b"\x1b[3;3H\x1b[0m\x1b[38;5;1m")


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (b"\x1b[41m\x1b[2J", b"\x1b[0;48;5;1m" + b" " * 30),
        (b"\x1b[48;2;1;2;3m\x1b[3;5H\x1b[4X", b"\x1b[3;1H\x1b[4C\x1b[0;48;2;1;2;3m    "),
        (b"a\x1b[44m\x1b[K", b"\x1b[0m\x1b[48;5;4m" + b" " * 29),
        (b"   \x1b[44m\x1b[K", b"\x1b[3C\x1b[0;48;5;4m" + b" " * 27),
        (b"\x1b[7m    \x1b[0m", b"\x1b[7m    "),
        (b"\x1b[4 q", b"\x1b[4 q"),
        (b"\x1b[5 q", b"\x1b[5 q"),
        (b"\x1b[?1h\x1b=", b"\x1b[?1h\x1b="),
        (b"\x1b[>4;2m", b"\x1b[>4;2m"),
        (b"\x1b(0q", b"\x1b(0"),
        (b"\x1b[3g\x1b[1;5H\x1bH", b"\x1b[3g\x1b[5G\x1bH\x1b[H"),
        (b"\x1b[2;5r\x1b[?6h\x1b[2;3H", b"\x1b[2;5r\x1b[?6h\x1b[2;3H"),
        (b"\x1b[?69h\x1b[4;9s\x1b[?6h\x1b[2;3H", b"\x1b[?69h\x1b[4;9s\x1b[?6h\x1b[2;3H"),
        (b"\x1b]0;one\x1b]0;two\x07", b"\x1b]2;two\x1b\\"),
    ],
)
def test_everything_drawn_is_painted(data: bytes, kept: bytes) -> None:
    screen = drawn(data)
    assert kept in screen.paint()
    alike(screen, painted(screen))


@pytest.mark.parametrize(
    "data", [b"\x1b[?2026hx\x1b[?2026l", b"x", b"x\x1b[41m\x1b[0m", b"x\x1b[?7l\x1b[?7h"]
)
def test_nothing_undrawn_is_painted(data: bytes) -> None:
    assert drawn(data).paint() == b"x\x1b[1;2H\x1b[0m"


def test_lines_above_the_screen_are_not_painted() -> None:
    screen = drawn(b"\r\n".join(b"line %d" % number for number in range(50)))
    assert screen.snapshot().scrollback == 42
    assert b"line 41" not in screen.paint()
    alike(screen, painted(screen))


def test_the_last_screen_stays_paintable() -> None:
    screen = drawn(STEADY)
    before = screen.paint()
    assert screen.close() is not None
    assert screen.paint() == before
    cut = drawn(STEADY + b"\x1b[3")
    cut.close()
    assert cut.paint() == before


@pytest.mark.parametrize(("rows", "cols"), [(200, 100), (250, 400), (1000, 3)])
@pytest.mark.parametrize("ended", [False, True])
def test_a_large_screen_is_painted_with_all_its_text(rows: int, cols: int, ended: bool) -> None:
    screen = Screen(rows, cols, lambda reply: None)
    screen.feed(b"\x1b[?1049h\x1b[31mred\x1b[0m\r\n")
    screen.feed(b"".join(b"\x1b[%d;1H\x1b[4%dm%d" % (n, n % 8, n % 99) for n in range(2, rows + 1)))
    screen.feed(b"\x1b[9;2H")
    before = screen.snapshot()
    if ended:
        screen.close()
    copy = Screen(rows, cols, lambda reply: None)
    copy.feed(screen.paint())
    after = copy.snapshot()
    assert (after.lines, after.cursor, after.alt) == (before.lines, before.cursor, True)
    assert b"[38;5;1mred" in screen.paint()


def test_styles_end_where_painting_them_is_costly() -> None:
    """The text of all rows is painted, and the styles of the top rows."""
    rows, cols = 300, 100
    screen = Screen(rows, cols, lambda reply: None)
    for row in range(rows):
        cells = (b"\x1b[38;2;%d;%d;7mx" % (row % 256, col) for col in range(cols))
        screen.feed(b"\x1b[%d;1H" % (row + 1) + b"".join(cells))
    painted = screen.paint()
    assert len(painted) < 600_000
    assert b"38;2;0;99;7" in painted and b"38;2;200;99;7" not in painted
    copy = Screen(rows, cols, lambda reply: None)
    copy.feed(painted)
    assert copy.snapshot().lines == ("x" * cols,) * rows


def test_few_cells_without_text_are_styled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    colour = paint._Picture._colour

    def watched(picture: paint._Picture, cell: int) -> bytes | None:
        asked.append(cell)
        return colour(picture, cell)

    monkeypatch.setattr(paint._Picture, "_colour", watched)
    screen = Screen(50, 200, lambda reply: None)
    for row in range(50):
        cells = (b"\x1b[48;2;%d;%d;7m\x1b[X\x1b[C" % (row, col) for col in range(200))
        screen.feed(b"\x1b[%d;1H" % (row + 1) + b"".join(cells))
    screen.close()
    assert b"48;2;0;199;7" in screen.paint()
    assert len(asked) <= 800 + 200


@settings(max_examples=examples(40))
@given(session)
def test_styled_rows_have_the_text_of_the_screen(data: bytes) -> None:
    screen = drawn(data)
    rows = screen.styled_rows()
    assert rows is not None
    texts = ["".join(text for text, _ in row).rstrip(" ") for row in rows]
    assert texts == [line.rstrip(" ") for line in screen.snapshot().lines]


def test_each_run_has_the_style_of_its_cells_and_coloured_blanks_stay() -> None:
    data = (
        b"\x1b[1;31mbold\x1b[0m plain\r\n\x1b[7mstatus  \x1b[0m\r\n\x1b[44m\x1b[K\x1b[0m\r\n"
        b"\x1b[4;38;5;200m" + b"x" * 12 + b"\x1b[0m"
    )
    assert drawn(data, rows=6, cols=10).styled_rows() == (
        (("bold", "1;38;5;1"), (" plain", "")),
        (("status  ", "7"),),
        ((" " * 10, "48;5;4"),),
        (("x" * 10, "4;38;5;200"),),
        (("xx", "4;38;5;200"),),
        (),
    )
    assert drawn(data, rows=250, cols=100).styled_rows() is None
