from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.states import EndedBy
from haftd.core.handles import Handle, HandleSettings
from haftd.core.termination import Termination
from haftd.notice_settings import NoticePattern, NoticeSettings
from haftd.notices.pattern_scanner import MatchedLine, PatternScanner
from tests.core.disks import make
from tests.core.test_patterns import SEQUENCES


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


def matched(scan: PatternScanner) -> list[MatchedLine]:
    """Scan one slice."""
    part = scan.read()
    return [] if part is None else scan.take(part, part.find_matches())


def looked(scan: PatternScanner) -> list[tuple[str, str]]:
    matches: list[tuple[str, str]] = []
    while scan.has_unread:
        matches += [(target.pattern.name, target.line) for target in matched(scan)]
    return matches


def stop(target: Handle) -> None:
    target.end(Termination(by=EndedBy("exit")), 1.0)


PIECES = st.lists(
    st.sampled_from(["err", "or", " x", "\n", "\r\n", "ok", "é", "\x1b[31m"]), max_size=30
)


@given(pieces=PIECES, finished=st.booleans())
def test_each_matching_line_is_found_once_however_chunks_split_it(
    pieces: list[str], finished: bool
) -> None:
    target = handle("error")
    scan = PatternScanner(target)
    matches: list[tuple[str, str]] = []
    for piece in pieces:
        for byte in piece.encode():
            target.append_output(bytes([byte]), 0.0)
            matches += looked(scan)
    if finished:
        stop(target)
        matches += looked(scan)
    text = "".join(pieces).replace("\x1b[31m", "")
    assert len(matches) == sum("error" in line for line in text.split("\n"))


def test_an_unfinished_line_is_scanned_as_a_prompt_has_no_line_end() -> None:
    target = handle("assword: $")
    scan = PatternScanner(target)
    target.append_output(b"login\nPassword: ", 0.0)
    assert looked(scan) == [("assword: $", "Password: ")]
    target.append_output(b"*", 0.0)
    assert looked(scan) == []


def test_each_pattern_matches_a_line_in_output_order() -> None:
    target = handle("b", "a")
    target.append_output(b"a\nab\nb\n", 0.0)
    assert looked(PatternScanner(target)) == [("a", "a"), ("a", "ab"), ("b", "ab"), ("b", "b")]


def test_no_match_crosses_lines_or_is_empty_after_the_last() -> None:
    target = handle(r"a\s*b", "^$")
    target.append_output(b"a\nb\n\n", 0.0)
    assert looked(PatternScanner(target)) == [("^$", "")]


def test_a_long_line_is_cut_around_its_match_and_escaped() -> None:
    target = handle("needle")
    target.append_output(b"x" * 5_000 + b"\x07 needle \xff\x00" + b"y" * 5_000 + b"\n", 0.0)
    (match,) = looked(PatternScanner(target))
    assert "\\x07 needle \ufffd\\x00" in match[1] and len(match[1]) <= 200
    target = handle("needle")
    target.append_output(b"w" * 300 + b"\n" + b"x" * 300 + b"needle" + b"y" * 300 + b"\n", 0.0)
    (match,) = looked(PatternScanner(target))
    assert "needle" in match[1], "behind another line"
    target = handle("50%")
    target.append_output(b" 10%\r 50%\r100%\n", 0.0)
    assert looked(PatternScanner(target)) == [("50%", " 50%")]


def test_a_flood_of_matches_is_counted_up_to_a_limit_and_marked() -> None:
    target = handle("y")
    scan = PatternScanner(target)
    target.append_output(b"y\n" * 30_000, 0.0)
    matches = matched(scan)
    assert len(matches) == 64 and matches[-1].has_more and not matches[0].has_more


def test_a_slice_is_small_where_an_expression_is_costly() -> None:
    cheap, costly = handle("error"), handle("(x{1,30}){1,30}y")
    for target in (cheap, costly):
        target.append_output(b"x" * 200_000, 0.0)
        scan = PatternScanner(target)
        matched(scan)
        assert scan.offset <= (65_536 if target is cheap else 8_192)


@pytest.mark.parametrize("line", ["er\x1b[31mror", "er\x1b]0;title\x07ror", "\x1b[1merr\x1b[mor é"])
def test_a_line_split_by_slices_is_matched_whole(line: str) -> None:
    """An escape sequence split by the end of a slice is no part of the line."""
    data = line.encode()
    for cut in range(len(data) + 1):
        target = handle("^error( é)?$")
        scan = PatternScanner(target)
        target.append_output(b"\n" * (scan._size - cut) + data + b"\n", 0.0)
        assert len(looked(scan)) == 1, cut


@pytest.mark.parametrize("name", ["[0-9]$", r"item \d+$", r"142\b"])
@pytest.mark.parametrize("is_complete", [False, True])
def test_the_cut_of_a_slice_is_not_a_line_end(name: str, is_complete: bool) -> None:
    for line in (b"<p>item 1423</p>\n", b"<p>item 1423</p>"):
        target = handle(name)
        scan = PatternScanner(target)
        target.append_output(line * 2_000, 0.0)
        if is_complete:
            stop(target)
        while scan.has_unread:
            part = scan.read(387)
            assert part is None or not scan.take(part, part.find_matches())
    if not is_complete:
        target.append_output(b"item 142", 0.0)
        assert [match[0] for match in looked(scan)] == [name]


@pytest.mark.parametrize("rest", [b"\x1b[m", b"\x1b]52;;" + b"x" * 9_000 + b"\x07"])
def test_a_prompt_is_found_before_sequences_that_are_not_shown(rest: bytes) -> None:
    target = handle(r"\$$")
    scan = PatternScanner(target)
    target.append_output(b"out\n$" + rest, 0.0)
    found = []
    while scan.has_unread:
        part = scan.read(5)
        found += [] if part is None else scan.take(part, part.find_matches())
    assert [match.line for match in found] == ["$"]


def test_a_long_unfinished_line_begins_once() -> None:
    target = handle("^b")
    scan = PatternScanner(target)
    target.append_output(b"a" + b"b" * 300_000, 0.0)
    assert looked(scan) == []
    for _ in range(20):
        target.append_output(b"b" * 1_000, 0.0)
        assert looked(scan) == []
    target.append_output(b"\nb", 0.0)
    assert looked(scan) == [("^b", "b")]


@given(
    lines=st.lists(st.text("abx é", max_size=12), max_size=8),
    sizes=st.lists(st.integers(1, 12), max_size=20),
    name=st.sampled_from(["a$", r"ab\b", r"x\B", "^b", "^$", "[^a]$", "x+", r"^a.*b$"]),
)
def test_slices_of_known_output_give_the_lines_of_the_whole(
    lines: list[str], sizes: list[int], name: str
) -> None:
    text = "\n".join(lines)
    target = handle(name)
    target.append_output(text.encode(), 0.0)
    stop(target)
    scan, found = PatternScanner(target), []
    steps = iter([*sizes, *[200] * 3])
    while scan.has_unread:
        part = scan.read(next(steps))
        found += [] if part is None else scan.take(part, part.find_matches())
    whole = re.compile(name, re.ASCII)
    expected = [line for line in lines if whole.search(line)]
    if lines and not lines[-1] and whole.search(""):
        expected.pop()  # no line follows the last line end
    assert len(found) == len(expected)
    for match, line in zip(
        found, expected, strict=True
    ):  # a notice shows what was read of its line
        assert line.startswith(match.line.rstrip("\ufffd"))


@pytest.mark.parametrize("size", range(1, len(SEQUENCES) + 1))
def test_no_slice_ends_inside_a_sequence(size: int) -> None:
    target = handle("^(error≤y){3}$")
    scan = PatternScanner(target)
    target.append_output(SEQUENCES * 3 + b"\n", 0.0)
    found = []
    while scan.has_unread:
        part = scan.read(size)
        found += [] if part is None else scan.take(part, part.find_matches())
    assert len(found) == 1


def test_output_dropped_by_the_spool_is_skipped() -> None:
    target = handle("error", memory=4_096)
    scan = PatternScanner(target)
    target.append_output(b"error " * 10_000 + b"\nlast error\n", 0.0)
    matches = looked(scan)
    assert matches and re.search("last error", matches[-1][1]) and scan.offset == target.spool.end


def test_a_closed_spool_ends_the_scan() -> None:
    target = handle("error")
    scan = PatternScanner(target)
    target.append_output(b"error\n", 0.0)
    stop(target)
    target.spool.close()
    assert looked(scan) == [] and not scan.has_unread


def test_the_next_line_is_found_after_a_match_in_an_unfinished_one() -> None:
    target = handle("error")
    scan = PatternScanner(target)
    target.append_output(b"an error", 0.0)
    first = looked(scan)
    target.append_output(b" goes on\nbegins", 0.0)
    between = looked(scan)
    target.append_output(b" an error\n", 0.0)
    assert (len(first), between) == (1, [])
    assert looked(scan) == [("error", "begins an error")]
