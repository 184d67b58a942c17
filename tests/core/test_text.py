from __future__ import annotations

import os
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from haft_protocol.terminal_queries import unfinished_character
from haftd.core.spool import Spool
from haftd.core.text import cut, cut_text, omission_line
from tests.core.disks import make, open_memory
from tests.effort import examples

CHARACTERS = st.text(st.sampled_from("ab\n é≤😀"), max_size=60)
LONG = st.text(st.sampled_from("ab\n é≤😀"), min_size=15, max_size=60)
JUNK = st.lists(
    st.sampled_from(
        [b"a", b"\n", "é".encode(), "≤".encode(), "😀".encode(), b"\xff", b"\x80", b"\xe2\x89",
         b"\xf0\x9f", b"\xe2", b"\xed\xa0", b"\xf0\x8f", b"\xc0"]
    ),
    max_size=30,
).map(b"".join)  # fmt: skip


def spool_of(*chunks: bytes, memory: int = 1 << 20) -> Spool:
    spool = make(memory=memory)
    for chunk in chunks:
        spool.append(chunk)
    return spool


@settings(deadline=None)
@given(data=JUNK, cuts=st.lists(st.integers(0, 80), max_size=12))
@example(b"\xe2\x89A", [1, 2])
def test_joined_reads_of_a_growing_output_decode_to_the_whole(data: bytes, cuts: list[int]) -> None:
    spool = spool_of()
    parts, mark = [], 0
    for at, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        spool.append(data[at:stop])
        piece = cut(spool, mark, spool.end, 1 << 20, final=False)
        assert piece.omitted == 0
        parts.append(piece.text)
        mark = piece.cursor
    last = cut(spool, mark, spool.end, 1 << 20, final=True)
    assert last.cursor == len(data)
    assert "".join([*parts, last.text]) == data.decode("utf-8", "replace")


@settings(deadline=None)
@given(
    text=LONG | CHARACTERS,
    start=st.integers(0, 10) | st.integers(0, 30),
    max_bytes=st.integers(0, 12) | st.integers(0, 80),
    final=st.booleans(),
    broken=st.booleans(),
)
@example(text="ab\n≤😀é" * 5, start=1, max_bytes=20, final=True, broken=False)
def test_a_cut_text_is_the_two_ends_of_the_whole_and_every_byte_is_counted(
    text: str, start: int, max_bytes: int, final: bool, broken: bool
) -> None:
    start = min(start, len(text))
    begin = len(text[:start].encode())
    asked = text[start:]
    data = text.encode() + (b"\xe2\x89" if broken and not final else b"")
    piece = cut(spool_of(data), begin, len(data), max_bytes, final=final)
    assert piece.cursor == len(text.encode())
    if piece.omitted == 0:
        assert piece.text == asked
        return
    assert len(asked.encode()) > max_bytes or (broken and len(asked.encode()) + 2 > max_bytes)
    if max_bytes == 0:
        assert piece.text == "" and piece.omitted == len(asked.encode())
        return
    front, line, rear = piece.text.partition(omission_line(piece.omitted))
    assert line
    kept = len(asked.encode()) - piece.omitted
    assert kept <= max_bytes
    shown = asked.encode()[: kept - len(rear.encode())].decode()
    assert front == shown + ("\n" if shown and not shown.endswith("\n") else "")
    assert asked.endswith(rear)


@settings(deadline=None)
@given(text=CHARACTERS, max_bytes=st.integers(1, 80))
def test_a_tail_is_the_end_of_the_whole_and_fits(text: str, max_bytes: int) -> None:
    data = text.encode()
    piece = cut(spool_of(data), 0, len(data), max_bytes, final=True, tail=True)
    assert text.endswith(piece.text) and len(piece.text.encode()) <= max_bytes
    assert piece.omitted + len(piece.text.encode()) == len(data) == piece.cursor


@settings(deadline=None)
@given(text=CHARACTERS, at=st.integers(0, 100), max_bytes=st.integers(1, 80))
def test_an_offset_inside_a_character_skips_and_counts_its_rest(
    text: str, at: int, max_bytes: int
) -> None:
    data = text.encode()
    at = min(at, len(data))
    piece = cut(spool_of(data), at, len(data), max_bytes, final=True)
    assert "\ufffd" not in piece.text
    rest = data[at:].decode("utf-8", "ignore")
    if len(data) - at <= max_bytes:
        assert piece.text == rest
        assert piece.omitted == len(data) - at - len(rest.encode())


@settings(deadline=None)
@given(data=JUNK, at=st.integers(0, 60))
def test_an_offset_inside_invalid_bytes_hides_no_later_text(data: bytes, at: int) -> None:
    at = min(at, len(data))
    piece = cut(spool_of(data), at, len(data), 1 << 20, final=True)
    assert data.decode("utf-8", "replace").endswith(piece.text)
    assert piece.omitted <= 3


@settings(deadline=None)
@given(
    data=JUNK,
    max_bytes=st.integers(0, 12) | st.integers(0, 40),
    tail=st.booleans(),
    final=st.booleans(),
)
@example(data=b"a\xff\n\xe2\x89" * 5, max_bytes=10, tail=False, final=False)
def test_invalid_bytes_are_cut_and_counted(
    data: bytes, max_bytes: int, tail: bool, final: bool
) -> None:
    piece = cut(spool_of(data), 0, len(data), max_bytes, final=final, tail=tail)
    assert 0 <= piece.omitted <= piece.cursor <= len(data)
    assert piece.cursor == (len(data) if final else len(data) - unfinished_character(data[-3:]))
    if not tail and 0 < max_bytes < piece.cursor:
        assert omission_line(piece.omitted) in piece.text
    piece.text.encode()


def test_a_cut_falls_on_line_ends_where_there_are_any() -> None:
    lines = [f"line {n}\n" for n in range(100)]
    data = "".join(lines).encode()
    piece = cut(spool_of(data), 0, len(data), 100, final=True)
    front, rear = re.split(r"… \d+ bytes left out …\n", piece.text)
    assert front == "".join(lines[:7]) and rear == "".join(lines[-6:])
    exact = cut(spool_of(data), 0, len(data), 40, final=True, tail=True)
    assert exact.text == "".join(lines[-5:])


def test_a_cut_in_one_long_line_falls_between_characters() -> None:
    data = ("≤" * 100).encode()
    piece = cut(spool_of(data), 0, len(data), 32, final=True)
    assert piece.text == "≤" * 5 + "\n" + omission_line(300 - 30) + "≤" * 5
    assert piece.omitted == 270


@pytest.mark.parametrize("read", [0, 7])
def test_dropped_output_is_omitted_behind_the_beginning(read: int) -> None:
    whole = b"".join(b"%06d\n" % n for n in range(20_000))
    spool = make(memory=10_000)
    for at in range(0, len(whole), 7):
        spool.append(whole[at : at + 7])
    for max_bytes in (1 << 20, 2_000, 100):
        piece = cut(spool, read, spool.end, max_bytes, final=True)
        front, rear = re.split(r"… \d+ bytes left out …\n", piece.text)
        assert whole[read:].startswith(front.encode()) and whole.endswith(rear.encode())
        assert len(front) % 7 == 0 == len(rear) % 7
        assert len(front + rear) + piece.omitted == len(whole) - read
        assert len(front + rear) > min(max_bytes, 19_000) - 30


def test_a_reader_after_the_drop_sees_the_rest_behind_the_line() -> None:
    spool = make(memory=1000)
    for n in range(5_000):
        spool.append(b"%06d\n" % n)
    piece = cut(spool, 10_000, spool.end, 1 << 20, final=True)
    assert piece.text.startswith(omission_line(piece.omitted))
    assert piece.text.endswith("004999\n")
    assert len(piece.text) - len(omission_line(piece.omitted)) + piece.omitted == spool.end - 10_000


@pytest.mark.parametrize("max_bytes", [1 << 20, 90_000, 10_000, 2_000])
@pytest.mark.parametrize("unread", [0, 3_000])
def test_a_failing_file_never_shows_a_byte_in_the_wrong_place(max_bytes: int, unread: int) -> None:
    files: list[int] = []

    def opened() -> int:
        files.append(open_memory())
        return files[0]

    whole = b"".join(b"%06d\n" % n for n in range(15_000))
    spool = make(memory=10_000, disk=1 << 20, open_file=opened)
    for at in range(0, len(whole), 700):
        spool.append(whole[at : at + 700])
    start = (spool.on_disk - unread) // 7 * 7 if unread else 0
    os.ftruncate(files[0], 0)
    piece = cut(spool, start, spool.end, max_bytes, final=True)
    front, line, rear = piece.text.partition(omission_line(piece.omitted))
    assert line and whole[start:].startswith(front.encode()) and whole.endswith(rear.encode())
    assert len(front + rear) + piece.omitted == len(whole) - start


def test_a_beginning_that_meets_the_stretch_needs_no_line() -> None:
    spool = make(memory=1000)
    whole = b"%0500d" % 7 * 3
    for at in range(0, len(whole), 50):
        spool.append(whole[at : at + 50])
    assert spool.start > 0
    piece = cut(spool, 0, spool.end, 2000, final=True)
    assert piece.text == whole.decode() and piece.omitted == 0
    piece = cut(spool, 0, spool.end, 1400, final=True)
    assert piece.omitted == 100


@settings(deadline=None)
@given(text=CHARACTERS, max_bytes=st.integers(0, 80))
def test_a_result_is_cut_as_output_is(text: str, max_bytes: int) -> None:
    shown, total, kept = cut_text(text, max_bytes)
    assert total == len(text.encode())
    if total <= max_bytes:
        assert (shown, kept) == (text, total)
    else:
        assert kept <= max_bytes
        assert max_bytes == 0 or omission_line(total - kept) in shown


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(1, 1 << 40))
def test_an_offset_behind_the_end_is_the_end(beyond: int) -> None:
    piece = cut(spool_of(b"abc"), 3 + beyond, 3, 10, final=False)
    assert (piece.text, piece.cursor, piece.omitted) == ("", 3, 0)


FRAMES = b"".join(b"\r%3d%% of the file" % n for n in range(500))


@pytest.mark.parametrize("max_bytes", [1 << 20, 1_000])
@pytest.mark.parametrize("tail", [False, True])
def test_a_progress_bar_on_a_pipe_is_its_last_version(max_bytes: int, tail: bool) -> None:
    spool = spool_of(b"begin\r\n", FRAMES, b"\ndone\n")
    piece = cut(spool, 0, spool.end, max_bytes, final=True, tail=tail)
    assert piece.text == "begin\r\n499% of the file\ndone\n"
    assert piece.omitted == 0


def test_every_read_of_a_progress_bar_has_the_version_of_that_time() -> None:
    spool, texts, mark = spool_of(), [], 0
    for chunk in (b"\r 1%\r 2%\r", b" 3%", b"\r 4%\r", b"\nnext\r", b"\n"):
        spool.append(chunk)
        piece = cut(spool, mark, spool.end, 1 << 20, final=False)
        texts.append(piece.text)
        mark = piece.cursor
    assert texts == [" 2%", "\r 3%", "\r 4%", "\r\nnext", "\r\n"]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r", b"\r\n"]), max_size=30).map(b"".join),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_joined_reads_have_the_versions_of_the_whole(data: bytes, cuts: list[int]) -> None:
    spool, texts, mark = spool_of(), [], 0
    for at, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        spool.append(data[at:stop])
        piece = cut(spool, mark, spool.end, 1 << 20, final=False)
        texts.append(piece.text)
        mark = piece.cursor
    texts.append(cut(spool, mark, spool.end, 1 << 20, final=True).text)
    joined = spool_of("".join(texts).encode())
    whole = cut(spool, 0, spool.end, 1 << 20, final=True).text
    assert cut(joined, 0, joined.end, 1 << 20, final=True).text == whole
