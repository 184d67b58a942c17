from __future__ import annotations

import re
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from haft_protocol.errors import RpcError
from haftd.core.patterns import OutputMatcher, compile_pattern, read_slice, slice_size
from haftd.core.spool import Spool
from haftd.regex import Match
from tests.core.disks import make

PATTERNS = [
    "needle", "^b", "a.c", "ab*c", "a\\nb", "^x\\s+b", "é≤", "[^a]b", "(?s)x.b", "\\bab",
    "a{3}", "^\\$ ", "(?i)ABC", "x|é", "[\\n]b", "c$\\n",
]  # fmt: skip
MATCHED = ["needle", "b", "aéc", "abbc", "a\nb", "x\n\nb", "é≤", "xb", "aaa", "\n$ ", "abC", "c\n"]
"""Texts that are matched by one pattern each, and may be by others."""
ENDS = ["c$", "ab\\b", "ab\\B", "[^x]$", "$", "x+", "(?s)a.*c$", "ab?\\z"]
"""Patterns for which the end of a text counts."""
TEXTS = st.lists(
    st.text(st.sampled_from("abcx $\né≤"), max_size=30) | st.sampled_from(MATCHED), max_size=6
).map("".join)


def feed(watch: OutputMatcher, data: bytes) -> bool:
    """Match output that is in no spool."""
    for at in range(0, len(data), watch.size):
        piece = data[at : at + watch.size]
        if watch.match_range is None:
            watch.read(piece, watch.offset + len(piece))
            search(watch)
    return watch.match_range is not None


def search(watch: OutputMatcher) -> None:
    """Match what was read."""
    while watch.match_range is None and watch.has_unsearched:
        text = watch.next_text(make(), watch.size)
        watch.take(text, text.search())


def scan(watch: OutputMatcher, spool: Spool) -> bool:
    """Match one slice of a spool."""
    if watch.match_range is None and watch.has_unread(spool):
        text = watch.next_text(spool, watch.size)
        watch.take(text, text.search(), spool)
    return watch.match_range is not None


def finish(watch: OutputMatcher) -> bool:
    if watch.match_range is None and watch.release_echo():
        search(watch)
    return watch.match_range is not None


@settings(deadline=None)
@given(text=TEXTS, cuts=st.lists(st.integers(0, 150), max_size=10), name=st.sampled_from(PATTERNS))
@example("x\n\nb", [1, 2, 3], "^x\\s+b")
@example("ab", [1], "^b")
def test_pieces_give_the_same_match_as_the_whole(text: str, cuts: list[int], name: str) -> None:
    data = text.encode()
    pattern = compile_pattern(name)
    watch = OutputMatcher(pattern)
    found = False
    for at, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        found = feed(watch, data[at:stop]) or found
    whole = pattern.search(data)
    assert watch.match_range is None or found
    if whole is None:
        assert watch.match_range is None or not name.isalnum()
    assert (whole is not None) == found
    if whole is not None and watch.match_range is not None:
        begin, end = watch.match_range
        assert begin == whole.start()
        assert end <= whole.end() and re.fullmatch(f"(?m){name}", data[begin:end].decode())


@settings(deadline=None)
@given(
    text=TEXTS,
    sizes=st.lists(st.integers(0, 20), max_size=20),
    name=st.sampled_from(PATTERNS + ENDS),
)
@example("cx", [1], "c$")
@example("abx", [2], "ab\\b")
@example("ab ", [2], "ab\\B")
@example("xxb", [1], "x+")
@example("\n\nc", [1], "$")
def test_slices_of_known_output_give_the_same_match_as_the_whole(
    text: str, sizes: list[int], name: str
) -> None:
    """The end of a slice is not the end of the output."""
    data = text.encode()
    pattern = compile_pattern(name)
    watch = OutputMatcher(pattern)
    spool = make()
    spool.append(data)
    steps = iter([*sizes, *[watch.size] * 3])
    while watch.match_range is None and watch.has_unread(spool):
        part = watch.next_text(spool, next(steps))
        watch.take(part, part.search(), spool)
    whole = pattern.search(data) if data else None
    assert watch.match_range == (None if whole is None else (whole.start(), whole.end()))


@pytest.mark.parametrize("line", [b"<p>item 1423</p>\n", b"<p>item 1423</p>"])
@pytest.mark.parametrize("name", ["[0-9]$", r"item \d+$", r"142\b", r"(?s)<p>.*\d$"])
def test_the_cut_of_a_slice_is_not_a_line_end(line: bytes, name: str) -> None:
    """The sizes leave each byte of a line at the end of a slice once, also of lines that are too long to carry."""
    spool = make(memory=1 << 20)
    spool.append(line * 3_000 if line.endswith(b"\n") else line * 20_000)
    for size in (387, 41_666):
        watch = OutputMatcher(compile_pattern(name))
        while watch.has_unread(spool):
            text = watch.next_text(spool, size)
            assert not watch.take(text, text.search(), spool)
    spool.append(b"item 142")
    while watch.match_range is None and watch.has_unread(spool):
        scan(watch, spool)
    assert watch.match_range is not None and watch.match_range[1] == spool.end


@pytest.mark.parametrize("name", ["<p>.*", r"(?s)<p>.*", r"<p>.*\d"])
def test_a_match_that_is_longer_than_the_carried_text_is_found(name: str) -> None:
    spool = make(memory=1 << 20)
    spool.append(b"<p>" + b"7" * 500_000)
    watch, steps = OutputMatcher(compile_pattern(name)), 0
    while watch.match_range is None:
        text = watch.next_text(spool, 20_000)
        watch.take(text, text.search(), spool)
        steps += 1
    assert watch.match_range[0] == 0 and steps <= 4


@pytest.mark.parametrize(
    "rest", [b"\x1b[m", b"\x1b]0;title\x07", b"\x1b]52;;" + b"x" * 9_000 + b"\x07"]
)
def test_a_prompt_matches_before_sequences_that_are_not_shown(rest: bytes) -> None:
    spool = make(memory=1 << 16)
    spool.append(b"out $ and more\n$ " + rest)
    watch = OutputMatcher(compile_pattern(r"^\$ $"))
    while watch.match_range is None and watch.has_unread(spool):
        text = watch.next_text(spool, 17)
        watch.take(text, text.search(), spool)
    assert watch.match_range is not None


SEQUENCES = "er\x1b[1;31mro\x1b]8;;https://example.org/\x1b\\r≤\x1b]0;x\x07y".encode()
"""A line whose text is `error≤y`."""


@pytest.mark.parametrize("size", range(1, len(SEQUENCES) + 1))
def test_no_slice_ends_inside_a_sequence(size: int) -> None:
    spool = make()
    spool.append(SEQUENCES * 3 + b"\n")
    watch = OutputMatcher(compile_pattern("^(error≤y){3}$"))
    while watch.match_range is None and watch.has_unread(spool):
        text = watch.next_text(spool, size)
        watch.take(text, text.search(), spool)
    assert watch.match_range is not None


def test_a_line_without_end_is_searched_in_linear_time() -> None:
    """Its text is carried within bounds, though each slice ends with a match that more output may change."""
    spool = make(memory=1 << 22)
    spool.append(b"7" * 2_000_000)
    for name in ("[0-9]$", r"x|\d\b", "$", r"7+\z"):
        watch, searched = OutputMatcher(compile_pattern(name)), 0
        while watch.has_unread(spool) and watch.match_range is None:
            text = watch.next_text(spool, watch.size)
            searched += len(text.text)
            watch.take(text, text.search(), spool)
        assert watch.match_range is not None and watch.match_range[1] == spool.end
        assert searched <= 2 * spool.end


def test_a_prompt_matches_at_the_end_of_the_output_so_far() -> None:
    watch = OutputMatcher(compile_pattern(r"^\$ $"))
    assert not feed(watch, b"out $ \n$")
    assert feed(watch, b" ")
    assert watch.match_range == (7, 9)
    assert feed(watch, b"more") and watch.match_range == (7, 9)


def test_the_byte_before_the_start_counts_for_look_behind() -> None:
    assert not feed(OutputMatcher(compile_pattern("^b"), 5, b"a"), b"b")
    watch = OutputMatcher(compile_pattern("^b"), 5, b"a\n")
    assert feed(watch, b"b") and watch.match_range == (5, 6)
    assert not feed(OutputMatcher(compile_pattern(r"\bb"), 5, b"a"), b"b")


@pytest.mark.parametrize("text", ["^b", "^b(?s)"])
def test_a_piece_that_begins_in_a_line_is_no_line_start(text: str) -> None:
    watch = OutputMatcher(compile_pattern(text), 5, b"a")
    assert not feed(watch, b"") and not feed(watch, b"b") and not feed(watch, b"b")
    watch = OutputMatcher(compile_pattern(text))
    assert not feed(watch, b"a" + b"b" * 70_000)
    assert not feed(watch, b"b")
    assert feed(watch, b"\nb") and watch.match_range == (70_003, 70_004)


class Counting:
    """A pattern that never matches and counts the bytes searched."""

    pattern = "(?m)x"
    programsize = 10

    def __init__(self) -> None:
        self.seen: list[int] = []

    def search(self, text: bytes, pos: int | None = None) -> Match | None:
        self.seen.append(len(text) - (pos or 0))
        return None


def test_a_finished_line_is_not_searched_again() -> None:
    pattern = Counting()
    watch = OutputMatcher(pattern)
    for _ in range(100):
        feed(watch, b"a line\nand")
    assert max(pattern.seen) == 13
    for _ in range(100):
        feed(watch, b"y" * 1000)
    assert max(pattern.seen) <= 65_536 + 1000


def test_re2_caches_no_expression_besides_ours() -> None:
    for n in range(50):
        compile_pattern(f"kept{n}")
    assert re2._Regexp._make.cache_info().currsize <= 1


def test_a_matcher_reads_a_spool_in_slices_and_skips_dropped_output() -> None:
    spool = make(memory=1 << 21)
    spool.append(b"x" * 1_000_000)
    watch = OutputMatcher(compile_pattern("need+le"))
    rounds = 0
    while watch.has_unread(spool):
        assert not scan(watch, spool)
        rounds += 1
    assert rounds > 2 and watch.offset == 1_000_000
    spool.append(b"nee")
    assert not scan(watch, spool)
    spool.append(b"dle")
    assert scan(watch, spool) and watch.match_range == (1_000_000, 1_000_006)
    late, spool = OutputMatcher(compile_pattern("^1999")), make(memory=1000)
    for n in range(2000):
        spool.append(b"%d\n" % n)
    assert scan(late, spool) and late.match_range == (8885, 8889)


def test_a_long_unfinished_line_is_carried_within_bounds() -> None:
    watch = OutputMatcher(compile_pattern("^a.*z"))
    assert not feed(watch, b"a")
    for _ in range(60):
        assert not feed(watch, b"." * 1000)
    assert feed(watch, b"z")
    watch = OutputMatcher(compile_pattern("^a.*z"))
    feed(watch, b"a")
    for _ in range(200):
        feed(watch, b"." * 1000)
    assert not feed(watch, b"z")


@pytest.mark.parametrize(
    "text", ["(", "a(?=b)", r"(a)\1", "a{2000}", "(?:a{999}){999}", r"(?:\pL{9}){99}", "\udc80"]
)
def test_an_invalid_pattern_raises_invalid_params_with_the_reason(text: str) -> None:
    for within_lines in (False, True):
        with pytest.raises(
            RpcError, match=r"^The params are invalid: `pattern` .* cannot"
        ) as caught:
            compile_pattern(text, within_lines=within_lines)
        assert caught.value.kind == "invalid_params" and caught.value.message.endswith(".")
        assert "(?m)" not in caught.value.message


HOSTILE = ["[ab]*a[ab]{900}c", "(?:[ab]{0,99}a[ab]{0,99}){4}c", "(?:a?){500}a{500}c", "(x+x+)+y"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_pattern_blocks_the_loop(text: str) -> None:
    spool = make(memory=1 << 20)
    for n in range(100_000):
        spool.append(b"ab" if n * n % 7 < 3 else b"ba")
    watch = OutputMatcher(compile_pattern(text))
    worst = 0.0
    for _ in range(2):
        began = time.process_time()
        scan(watch, spool)
        worst = max(worst, time.process_time() - began)
    assert worst < 0.5
    assert slice_size(compile_pattern(text)) >= 1024


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ([b"echo READY\r\n", b"READY\r\n"], True),
        ([b"ec", b"ho REA", b"DY", b"\r\nREADY"], True),
        ([b"echo RE \rADY\r\n"], False),
        ([b"echo READY\r\n$ "], False),
        ([b"echo READY"], False),
        ([b"READY at once\r\n"], True),
        ([b"echo READ", b"INESS, no READY\r\n"], True),
    ],
)
def test_the_echo_of_typed_input_is_no_match(printed: list[bytes], found: bool) -> None:
    watch = OutputMatcher(compile_pattern("READY"), echo=b"echo READY")
    for data in printed:
        feed(watch, data)
    assert finish(watch) == found


def test_a_broken_off_echo_is_matched_at_the_end() -> None:
    watch = OutputMatcher(compile_pattern("echo"), echo=b"echo READY")
    assert not feed(watch, b"echo ")
    assert finish(watch)


@pytest.mark.parametrize("typed", [b"x" * 100_000, b"x"])
def test_a_long_echo_is_looked_at_once_and_blanks_are_none_without_end(typed: bytes) -> None:
    watch = OutputMatcher(compile_pattern("y"), echo=typed + b"z")
    printed = typed if len(typed) > 1 else b"\n" * 100_000
    steps = 0

    class Counted(bytes):
        def __iter__(self) -> Iterator[int]:
            nonlocal steps
            steps += len(self)
            return super().__iter__()

    for at in range(0, len(printed), 1_000):
        watch._rendering = cast(Any, SimpleNamespace(plain=Counted))
        feed(watch, printed[at : at + 1_000])
    assert steps <= len(printed)
    assert len(watch._held) == (0 if len(typed) == 1 else len(typed))
    assert not feed(watch, b"z\n") and feed(watch, b"y")


def test_output_in_which_an_echo_is_sought_is_read_in_small_slices() -> None:
    """Each byte is compared in Python."""
    spool = make(memory=1 << 20)
    spool.append(b"x" * 100_000 + b"\ny")
    watch = OutputMatcher(compile_pattern("y"), echo=b"x" * 50_000)
    while watch.has_unread(spool) and watch.offset < 50_000:
        before = watch.offset
        scan(watch, spool)
        assert watch.offset - before <= 16_384


def test_output_with_control_characters_is_converted_in_small_slices() -> None:
    spool = make(memory=1 << 21)
    spool.append(b"x" * 300_000 + b"\x1b[1m" * 100_000)
    at, sizes = 0, []
    while at < spool.end:
        data, end = read_slice(spool, at, 262_144, spool.end)
        sizes.append(len(data))
        at = end
    assert sizes[0] == 262_144 and set(sizes[1:-1]) == {16_384}
    assert sum(sizes) == spool.end
