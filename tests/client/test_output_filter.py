"""Output drawn while attached: queries are removed, modes are reset, all else is unchanged. The
daemon's own screen judges the result."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft.cli.terminal import output_filter
from haft.cli.terminal.output_filter import OutputFilter, notice
from haft_protocol import terminal_queries
from haftd.runtimes.terminal.screen import Screen

QUERIES = [
    b"\x05",
    b"\x1bZ",
    b"\x1b[c",
    b"\x1b[0c",
    b"\x1b[>c",
    b"\x1b[=c",
    b"\x1b[5n",
    b"\x1b[6n",
    b"\x1b[?6n",
    b"\x1b[?996n",
    b"\x1b[?2026$p",
    b"\x1b[4$p",
    b"\x1b[>q",
    b"\x1b[>0q",
    b"\x1b[x",
    b"\x1b[14t",
    b"\x1b[18t",
    b"\x1b[21t",
    b"\x1b[?u",
    b"\x1b[?4m",
    b"\x1b[?1;1;0S",
    b"\x1b]10;?\x07",
    b"\x1b]11;?\x1b\\",
    b"\x1b]4;1;?\x07",
    b"\x1b]52;c;?\x07",
    b"\x1bP$qm\x1b\\",
    b"\x1bP+q544e\x1b\\",
    b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",
]
OTHERS = [
    b"text",
    "größe🦊".encode(),
    b"\x1b[1;31m",
    b"\x1b[2J",
    b"\x1b[10;20H",
    b"\x1b[?25l",
    b"\x1b[?1049h",
    b"\x1b[22;0t",
    b"\x1b[8;24;80t",
    b"\x1b[3;10r",
    b"\x1b[2 q",
    b"\x1b[>1u",
    b"\x1b]0;is it; ?\x07",
    b"\x1b]8;;http://x\x1b\\",
    b"\x1b]52;c;YWJj\x07",
    b"\x1b(B",
    b"\x1b7",
    b"\x1b=",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_removed(query: bytes) -> None:
    assert OutputFilter().draw(b"a" + query + b"b") == b"ab"


@pytest.mark.parametrize("other", OTHERS)
def test_all_other_output_stays(other: bytes) -> None:
    assert OutputFilter().draw(b"a" + other + b"b") == b"a" + other + b"b"


@given(st.lists(st.sampled_from([*QUERIES, *OTHERS]), max_size=12), st.data())
def test_any_cut_of_the_bytes_gives_the_same(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts) + b"."
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1)))) if len(whole) > 1 else []
    drawing = OutputFilter()
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    drawn = b"".join(drawing.draw(piece) for piece in pieces)
    assert drawn == b"".join(p for p in parts if p in OTHERS) + b"."
    assert drawing.undo() == (one := OutputFilter(), one.draw(whole))[0].undo()


@given(st.lists(st.sampled_from([*QUERIES, *OTHERS]), max_size=12))
def test_drawn_output_causes_no_terminal_answer(parts: list[bytes]) -> None:
    replies: list[bytes] = []
    terminal = Screen(24, 80, replies.append)
    terminal.feed(b"\x1b[m" + OutputFilter().draw(b"".join(parts)))
    assert replies == []


@pytest.mark.parametrize(
    "expression",
    [
        terminal_queries.SEQUENCE,
        terminal_queries.UNFINISHED,
        terminal_queries._ASKS,
        output_filter._CHANGES,
    ],
)
def test_filtering_takes_linear_time(expression: re.Pattern[bytes]) -> None:
    """By construction of the expressions: each repetition is one possessive class, and a failed
    search does not restart within the bytes it has passed, for no class contains Escape."""
    pattern = expression.pattern
    pieces = rb"\\x..|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"
    for one in re.findall(pieces, pattern):
        if one.startswith(b"["):
            inside = re.compile(b"[" + one[1:-1].replace(b"[", rb"\[") + b"]")
            assert inside.match(b"\x1b") is None, one
    bare = re.sub(pieces, b"C", pattern)
    bare = re.sub(rb"\(\?(?::|P<\w+>|<!)", b"(", bare)
    assert re.fullmatch(rb"(?:[^*+?]|[*+?]\+)*", bare), bare
    assert not re.search(rb"\)[*+]", bare), bare
    # Only the Escape's own run could begin again in itself.
    assert pattern.count(rb"\x1b++") == pattern.count(rb"(?<!\x1b)\x1b++")


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x1b]21;" + b"?" * 60_000,
        b"\x1b]4" + b";?" * 30_000,
        b"\x1b_G" + b"a," * 30_000,
        b"\x1b]99;" + b"p=" * 30_000,
        b"\x1b" * 60_000 + b"x",
        b"\x1b[" + b"1;" * 30_000,
        b"\x1b[?" + b"9" * 60_000 + b"x",
        b"\x1b[1" * 20_000 + b".",
        b"\x1b]4;1;" * 10_000,
    ],
)
def test_an_unterminated_sequence_is_drawn_unchanged(hostile: bytes) -> None:
    drawing = OutputFilter()
    drawn = drawing.draw(hostile[:50_000]) + drawing.draw(hostile[50_000:])
    assert hostile.startswith(drawn)
    assert len(hostile) - len(drawn) <= 4_096


@pytest.mark.parametrize("digits", [6, 4_301, 60_000])
@pytest.mark.parametrize("way", [b"h", b"l"])
def test_an_invalid_mode_number_is_ignored(digits: int, way: bytes) -> None:
    drawing = OutputFilter()
    drawn = b"\x1b[?" + b"9" * digits + b";;7;1" + way
    assert drawing.draw(drawn) == drawn
    undo = drawing.undo()
    assert b"9" not in undo
    assert (b"\x1b[?1l" if way == b"h" else b"\x1b[?7h") in undo


def test_a_query_behind_a_second_escape_or_around_a_control_is_removed() -> None:
    assert OutputFilter().draw(b"a\x1b\x1b[c[6nb") == b"a[6nb"
    assert OutputFilter().draw(b"a\x1b[6\nnb") == b"a\nb"
    assert OutputFilter().draw(b"a\x1b]011;?\x07b") == b"ab"


def test_a_long_image_is_not_held_back() -> None:
    picture = b"\x1b_Ga=T,f=24;" + b"A" * 8192
    drawing = OutputFilter()
    assert drawing.draw(picture) == picture
    assert drawing.draw(b"A\x1b\\b") == b"A\x1b\\b"


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
    drawing = OutputFilter()
    quiet = drawing.undo()
    drawing.draw(drawn)
    undo = drawing.undo()
    for one in undone:
        assert one in undo and one not in quiet
    assert drawing.undo() == quiet


@pytest.mark.parametrize("drawn", [b"\x1b[?1049h\x1b[?1049l", b"\x1b[?25l\x1b[?25h", b"\x1b[31m"])
def test_modes_the_program_reset_itself_are_left_alone(drawn: bytes) -> None:
    drawing = OutputFilter()
    drawing.draw(drawn)
    assert drawing.undo() == OutputFilter().undo()


def test_the_alternate_screen_is_tracked() -> None:
    drawing = OutputFilter()
    drawing.draw(b"\x1b[?1049h")
    assert drawing.alt
    drawing.draw(b"\x1b[?1049l")
    assert not drawing.alt


def test_an_unfinished_sequence_goes_on_after_a_repaint() -> None:
    """The daemon's paint ends with the unfinished escape sequence or character."""
    for begun, rest in ((b"\x1b[3", b"1mx"), (b"\x1b", b"[6nx"), (b"\xe2\x82", b"\xacx")):
        screen = Screen(2, 8, lambda reply: None)
        screen.feed(b"ab" + begun)
        drawing = OutputFilter()
        drawn = drawing.draw(screen.paint())
        assert not drawn.endswith(begun)
        assert drawing.draw(rest).endswith((b"\x1b[31mx", b"x", "€x".encode()))


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
