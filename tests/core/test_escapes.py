"""Escape sequences are removed whole, wherever the output is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from haftd.core import long_strings
from haftd.core.escapes import MAX_SEQUENCE, decode, end_broken_string, pending
from haftd.core.long_strings import LongStrings
from haftd.core.patterns import OutputMatcher, compile_pattern
from haftd.core.search import LineBudget, Search
from haftd.core.text import STRIPPED, Rendering, cut, last_line, omission_line, shown_end
from haftd.runtimes.terminal.transcript import Transcript
from tests.core.disks import make
from tests.core.test_patterns import scan
from tests.core.test_search import step

SEQUENCES = [
    b"\x1b[31m", b"\x1b[0m", b"\x1b[?2004h", b"\x1b[1;24r", b"\x1b[>4;2m", b"\x1b[6n", b"\x1b[!p",
    b"\x1b]0;a title\x07", b"\x1b]8;;http://x.invalid\x1b\\", b"\x1b]52;c;aGFmdA==\x07",
    b"\x1b]633;C\x07", b"\x1bP1$r0m\x1b\\", b"\x1b_G...\x1b\\", b"\x1b^pm\x1b\\", b"\x1bXsos\x1b\\",
    b"\x1b]8;;u\x1b\\", b"\x1b(B", b"\x1b=", b"\x1b7", b"\x1bM", b"\x1bc", b"\x1b]0;cut off by CAN\x18",
]  # fmt: skip
LONG = [
    introducer + b"a1;/" * size + end
    for introducer in (b"\x1b]52;c;", b"\x1bPq", b"\x1b_G", b"\x1b^", b"\x1bX")
    for size, end in ((1_020, b"\x07"), (1_022, b"\x1b\\"), (1_024, b"\x18"), (2_500, b"\x1b\\"))
]
TEXTS = [b"", b"plain", b"two\r\nlines\n", "é≤😀".encode(), b"\t[31m]", b"\x07\x08"]
PIECES = st.lists(st.sampled_from([*SEQUENCES, *TEXTS]), max_size=12)


LONG_PIECES = st.lists(st.sampled_from([*SEQUENCES, *LONG, *TEXTS]), max_size=8)


def without(pieces: list[bytes]) -> str:
    return b"".join(
        piece for piece in pieces if piece not in SEQUENCES and piece not in LONG
    ).decode()


@given(PIECES)
def test_the_remaining_text_is_all_the_text(pieces: list[bytes]) -> None:
    assert decode(b"".join(pieces)) == without(pieces)


@pytest.mark.parametrize("begun", [b"\x1b[", b"\x1b[38;5;1", b"\x1b[?25", b"\x1b[1;2$"])
@pytest.mark.parametrize("after", [b"", b"\x1b[0m", b"\x1b]0;title\x07", b"\nb", "é".encode()])
def test_nothing_is_left_of_a_cut_off_control_sequence(begun: bytes, after: bytes) -> None:
    assert decode(b"a" + begun + after) == "a" + decode(after)


@settings(deadline=None)
@given(PIECES, st.lists(st.integers(0, 300), max_size=10))
@example([b"A", b"\x1b[31m", b"B", b"\x1b]8;;u\x1b\\", b"C"], [2, 4, 6, 10, 13])
def test_reads_of_a_growing_output_join_to_the_text_of_the_whole(
    pieces: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(pieces)
    spool, parts, mark = make(), [], 0
    for at, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        spool.append(data[at:stop])
        piece = cut(spool, mark, spool.end, 1 << 20, final=False)
        parts.append(piece.text)
        mark = piece.cursor
    parts.append(cut(spool, mark, spool.end, 1 << 20, final=True).text)
    assert "".join(parts) == without(pieces)


@given(st.lists(st.sampled_from([b"\x1b", b"[", b"]", b"P", b"3", b";", b"m", b"\\", b"\n", b"\x9b",
                                 b"\xc2", b"\xff", b"a", b"\x07"]), max_size=40))  # fmt: skip
def test_no_escape_is_ever_left(parts: list[bytes]) -> None:
    shown = decode(b"".join(parts))
    assert not re.search("[\x1b\x90\x98\x9b-\x9f\ud800-\udfff]", shown)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x9b31mred\x9b0m", "red"),
        (b"\xc2\x9b31mred", "red"),
        (b"\x9d0;title\x9crest", "rest"),
        ("웛 is a letter, its bytes are none".encode(), "웛 is a letter, its bytes are none"),
        (b"\xff\x9b, \xe2\x82", "\ufffd\ufffd, \ufffd"),
    ],
)
def test_introducers_of_eight_bits_count_and_other_bytes_do_not(data: bytes, shown: str) -> None:
    assert decode(data) == shown


def test_an_unterminated_string_extends_to_the_end_of_its_line() -> None:
    assert decode(b"a\x1b]0;never closed\r\nb") == "a\nb"
    assert decode(b"a\x1b]0;never closed") == "a"
    assert decode(b"a\x1b]0;never closed\x1b[31mred") == "ared"
    assert decode(b"a\x1b]0;" + b"x" * 50_000 + b"\nb") == "a\nb"


def test_letters_that_are_introducers_elsewhere_remove_nothing() -> None:
    assert decode("a\x9d0;never closed".encode()) == "a0;never closed"


@settings(deadline=None)
@given(
    LONG_PIECES,
    st.lists(st.integers(0, 20_000), max_size=10),
    st.sampled_from([MAX_SEQUENCE, 1, 7]),
)
@example(
    [b"A", LONG[-1], b"B"], [1, 2, 3, 9, 4_097, 4_098, 4_099, 10_008, 10_009, 10_010], MAX_SEQUENCE
)
def test_reads_join_to_the_text_of_the_whole_however_long_a_string_is(
    pieces: list[bytes], cuts: list[int], chunk: int
) -> None:
    data = b"".join(pieces)
    spool, parts, mark = make(), [], 0
    for at, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        for begin in range(at, min(stop, len(data)), chunk):
            spool.append(data[begin : min(begin + chunk, stop)])
        piece = cut(spool, mark, spool.end, 1 << 20, final=False)
        parts.append(piece.text)
        mark = piece.cursor
    parts.append(cut(spool, mark, spool.end, 1 << 20, final=True).text)
    assert "".join(parts) == without(pieces)
    assert cut(spool, 0, spool.end, 1 << 20, final=True).text == without(pieces)


@settings(deadline=None)
@given(LONG_PIECES, st.lists(st.integers(0, 20_000), max_size=10))
def test_reads_up_to_any_offset_join_to_the_text_of_the_whole(
    pieces: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(pieces)
    spool, parts, mark = make(), [], 0
    spool.append(data)
    for stop in sorted(cuts):
        piece = cut(spool, mark, stop, 1 << 20, final=False)
        parts.append(piece.text)
        mark = piece.cursor
    parts.append(cut(spool, mark, spool.end, 1 << 20, final=True).text)
    assert "".join(parts) == without(pieces)


@settings(deadline=None)
@given(st.sampled_from([*SEQUENCES, *LONG]), st.integers(1, 20_000), st.booleans())
def test_read_that_begins_within_a_sequence_begins_behind_it(
    sequence: bytes, at: int, tail: bool
) -> None:
    spool = make()
    spool.append(b"before" + sequence + b"after\n")
    start = 6 + min(at, len(sequence))
    piece = cut(spool, start, spool.end, 1 << 20, final=True, tail=tail)
    assert (piece.text, piece.omitted) == ("after\n", 0)


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("memory", [1 << 22, 100_000])
def test_a_string_of_two_megabytes_is_neither_text_nor_omitted(memory: int, tail: bool) -> None:
    spool, string = make(memory=memory), b"\x1b]52;c;" + b"QUJD" * 524_288 + b"\x07"
    for at in range(0, len(string), 65_536):
        spool.append((b"" if at else b"begin\n") + string[at : at + 65_536])
        if at + 65_536 < len(string):
            assert shown_end(spool, STRIPPED) == 6
    assert last_line(spool, STRIPPED) == ""
    spool.append(b"\x1b[1mdone\x1b[0m\n$ ")
    assert last_line(spool, STRIPPED) == "$ "
    piece = cut(spool, 0, spool.end, 1_000, final=True, tail=tail)
    if memory > len(string):
        assert (piece.text, piece.omitted) == ("begin\ndone\n$ ", 0)
    else:
        assert piece.text.endswith("done\n$ ") and "QUJD" not in piece.text


@pytest.mark.parametrize("rendering", [STRIPPED, Transcript(24, 80)])
def test_search_and_patterns_look_over_a_long_string(rendering: Rendering) -> None:
    spool = make(memory=1 << 23)
    string = b"\x1bPq" + b"needle" * 300_000 + b"\x1b\\"
    spool.append(b"one\nnee" + string + b"dle\nlast needle" + string + b"\nneedle" + string)
    search = Search(
        spool, compile_pattern("needle$", within_lines=True), 10, LineBudget(1_000), rendering
    )
    while not step(search):
        pass
    size = 7 + len(string) + 4
    third = size + 11 + len(string) + 1
    assert search.matches == [(4, "needle"), (size, "last needle"), (third, "needle")]
    for start, want in ((0, 1), (4, 1), (2_000, 0), (size - 2, 0)):
        matcher = OutputMatcher(
            compile_pattern("^needle"), start, spool.read(start - 1, start), rendering
        )
        while matcher.has_unread(spool) and not scan(matcher, spool):
            pass
        assert matcher.match_range is not None
        assert (matcher.match_range[1] < size) == bool(want)


FEEDS = st.lists(
    st.sampled_from([b"\x1b", b"]", b"\\", b"[", b"m", b"abc", b"\n", b"\x07", b"xxxxxxxxx"]),
    max_size=40,
).map(b"".join)


# An Escape at the end may begin the terminator: the string goes on.
@example(b"\x1b\x1b]]\x1b", [])
@example(b"\x1b]\x1b", [])
@given(FEEDS, st.lists(st.integers(0, 200), max_size=10))
def test_long_strings_are_tracked_in_any_pieces(data: bytes, cuts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_strings, "MAX_SEQUENCE", 6)
        patch.setattr(long_strings, "_WINDOW", 2)
        strings = LongStrings(0)
        for at, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
            strings.append(data[at:stop], at, 0)
    found = re.finditer(rb"\x1b\][^\x07\x1b\n]*+(?:\x07|\x1b\\|(?=\n|\x1b(?!\Z))|(\x1b?\Z))", data)
    want, still = [], -1
    for match in found:
        if match[1] is not None and not match[0].endswith(b"\x1b\\"):
            still = match.start()
        elif match.end() - match.start() > 6:
            want.append(match.span())
    if still >= 0 and data.endswith(b"\x1b") and strings.open < 0:
        # Short, and an Escape behind: visible in the window before the end.
        assert len(data) - still <= 8
    else:
        assert strings.open == still
    assert [part for part in strings.between(0, len(data)) if part[0] != strings.open] == want
    for start in range(len(data)):
        shown = strings.length(start, len(data))
        assert strings.length(start, strings.forward(start, shown)) == shown
        assert strings.length(strings.back(len(data), shown), len(data)) == shown


def test_strings_that_were_dropped_are_forgotten() -> None:
    spool = make(memory=100_000)
    for _ in range(5_000):
        spool.append(b"\x1b]0;" + b"x" * 5_000 + b"\x07text\n")
    assert len(spool.strings.between(0, spool.end)) < 1_100


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_an_incomplete_sequence_is_waited_for(sequence: bytes) -> None:
    for size in range(1, len(sequence)):
        assert pending(b"text" + sequence[:size]) == size
    assert pending(b"text" + sequence) == 0


@settings(deadline=None)
@given(PIECES, st.integers(1, 60), st.booleans())
def test_a_cut_leaves_no_escape(pieces: list[bytes], max_bytes: int, tail: bool) -> None:
    spool = make()
    spool.append(b"".join(pieces))
    piece = cut(spool, 0, spool.end, max_bytes, final=True, tail=tail, rendering=STRIPPED)
    assert "\x1b" not in piece.text
    assert (piece.omitted > 0) == (spool.end > max_bytes)
    assert tail or not piece.omitted or omission_line(piece.omitted) in piece.text


@pytest.mark.parametrize("introducer", [b"\x1b]0;", b"\x1bP+q", b"\x1b_G", b"\x1b^", b"\x1bX"])
@pytest.mark.parametrize("line_end", [b"\r\n", b"\n", b"\r"])
def test_an_interrupted_string_is_cancelled_at_the_line_end(
    introducer: bytes, line_end: bytes
) -> None:
    data = b"out" + introducer + b"half"
    assert end_broken_string(data) == data
    assert end_broken_string(data + line_end + b"$ ") == data + b"\x18" + line_end + b"$ "
    for ended in (b"\x07", b"\x1b\\", b"\x18"):
        whole = data + line_end + b"more" + ended
        assert end_broken_string(whole) == whole
