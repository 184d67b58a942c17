"""The screen shows a program's drawing, answers its queries, and has no other effect."""

import itertools
import subprocess
import sys
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from haftd.core.spool import Budget, Spool
from haftd.core.text import last_plain_row
from haftd.runtimes.terminal import screen as screen_module
from haftd.runtimes.terminal.draw_scheduler import MAX_PIECE, PIECE
from haftd.runtimes.terminal.library import load
from haftd.runtimes.terminal.screen import Screen
from tests.effort import examples

from .drawn import new, session, whole

DRAWN = (
    b"first line\r\nsecond \xc3\xa9 \xe2\x89\xa4 \x1b[31mred\x1b[0m\r\n\x1b]0;a title\x07"
    b"\x1b[5;10Hplaced\x1b[6n\x1b[?2004h\x1b[7;1H\x1b[Kdone\x1b[3G"
)


def test_a_snapshot_has_a_line_per_row() -> None:
    screen = new()
    screen.feed(DRAWN)
    shot = screen.snapshot()
    assert (shot.rows, shot.cols) == (8, 30)
    assert shot.lines == (
        "first line",
        "second é ≤ red",
        "",
        "",
        "         placed",
        "",
        "done",
        "",
    )
    assert shot.cursor == (6, 2)
    assert shot.title == "a title"
    assert not shot.alt


def test_an_empty_screen_has_empty_lines() -> None:
    shot = new().snapshot()
    assert shot.lines == ("",) * 8
    assert shot.cursor == (0, 0)
    assert shot.revision == 0


@given(st.lists(st.integers(0, len(DRAWN)), max_size=6))
def test_any_cut_of_the_bytes_draws_the_same(cuts: list[int]) -> None:
    replies: list[bytes] = []
    screen = new(replies)
    places = [0, *sorted(cuts), len(DRAWN)]
    for start, stop in itertools.pairwise(places):
        screen.feed(DRAWN[start:stop])
    whole = new()
    whole.feed(DRAWN)
    assert screen.snapshot() == whole.snapshot()
    assert replies == [b"\x1b[5;16R"]
    assert screen.bracketed_paste


@settings(max_examples=examples(50))
@given(session, st.data())
def test_any_session_in_any_cut_is_the_same_screen(drawn: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(drawn)), max_size=8))
    answers: list[list[bytes]] = [[], []]
    screen, other = new(answers[0]), new(answers[1])
    screen.feed(drawn)
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(drawn)]):
        other.feed(drawn[start:stop])
        if data.draw(st.booleans()):
            other.snapshot()
    assert whole(other) == whole(screen)
    assert answers[1] == answers[0]


@settings(max_examples=examples(24))
@given(session)
def test_any_session_byte_by_byte_is_the_same_screen(drawn: bytes) -> None:
    screen, other = new(), new()
    screen.feed(drawn)
    for byte in drawn:
        other.feed(bytes((byte,)))
    assert whole(other) == whole(screen)


@given(st.lists(st.text("abc ", min_size=1, max_size=40).map(str.rstrip), max_size=6))
@example(["a", *["a" * 36] * 3, "a" * 35])
def test_a_wrapped_line_reflows_with_the_size(lines: list[str]) -> None:
    screen = new(rows=40, cols=20)  # more than six lines of six rows
    screen.feed("\r\n".join(lines).encode())
    for cols in (7, 13, 50):
        screen.resize(40, cols)
        shown = [part for line in lines for part in _wrapped(line, cols)]
        expected = tuple(line.rstrip() for line in shown)
        assert screen.snapshot().lines[: len(expected)] == expected


def _wrapped(line: str, cols: int) -> list[str]:
    return [line[at : at + cols] for at in range(0, len(line), cols)] or [""]


@given(st.binary(max_size=400))
def test_no_bytes_break_the_screen(data: bytes) -> None:
    screen = new()
    screen.feed(b"\x1b" + data)
    shot = screen.snapshot()
    assert len(shot.lines) == 8
    screen.resize(5, 20)
    screen.resize(9, 41)
    assert len(screen.snapshot().lines) == 9


def test_no_program_changes_the_size_of_its_terminal() -> None:
    replies: list[bytes] = []
    screen = new(replies)
    screen.feed(b"\x1b[?40h\x1b[?3h" + b"x" * 40)
    screen.snapshot()
    screen.feed(b"\x1b[18t\x1b[H\x1b[2J" + b"y" * 40)
    shot = screen.snapshot()
    assert replies == [b"\x1b[8;8;30t"]
    assert (shot.rows, shot.cols) == (8, 30)
    assert shot.lines[:2] == ("y" * 30, "y" * 10)
    assert b"?3h" not in screen.paint() and b"?40h" not in screen.paint()


def test_queries_are_answered_at_once_and_only_to_the_program() -> None:
    replies: list[bytes] = []
    screen = new(replies)
    screen.feed(b"ab\x1b[6n")
    assert replies == [b"\x1b[1;3R"]
    screen.feed(b"\x1b[")
    screen.feed(b"c")
    assert len(replies) == 2
    assert screen.snapshot().lines[0] == "ab"


def test_the_revision_grows_with_output_and_resizes_only() -> None:
    screen = new()
    first = screen.snapshot()
    assert screen.snapshot() is first
    screen.feed(b"x")
    second = screen.snapshot()
    assert second.revision > first.revision
    screen.resize(10, 40)
    assert screen.snapshot().revision > second.revision
    assert (screen.snapshot().rows, screen.snapshot().cols) == (10, 40)


def test_the_digest_changes_with_a_cell_a_style_the_cursor_and_scrolling_only() -> None:
    screen = new()
    picture = b"\x1b[2J\x1b[Hone \x1b[1;31mtwo\x1b[0m\x1b[5;1H\x1b[48;5;4m  \x1b[0m"
    screen.feed(picture)
    digest = screen.digest()
    assert digest is not None
    for same in (
        picture,
        b"\x1b[?25l\x1b[39m\x1b[0m",
        b"\x1b[?2026h" + picture + b"\x1b[?2026l",
        b"",
    ):
        screen.feed(same)
        assert screen.digest() == digest, same
    seen = {digest}
    for other in (
        b"x",
        b"\x1b[H",
        b"\x1b[1mone",
        b"\x1b[5;1H\x1b[48;5;5m  ",
        b"\r\n" * 99,
        b"\r\n",
    ):
        screen.feed(other)
        digest = screen.digest()
        assert digest is not None and digest not in seen, other
        seen.add(digest)


def test_an_undrawn_or_too_large_screen_has_no_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert new(rows=201, cols=100).digest() is None
    screen = new()
    screen.feed(b"\x1b[Hone")
    with monkeypatch.context() as patched:
        patched.setattr(Screen, "catch_up", lambda self: None)
        screen.queue(b"two")
        assert screen.digest() is None
    with monkeypatch.context() as patched:
        patched.setattr("haftd.runtimes.terminal.library.is_loaded", lambda: False)
        assert screen.digest() is None
    assert screen.digest() is not None


def test_the_alternate_screen_is_reported() -> None:
    screen = new()
    screen.feed(b"below\x1b[?1049h\x1b[Habove")
    assert screen.snapshot().alt
    assert screen.snapshot().lines[0] == "above"
    screen.feed(b"\x1b[?1049l")
    assert not screen.snapshot().alt
    assert screen.snapshot().lines[0] == "below"


def test_a_paste_is_bracketed_only_on_request() -> None:
    screen = new()
    assert screen.encode_paste("a\nb") == b"a\rb"
    screen.feed(b"\x1b[?2004h")
    assert screen.encode_paste("a\nb") == b"\x1b[200~a\nb\x1b[201~"
    screen.feed(b"\x1b[?2004l")
    assert screen.encode_paste("a\nb") == b"a\rb"


def test_nothing_in_a_paste_ends_it() -> None:
    screen = new()
    screen.feed(b"\x1b[?2004h")
    assert screen.encode_paste("a\x1b[201~b") == b"\x1b[200~ab\x1b[201~"
    nested = screen.encode_paste("a\x1b[20\x1b[201~1~b\x1b\x03")
    assert nested.startswith(b"\x1b[200~") and nested.endswith(b"\x1b[201~")
    assert b"\x1b" not in nested[6:-6] and b"\x03" not in nested


@given(st.text(st.characters(max_codepoint=0x7FF, codec="utf-8"), max_size=60))
def test_no_paste_interrupts_ends_or_escapes(text: str) -> None:
    screen = new()
    screen.feed(b"\x1b[?2004h")
    inner = screen.encode_paste(text)[6:-6]
    assert not set(inner) & set(b"\x00\x03\x04\x08\x1a\x1b\x1c\x7f")


def test_queries_beyond_the_screen_get_nothing() -> None:
    replies: list[bytes] = []
    screen = new(replies)
    screen.feed(b"\x1b]0;rm -rf x\r\x07\x1b[21t")  # the title, typed back
    screen.feed(b"\x1b]52;c;?\x07")  # the clipboard
    screen.feed(b"\x1b_Gi=1,t=f,f=24,s=1,v=1,a=q;L2V0Yy9wYXNzd2Q=\x1b\\")  # a file as a picture
    screen.feed(b"\x05")
    assert not any(b"rm -rf" in reply or b"OK" in reply for reply in replies)


def test_a_closed_screen_keeps_its_last_picture() -> None:
    for printed in (b"\x1b[1mlast words\r\n", b"last words"):
        screen = new()
        screen.feed(printed)
        shot = screen.close()
        assert shot is not None
        assert shot.lines[0] == "last words"
        assert screen.snapshot() is shot
        assert screen.close() is shot


def test_the_library_is_loaded_on_first_need() -> None:
    program = (
        "import sys\n"
        "from haftd.runtimes.terminal.library import is_loaded, load\n"
        "from haftd.runtimes.terminal.screen import Screen\n"
        "screen = Screen(24, 80, print)\n"
        "screen.feed(b'plain text\\r\\n' * 10)\n"
        "assert not screen.must_load and not screen.bracketed_paste and not is_loaded()\n"
        "assert 'pyghostty' not in sys.modules\n"
        "screen.feed(b'\\x1b[?2004h')\n"
        "assert screen.must_load and 'pyghostty' not in sys.modules\n"
        "load()\n"
        "assert screen.must_load is False\n"
        "assert screen.bracketed_paste\n"
        "assert screen.snapshot().lines[9] == 'plain text'\n"
        "other = Screen(24, 80, print)\n"
        "other.feed(b'x' * 70_000)\n"
        "assert not other.must_load\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(("rows", "cols"), [(8, 40), (1, 1), (24, 81)])
def test_a_terminal_without_output_is_drawn_as_any_other_and_not_made(rows: int, cols: int) -> None:
    load()
    blank, made = new(rows=3, cols=9), new(rows=rows, cols=cols)
    made.feed(b"\x1b[0m")  # draws nothing, at once
    blank.resize(rows, cols)
    shot = blank.snapshot()
    assert shot.revision == 1
    assert replace(shot, revision=0) == replace(made.snapshot(), revision=0)
    assert blank.paint() == made.paint()
    assert blank._terminal is None
    assert blank.close() is shot
    made.close()
    assert blank.paint() == made.paint()
    other = new(rows=rows, cols=cols)
    other.snapshot()
    other.feed(b"x")
    assert other.snapshot().lines[0] == "x"


def test_a_final_picture_alone_loads_nothing() -> None:
    program = (
        "from haftd.runtimes.terminal.library import is_loaded\n"
        "from haftd.runtimes.terminal.screen import Screen\n"
        "screen = Screen(24, 80, print)\n"
        "screen.feed(b'plain text')\n"
        "assert screen.close() is None\n"
        "assert not is_loaded()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_loaded_library_is_warm() -> None:
    program = (
        "import time\n"
        "from haftd.runtimes.keys import KeyPress\n"
        "from haftd.runtimes.terminal.library import load\n"
        "from haftd.runtimes.terminal.screen import Screen\n"
        "before = time.process_time()\n"
        "load()\n"
        "loaded = time.process_time() - before\n"
        "screen = Screen(24, 80, print)\n"
        "screen.feed(b'\\x1b[6n')\n"
        "screen.snapshot()\n"
        "screen.encode_paste('x')\n"
        "screen.encode_key(KeyPress('Up'))\n"
        "used = time.process_time() - before - loaded\n"
        "assert used < loaded / 10, (loaded, used)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_paste_brackets_are_removed_however_hidden() -> None:
    screen = new()
    assert screen.encode_paste("a\x1b[20\x1b[201~1~b\x1b[20\x1b[200~0~c") == b"abc"


def test_a_resize_first_draws_output_at_the_old_size() -> None:
    load()
    screen = new()
    screen.feed(b"abc")
    screen.resize(9, 31)
    assert screen.revision == 4


def test_a_painting_ends_with_the_undrawn_rest_of_a_piece() -> None:
    screen = new()
    screen.queue(b"abcdef")
    screen.queue(b"ghi")
    screen._at = 3
    assert screen._not_drawn() == b"defghi"


def test_pieces_of_cheap_output_grow_and_stay_small_after_a_slow_one(
    drawn: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    times = itertools.chain([0.0, 0.003], itertools.repeat(0.003))
    monkeypatch.setattr(screen_module, "time", SimpleNamespace(thread_time=lambda: next(times)))
    screen = new()
    screen.queue(b"\x1b[31mplain\x1b[0m text\r\n" * 60_000)
    while screen.draw():
        pass
    assert drawn[:5] == [PIECE, PIECE // 8, PIECE // 4, PIECE // 2, PIECE]
    small = next(at for at, size in enumerate(drawn) if size > PIECE)
    assert sum(drawn[:small]) >= 1 << 20, "not before long"
    assert MAX_PIECE - PIECE < max(drawn) <= MAX_PIECE


def test_pieces_of_unknown_cost_stay_small(drawn: list[int]) -> None:
    load()
    screen = new()
    screen.queue(b"x" * 20_000 + b"\x1b[4h" * 2_000)
    screen.catch_up()
    assert max(drawn) > PIECE
    at = 0
    for size in drawn:
        assert size <= PIECE or at + size <= 20_000
        at += size
    assert at == 28_000


_PLAIN_PARTS = st.sampled_from(
    [
        *(b"a", b"two words ", b"x" * 29, b"x" * 30, b"x" * 31, b" ", b"~/src$", b"\r\n", b"\r\n"),
        *(b"\r", b"\n", b"\t", b"\b", b"\x0b", b"\x0c", b"\x0e", b"\x0f", b"\a", b"\0", b"\x7f"),
        *(b"\x84", b"\x8d", b"\x9b2A", b"\xc2\x8d", b"\xc2\x9b2A", "é漢".encode(), b"\x1b[2A"),
    ]
)


@settings(max_examples=examples(100))
@given(st.lists(_PLAIN_PARTS, max_size=30), st.integers(2, 8))
@example([b"x" * 30, b"\r\n"], 2)
@example([b"x" * 31, b"\r\n"], 2)
@example([b"\a", *[b"a", b"\r\n"] * 3, *[b"\x1b[2A"] * 2, b"\r\n", b"two words ", b"\r\n"], 8)
@example([b"a", b"\r\n", b" ", b"\r\n"], 8)
def test_the_last_plain_row_is_that_of_the_screen(parts: list[bytes], rows: int) -> None:
    spool, screen = Spool(1 << 16, 0, None, Budget(0)), Screen(rows, 30, lambda data: None)
    for part in (*parts, b"a prompt", b"\r\n") if len(parts) % 2 else parts:
        spool.append(part)
        screen.feed(part)
    row = last_plain_row(spool, 30)
    last = next((line for line in reversed(screen.snapshot().lines) if line), "")
    assert row in ("", last)


@pytest.mark.parametrize("printed", [b"one\r\ntwo \r\n", b"two\r\n", b"x" * 40 + b"\r\ntwo\r\n"])
def test_a_plain_row_needs_no_screen(printed: bytes) -> None:
    spool = Spool(1 << 16, 0, None, Budget(0))
    spool.append(printed)
    assert last_plain_row(spool, 30) == "two"
