from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.states import EndedBy
from haftd.core.handles import Handle, HandleSettings
from haftd.core.termination import Termination
from haftd.notice_settings import NoticePattern, NoticeSettings
from haftd.notices.pattern_scanner import PatternScanner
from tests.core.disks import make


def handle(*patterns: str, memory: int = 1 << 22) -> Handle:
    notify = NoticeSettings(patterns=tuple(NoticePattern(text, text) for text in patterns))
    handle = Handle(
        id="h",
        tool="t",
        session="s",
        generation=1,
        spool=make(memory=memory),
        now=0.0,
        settings=HandleSettings(notify=notify),
    )
    handle.start(0.0)
    return handle


def looked(scan: PatternScanner) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while scan.has_unread:
        found += [(one.pattern.name, one.line) for one in scan.scan_slice()]
    return found


def stop(one: Handle) -> None:
    one.end(Termination(by=EndedBy("exit")), 1.0)


PIECES = st.lists(
    st.sampled_from(["err", "or", " x", "\n", "\r\n", "ok", "é", "\x1b[31m"]), max_size=30
)


@given(pieces=PIECES, finished=st.booleans())
def test_each_matching_line_is_found_once_however_chunks_split_it(
    pieces: list[str], finished: bool
) -> None:
    one = handle("error")
    scan = PatternScanner(one)
    found: list[tuple[str, str]] = []
    for piece in pieces:
        for byte in piece.encode():
            one.append_output(bytes([byte]), 0.0)
            found += looked(scan)
    if finished:
        stop(one)
        found += looked(scan)
    text = "".join(pieces).replace("\x1b[31m", "")
    assert len(found) == sum("error" in line for line in text.split("\n"))


def test_an_unfinished_line_is_scanned_as_a_prompt_has_no_line_end() -> None:
    one = handle("assword: $")
    scan = PatternScanner(one)
    one.append_output(b"login\nPassword: ", 0.0)
    assert looked(scan) == [("assword: $", "Password: ")]
    one.append_output(b"*", 0.0)
    assert looked(scan) == []


def test_each_pattern_matches_a_line_in_output_order() -> None:
    one = handle("b", "a")
    one.append_output(b"a\nab\nb\n", 0.0)
    assert looked(PatternScanner(one)) == [("a", "a"), ("a", "ab"), ("b", "ab"), ("b", "b")]


def test_no_match_crosses_lines_or_is_empty_after_the_last() -> None:
    one = handle(r"a\s*b", "^$")
    one.append_output(b"a\nb\n\n", 0.0)
    assert looked(PatternScanner(one)) == [("^$", "")]


def test_a_long_line_is_cut_around_its_match_and_escaped() -> None:
    one = handle("needle")
    one.append_output(b"x" * 5_000 + b"\x07 needle \xff\x00" + b"y" * 5_000 + b"\n", 0.0)
    (found,) = looked(PatternScanner(one))
    assert "\\x07 needle \ufffd\\x00" in found[1] and len(found[1]) <= 200
    one = handle("needle")
    one.append_output(b"w" * 300 + b"\n" + b"x" * 300 + b"needle" + b"y" * 300 + b"\n", 0.0)
    (found,) = looked(PatternScanner(one))
    assert "needle" in found[1], "behind another line"
    one = handle("50%")
    one.append_output(b" 10%\r 50%\r100%\n", 0.0)
    assert looked(PatternScanner(one)) == [("50%", " 50%")]


def test_a_flood_of_matches_is_counted_up_to_a_limit_and_marked() -> None:
    one = handle("y")
    scan = PatternScanner(one)
    one.append_output(b"y\n" * 30_000, 0.0)
    found = scan.scan_slice()
    assert len(found) == 64 and found[-1].has_more and not found[0].has_more


def test_a_slice_is_small_where_an_expression_is_costly() -> None:
    cheap, costly = handle("error"), handle("(x{1,30}){1,30}y")
    for one in (cheap, costly):
        one.append_output(b"x" * 200_000, 0.0)
        scan = PatternScanner(one)
        scan.scan_slice()
        assert scan.offset <= (65_536 if one is cheap else 8_192)


@pytest.mark.parametrize("line", ["er\x1b[31mror", "er\x1b]0;title\x07ror", "\x1b[1merr\x1b[mor é"])
def test_a_line_split_by_slices_is_matched_whole(line: str) -> None:
    """An escape sequence split by the end of a slice is no part of the line."""
    data = line.encode()
    for cut in range(len(data) + 1):
        one = handle("^error( é)?$")
        scan = PatternScanner(one)
        one.append_output(b"\n" * (scan._size - cut) + data + b"\n", 0.0)
        assert len(looked(scan)) == 1, cut


def test_output_dropped_by_the_spool_is_skipped() -> None:
    one = handle("error", memory=4_096)
    scan = PatternScanner(one)
    one.append_output(b"error " * 10_000 + b"\nlast error\n", 0.0)
    found = looked(scan)
    assert found and re.search("last error", found[-1][1]) and scan.offset == one.spool.end


def test_a_closed_spool_ends_the_scan() -> None:
    one = handle("error")
    scan = PatternScanner(one)
    one.append_output(b"error\n", 0.0)
    stop(one)
    one.spool.close()
    assert looked(scan) == [] and not scan.has_unread


def test_the_next_line_is_found_after_a_match_in_an_unfinished_one() -> None:
    one = handle("error")
    scan = PatternScanner(one)
    one.append_output(b"an error", 0.0)
    first = looked(scan)
    one.append_output(b" goes on\nbegins", 0.0)
    between = looked(scan)
    one.append_output(b" an error\n", 0.0)
    assert (len(first), between) == (1, [])
    assert looked(scan) == [("error", "begins an error")]
