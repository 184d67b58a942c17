"""Sequences that speak to a terminal are no text: taken out whole, wherever they are cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from haftd.core.escapes import LONGEST, decode, end_broken_string, pending
from haftd.core.text import STRIPPED, cut, left_out
from tests.core.disks import make

SEQUENCES = [
    b"\x1b[31m", b"\x1b[0m", b"\x1b[?2004h", b"\x1b[1;24r", b"\x1b[>4;2m", b"\x1b[6n", b"\x1b[!p",
    b"\x1b]0;a title\x07", b"\x1b]8;;http://x.invalid\x1b\\", b"\x1b]52;c;aGFmdA==\x07",
    b"\x1b]633;C\x07", b"\x1bP1$r0m\x1b\\", b"\x1b_G...\x1b\\", b"\x1b^pm\x1b\\", b"\x1bXsos\x1b\\",
    b"\x1b]8;;u\x1b\\", b"\x1b(B", b"\x1b=", b"\x1b7", b"\x1bM", b"\x1bc", b"\x1b]0;cut off by CAN\x18",
]  # fmt: skip
TEXTS = [b"", b"plain", b"two\r\nlines\n", "é≤😀".encode(), b"\t[31m]", b"\x07\x08"]
PIECES = st.lists(st.sampled_from([*SEQUENCES, *TEXTS]), max_size=12)


def without(pieces: list[bytes]) -> str:
    return b"".join(piece for piece in pieces if piece not in SEQUENCES).decode()


@given(PIECES)
def test_what_is_left_is_all_that_is_text(pieces: list[bytes]) -> None:
    assert decode(b"".join(pieces)) == without(pieces)


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


def test_no_text_is_lost_to_a_sequence_that_never_ends() -> None:
    assert decode(b"a\x1b]0;never closed\nb") == "a0;never closed\nb"
    long = b"\x1b]0;" + b"x" * (LONGEST + 1)
    assert decode(long + b"\x07").startswith("0;xxx")
    assert pending(long[-LONGEST:]) == 0


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_one_that_has_not_come_whole_is_waited_for(sequence: bytes) -> None:
    for size in range(1, len(sequence)):
        assert pending(b"text" + sequence[:size]) == size
    assert pending(b"text" + sequence) == 0


@settings(deadline=None)
@given(PIECES, st.integers(1, 60), st.booleans())
def test_what_does_not_fit_is_cut_out_without_leaving_an_escape(
    pieces: list[bytes], max_bytes: int, tail: bool
) -> None:
    spool = make()
    spool.append(b"".join(pieces))
    piece = cut(spool, 0, spool.end, max_bytes, final=True, tail=tail, rendering=STRIPPED)
    assert "\x1b" not in piece.text
    assert (piece.omitted > 0) == (spool.end > max_bytes)
    assert tail or not piece.omitted or left_out(piece.omitted) in piece.text


@pytest.mark.parametrize("introducer", [b"\x1b]0;", b"\x1bP+q", b"\x1b_G", b"\x1b^", b"\x1bX"])
@pytest.mark.parametrize("line_end", [b"\r\n", b"\n", b"\r"])
def test_string_that_is_cut_off_is_cancelled_at_the_line_end(
    introducer: bytes, line_end: bytes
) -> None:
    data = b"out" + introducer + b"half"
    assert end_broken_string(data) == data
    assert end_broken_string(data + line_end + b"$ ") == data + b"\x18" + line_end + b"$ "
    for ended in (b"\x07", b"\x1b\\", b"\x18"):
        whole = data + line_end + b"more" + ended
        assert end_broken_string(whole) == whole
