"""A terminal's output as readable text, the same for all readers in any pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from haftd.core.spool import Budget, Spool
from haftd.core.text import cut
from haftd.runtimes.terminal import transcript
from haftd.runtimes.terminal.transcript import Scratch, Transcript
from tests.effort import examples

ROWS, COLS = 24, 80
SGR, TITLE, PASTE = b"\x1b[1;32m", b"\x1b]0;t\x07", b"\x1b[?2004h"
APPENDS = st.lists(
    st.sampled_from(
        [b"word", b" and", b"\r\n", b"\r\n\r\n", SGR, b"\x1b[0m", TITLE, PASTE, b"\x1b[K", b"\x07",
         b"x" * 100, "é≤".encode(), b"\x1b[6n", b"\r\n" + PASTE[:-1] + b"l\r"]
    ),
    max_size=25,
).map(b"".join)  # fmt: skip


def spool_of(data: bytes) -> Spool:
    spool = Spool(1 << 22, 0, None, Budget(0))
    spool.append(data)
    return spool


def read(data: bytes, start: int = 0, max_bytes: int = 1 << 20) -> str:
    """The text of the output from `start` on, when nothing more will come."""
    spool = spool_of(data)
    rendering = Transcript(ROWS, COLS)
    return cut(spool, start, spool.end, max_bytes, final=True, rendering=rendering).text


def deltas(*chunks: bytes) -> list[str]:
    """Return the deltas of a reader that reads after each chunk, and once more at the end."""
    spool, rendering, mark, texts = spool_of(b""), Transcript(ROWS, COLS), 0, []
    for chunk in chunks:
        spool.append(chunk)
        piece = cut(spool, mark, spool.end, 1 << 20, final=False, rendering=rendering)
        texts.append(piece.text)
        mark = piece.cursor
    rest = cut(spool, mark, spool.end, 1 << 20, final=True, rendering=rendering).text
    return [*texts, rest] if rest else texts


def drawn(data: bytes) -> str:
    scratch = Scratch(ROWS, COLS, history=1 << 26)
    try:
        return transcript._drawn(scratch, b"", data)
    finally:
        scratch.close()


@settings(deadline=None)
@given(APPENDS)
def test_removing_sequences_reads_as_drawing_does(data: bytes) -> None:
    appended = transcript._appended(data, at_line_start=True)
    assert appended is not None
    assert "\n".join(line.rstrip() for line in appended.split("\n")) == "\n".join(
        line.rstrip() for line in drawn(data).split("\n")
    )


@settings(deadline=None)
@given(APPENDS, st.lists(st.integers(0, 400), max_size=8))
@example(b"one\r\ntwo", [4])
def test_reads_of_output_that_only_appends_join_to_the_whole(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(at, len(data)) for at in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert "".join(deltas(*pieces)) == read(data)


@pytest.mark.parametrize(
    "form", ["\r{:3}%", "{:3}%\r", "\r\x1b[K{:3}%", "\x1b[1G{:3}%", "\b\b\b\b{:3}%"]
)
def test_a_progress_bar_is_there_once_with_its_last_text(form: str) -> None:
    steps = [form.format(n).encode() for n in range(101)]
    end = b"\r\ndone\r\n"
    assert read(b"".join(steps) + end) == "100%\ndone\n"
    assert deltas(b"".join(steps[:51]), b"".join(steps[51:]), end) == [" 50%", "100%", "\ndone\n"]


def test_a_display_of_several_lines_gives_the_lines_that_changed() -> None:
    first = b"a:  0%\r\nb:  0%\r\nc:  0%\r\n"
    again = b"\x1b[3A\r\x1b[Ka: 10%\r\n\r\x1b[Kb:  0%\r\n\r\x1b[Kc: 20%\r\n"
    assert deltas(first, again) == ["a:  0%\nb:  0%\nc:  0%\n", "a: 10%\nc: 20%\n"]


def test_a_line_keeps_its_length_and_none_is_lost_above_the_screen() -> None:
    long = "".join(f"{n:05}" for n in range(60))
    lines = [f"line {n}" for n in range(500)]
    data = "\r\n".join([long, *lines, "50%\r60%"]).encode()
    assert read(data) == "\n".join([long, *lines, "60%"])


def test_typing_and_corrections_read_as_the_final_line() -> None:
    assert deltas(b"$ ", b"lz", b"\b\x1b[Ks", b"\r\nfile\r\n$ ") == [
        "$ ",
        "lz",
        "$ ls",
        "\nfile\n$ ",
    ]
    # The shell moves the cursor left and puts a letter in.
    assert deltas(b"$ ac", b"\bbc\b") == ["$ ac", "$ abc"]


def test_the_alternate_screen_gives_its_changed_rows_and_nothing_once_left() -> None:
    enter = b"\x1b[?1049h\x1b[H\x1b[2J"
    page = b"one\r\ntwo\x1b[24;1H-- INSERT --"
    leave = b"\x1b[?1049l"
    got = deltas(b"$ vi\r\n", enter + page, b"\x1b[2;4H!", b"\x1b[1;1H", leave + b"$ ")
    assert got == ["$ vi\n", "one\ntwo\n" + "\n" * 21 + "-- INSERT --\n", "two!\n", "", "$ "]
    assert read(b"$ vi\r\n" + enter + page + leave + b"$ ") == "$ vi\n$ "


def test_the_alternate_screen_keeps_blank_rows_between_changed_rows() -> None:
    enter = b"\x1b[?1049h\x1b[H\x1b[2J"
    page = b"\r\nTITLE\r\n\r\n\r\none\r\n\r\nsame\r\n\r\ntwo"
    redraw = b"\x1b[2;1HOTHER\x1b[5;1HONE\x1b[9;1HTWO"
    got = deltas(b"", enter + page, redraw)
    assert got == ["", "TITLE\n\n\none\n\nsame\n\ntwo\n", "OTHER\n\n\nONE\nTWO\n"]


ZSH_MARK = b"\x1b[1m\x1b[7m%\x1b[27m\x1b[1m\x1b[0m"
ZSH_PROMPT = b"\r\x1b[0m\x1b[27m\x1b[24m\x1b[Jvm# \x1b[K\x1b[?2004h"
FISH_MARK = b"\x1b[2m\xe2\x8f\x8e\x1b(B\x1b[m"
PADDED = {
    "zsh": ZSH_MARK + b" " * (COLS - 1) + b"\r \r" + ZSH_PROMPT,
    "zsh with a mark of two characters": b"<>" + b" " * (COLS - 2) + b"\r  \r" + ZSH_PROMPT,
    "fish": FISH_MARK + b" " * (COLS - 1) + b"\r\xe2\x8f\x8e \r\x1b[Kvm# \x1b[K\r\x1b[4C",
}


@pytest.mark.parametrize("padded", PADDED.values(), ids=PADDED)
def test_a_shells_padding_ends_the_line_before_its_prompt(padded: bytes) -> None:
    assert read(b"abc" + padded) == "abc\nvm# "
    assert read(b"abc\r\n" + padded) == "abc\nvm# "
    assert read(b"x" * COLS + padded) == "x" * COLS + "\nvm# "
    assert deltas(b"abc", padded, b"ls\r\nd" + padded) == ["abc", "\nvm# ", "ls\nd\nvm# "]
    assert Transcript(ROWS, COLS).plain(b"abc" + padded).split(b"\n")[0] == b"abc"
    long = b"line\r\n" * 30_000 + b"abc" + padded
    assert read(long).split("\n")[-2:] == ["abc", "vm# "]


def test_a_line_wiped_with_blanks_is_no_padding() -> None:
    assert read(b"50%" + b" " * 40 + b"\r" + b" " * 43 + b"\r100%") == "100%"


def test_room_made_below_or_behind_a_prompt_is_no_text() -> None:
    """A line editor wipes its line with blanks, another scrolls to have room for a menu."""
    assert read(b"(parted) " + b" " * 60 + b"\r(parted) ") == "(parted) "
    room = b"In [1]: " + b"\r\n\x1b[2K " * 8 + b"\x1b[8A\r\x1b[8C"
    assert deltas(b"hello\r\n", room) == ["hello\n", "In [1]: "]
    assert deltas(room, b"x\r\n", b"out\r\n") == ["In [1]: ", "x\n", "out\n"]


def test_old_output_does_not_come_again() -> None:
    before = b"".join(b"old %d\r\n" % n for n in range(20_000))
    assert read(before + b"10%\r20%", start=len(before)) == "20%"


def test_drawn_text_begins_at_a_line() -> None:
    """A cut elsewhere may be within a sequence, whose rest is then text."""
    sequence = b"\x1b[24;70Hlast"
    for kept in range(1, len(sequence) - 4):
        drawing = b"\x1b[9;1H.........." * 2_000
        behind = (sequence[-kept:] + b"\n" + drawing)[: transcript._CONTEXT]
        before = b"\x1b[2J" + sequence[:-kept] + behind
        assert read(before + b"\x1b[1;1Hhi", start=len(before)) == "hi\n", kept


def test_a_long_progress_bar_is_one_line() -> None:
    data = b"".join(b"\r\x1b[K%6d of 5000" % n for n in range(1, 5001))
    assert len(data) > 80_000
    assert read(data, max_bytes=1_000) == "  5000 of 5000"


@settings(deadline=None, max_examples=examples(40))
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=8),
            st.sampled_from([b"\x1b[", b"\x1b]", b"\r", b"\n", b"\b", b"\x1b[?1049h", b"\x1b[2J",
                             b"\x1b[?1049l", b"\x1b[9;9H", b"\x1b[3A", b"\x1b[3J", b"\x1bc",
                             b"\x1b[?47h", b"\x1b[4L", b"text", "日本".encode(), b"\x0e", b"\t"]),
        ),
        max_size=30,
    ),
    st.integers(0, 60),
)  # fmt: skip
def test_any_output_reads_as_the_same_text_again(parts: list[bytes], start: int) -> None:
    data = b"".join(parts)
    text = read(data, start=min(start, len(data)))
    assert "\x1b" not in text and "\r" not in text
    assert text == read(data, start=min(start, len(data)))


def test_plain_line_ends_cost_nothing() -> None:
    assert read(b"\x1b[9;9H" + b"\n" * 100_000).count("\n") == 100_000


def test_a_carriage_return_waits_for_the_next_byte() -> None:
    rendering = Transcript(ROWS, COLS)
    assert rendering.pending(b"50%\r") == 1
    assert rendering.pending(b"50%\r\r") == 2
    assert rendering.pending(b"50%\r\n") == 0
    assert deltas(b"50%\r", b"\ndone") == ["50%", "\ndone"]


def test_a_search_sees_lines_and_no_sequences() -> None:
    rendering = Transcript(ROWS, COLS)
    assert rendering.plain(b"\x1b[?2004h$ \x1b[1mls\x1b[0m\r\nfile\r\n") == b"$ ls\nfile\n"


@pytest.mark.parametrize(
    "data",
    [b"\x1bc" * 1_000, b"\x1b[2J" * 8_000, b"\x1b[999S" * 500, b"x\x1b[99999b" * 500,
     b"\x1b#8" * 8_000, b"\x1b[5C" * 9_000, b"\x1b[5Cx\n" * 30_000],
)  # fmt: skip
def test_costly_output_is_read_without_drawing(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(*_: object, **more: object) -> None:
        raise AssertionError("it is drawn")

    monkeypatch.setattr(transcript, "Scratch", draw)
    text = read(data + b"10%\r20%\nend\r")
    assert text.endswith("20%\nend") and "\x1b" not in text


def test_a_little_costly_output_is_drawn() -> None:
    data = b"\x1b[2J\x1b[Hold" * 20 + b"\x1b[2J\x1b[Hnew"
    assert read(data) == "new"


def test_a_shells_marks_are_no_text_and_begin_no_line() -> None:
    marked = b"<\x1b]133;A\x07$ \x1b]133;B\x07>"
    assert read(marked) == read(b"10%\r" + marked) == "<$ >"


def test_the_screen_below_does_not_come_again_when_a_program_leaves() -> None:
    below = b"".join(b"line %d\r\n" % number for number in range(10)) + b"$ vi\r\n"
    page = b"\x1b[?1049h\x1b[H\x1b[2Jone\r\ntwo\x1b[20;1Hlast"
    got = deltas(below + page, b"\x1b[?25h\x1b[?1049;25l$ ")
    assert got[1] == "$ "


def test_a_return_in_the_middle_of_a_line_is_no_beginning() -> None:
    assert read(b"abcdef\rXY", start=6) == "XYcdef"
    assert read(b"one\r\n\rXY", start=5) == "XY"


def test_a_terminal_is_read_at_its_current_size() -> None:
    rendering = Transcript(ROWS, 10)
    spool = spool_of(b"x" * 15 + b"\b\b\b\b\b\b\b\bY")
    narrow = cut(spool, 0, spool.end, 100, final=True, rendering=rendering).text
    rendering.resize(ROWS, 40)
    wide = cut(spool, 0, spool.end, 100, final=True, rendering=rendering).text
    assert narrow == "x" * 10 + "Y" + "x" * 4
    assert wide == "x" * 7 + "Y" + "x" * 7


def test_unchanged_lines_below_do_not_come_again() -> None:
    before = b"a\r\nb\r\nc\x1b[2A"
    assert read(before + b"\rX", start=len(before)) == "X"


def test_a_shells_mark_before_a_stretch_moves_nothing_in_it() -> None:
    before = b"abc\x1b]133;A\x07"
    assert read(before + b"\x08\x08\x08X", start=len(before)) == "Xbc"


@pytest.mark.parametrize(
    ("before", "size"), [(b"", (400, 400)), (b"\x1bc" * 1_000, (ROWS, COLS))], ids=["size", "work"]
)
def test_large_output_and_output_behind_costly_one_is_not_drawn(
    monkeypatch: pytest.MonkeyPatch, before: bytes, size: tuple[int, int]
) -> None:
    monkeypatch.setattr(transcript, "Scratch", None)
    assert Transcript(*size).text(spool_of(before + b"a\rb"), len(before), b"a\rb") == "b"
