"""Bytes for a terminal emulator: queries and clipboard writes are left out, offsets stay those of the output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.core.spool import Spool
from haftd.core.terminal_filter import TerminalReader, find_complete_end
from haftd.runtimes.terminal.screen import Screen
from tests.core.disks import make
from tests.protocol.test_query_filter import COPY, OTHERS, QUERIES

LONG_COPY = b"\x1b]52;c;" + b"YWJj" * 20_000 + b"\x07"
PLAIN = OTHERS
PARTS = st.lists(st.sampled_from([*QUERIES, *PLAIN, COPY]), max_size=12)


def spool_of(*chunks: bytes) -> Spool:
    spool = make()
    for chunk in chunks:
        spool.append(chunk)
    return spool


def read_all(
    spool: Spool, size: int = 65_536, clipboard: bool = False, final: bool = False
) -> tuple[bytes, int]:
    """Read with a new reader for each piece, as one does that reconnects after each."""
    data, cursor = b"", 0
    while True:
        chunk = TerminalReader(clipboard).read(spool, cursor, size, final=final)
        if chunk.cursor == cursor:
            return data, cursor
        data, cursor = data + chunk.data, chunk.cursor


@pytest.mark.parametrize("query", [*QUERIES, COPY])
def test_query_or_clipboard_write_is_left_out(query: bytes) -> None:
    assert read_all(spool_of(b"a" + query + b"b")) == (b"ab", len(query) + 2)


@pytest.mark.parametrize("other", PLAIN)
def test_other_output_stays(other: bytes) -> None:
    assert read_all(spool_of(b"a" + other + b"b"))[0] == b"a" + other + b"b"


def test_clipboard_write_passes_on_request_but_a_read_never() -> None:
    spool = spool_of(COPY + b"\x1b]52;c;?\x07")
    assert read_all(spool, clipboard=True)[0] == COPY


@given(PARTS, st.integers(1, 40))
def test_pieces_read_with_a_new_reader_each_are_the_whole(parts: list[bytes], size: int) -> None:
    whole = b"".join(parts) + b"."
    expected = b"".join(part for part in parts if part in PLAIN) + b"."
    assert read_all(spool_of(whole), size) == (expected, len(whole))


@given(PARTS, st.data())
def test_output_that_arrives_in_pieces_gives_the_same(
    parts: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(parts) + b"."
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole)))))
    spool, reader, out, cursor = make(), TerminalReader(), b"", 0
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        spool.append(whole[begin:end])
        chunk = reader.read(spool, cursor, 65_536, final=False)
        out, cursor = out + chunk.data, chunk.cursor
    assert (out, cursor) == (b"".join(p for p in parts if p in PLAIN) + b".", len(whole))


@given(PARTS)
def test_filtered_output_causes_no_answer(parts: list[bytes]) -> None:
    replies: list[bytes] = []
    Screen(24, 80, replies.append).feed(read_all(spool_of(b"".join(parts)), final=True)[0])
    assert replies == []


@pytest.mark.parametrize("size", [1_000, 32_768])
@pytest.mark.parametrize("string", [LONG_COPY, LONG_COPY[:-1] + b"\x1b\\"])
def test_clipboard_write_longer_than_a_piece_is_left_out(string: bytes, size: int) -> None:
    spool = spool_of(b"a" + string[:50_000], string[50_000:] + b"b")
    assert read_all(spool, size) == (b"ab", len(string) + 2)


def test_clipboard_write_that_is_still_open_is_left_out() -> None:
    spool = spool_of(b"a" + LONG_COPY[:9_000])
    data, cursor = read_all(spool)
    spool.append(LONG_COPY[9_000:] + b"b")
    chunk = TerminalReader().read(spool, cursor, 1 << 20, final=False)
    assert data + chunk.data == b"ab"


def test_long_picture_passes_whole() -> None:
    picture = b"\x1bPq" + b"#0~~@@" * 9_000 + b"\x1b\\"
    assert read_all(spool_of(b"a" + picture + b"b"), 1_000)[0] == b"a" + picture + b"b"


def test_incomplete_sequence_waits_before_the_cursor() -> None:
    spool = spool_of(b"ab\x1b[6")
    assert read_all(spool) == (b"ab", 2)
    assert find_complete_end(spool) == 2
    assert TerminalReader().is_held_back(spool, 2, final=False)
    spool.append(b"mc")
    assert not TerminalReader().is_held_back(spool, 2, final=False)
    assert TerminalReader().read(spool, 2, 100, final=False).data == b"\x1b[6mc"


def test_incomplete_sequence_at_the_final_end_is_left_out_and_a_broken_character_is_not() -> None:
    assert read_all(spool_of(b"ab\x1b[6"), final=True) == (b"ab", 5)
    assert read_all(spool_of(b"ab\xe2\x82"), final=True) == (b"ab\xe2\x82", 4)
