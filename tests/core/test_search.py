from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haft_protocol.errors import RpcError
from haftd.core.patterns import compile_pattern
from haftd.core.search import LineBudget, Search, match_lines
from haftd.core.spool import Budget, Spool
from haftd.regex import Pattern
from tests.core.disks import make
from tests.core.test_patterns import HOSTILE, SEQUENCES

LINES = st.lists(st.text(st.sampled_from("abx é"), max_size=12), max_size=12)


def lines_with(text: str) -> Pattern:
    return compile_pattern(text, within_lines=True)


def step(task: Search) -> bool:
    """Return True after the last step."""
    part = task.read()
    if part is not None:
        task.take(part, match_lines(part))
    return part is None


def search(spool: Spool, text: str, limit: int) -> tuple[list[tuple[int, str]], bool]:
    """Run all steps of a search at once."""
    task = Search(spool, lines_with(text), limit, LineBudget(1 << 30))
    while not step(task):
        pass
    return task.matches, task.more


def expected(text: str, pattern: str) -> list[tuple[int, str]]:
    matches, at = [], 0
    for line in text.split("\n") if text else []:
        if re.search(pattern, line, re.MULTILINE) and (line or at < len(text.encode())):
            matches.append((at, line))
        at += len(line.encode()) + 1
    return matches


@settings(deadline=None)
@given(
    lines=LINES,
    closed=st.booleans(),
    pattern=st.sampled_from(["a", "^a", "b$", "a.b", "x*", "[^a]b", "^$", r"a\s+b", "é|x"]),
    limit=st.integers(0, 6),
)
def test_lines_are_found_as_if_searched_singly(
    lines: list[str], closed: bool, pattern: str, limit: int
) -> None:
    text = "\n".join(lines) + ("\n" if closed else "")
    spool = make()
    spool.append(text.encode())
    want = expected(text, pattern)
    matches, more = search(spool, pattern, limit)
    assert matches == want[:limit]
    assert more == (len(want) > limit)


def test_lines_across_slices_disk_and_memory_are_found_once() -> None:
    spool = make(memory=1 << 16, disk=1 << 22)
    lines = [f"line {n} {'x' * (n % 90)}" for n in range(20_000)]
    for line in lines:
        spool.append(f"{line}\r\n".encode())
    assert spool.on_disk > 500_000
    task = Search(spool, lines_with(r"line \d*77\b"), 10_000, LineBudget(1 << 30))
    steps = 1
    while not step(task):
        steps += 1
    assert steps > 3 and not task.more
    assert [line for _, line in task.matches] == [s for s in lines if s.split()[1].endswith("77")]
    for cursor, line in task.matches:
        assert spool.read(cursor, cursor + len(line)) == line.encode()


def test_no_line_is_missed_or_torn_where_slices_meet() -> None:
    spool = make(memory=1 << 21)
    for n in range(90_000):
        spool.append(b"%06d\n" % n)
    task = Search(spool, lines_with(r"^\d{6}$"), 100_000, LineBudget(1 << 30))
    steps = 1
    while not step(task):
        steps += 1
    assert steps > 2
    assert task.matches == [(n * 7, f"{n:06d}") for n in range(90_000)]


def test_a_line_of_several_slices_is_found_once() -> None:
    spool = make(memory=1 << 22)
    spool.append((b"needle" + b"x" * 300_000) * 3 + b"\nneedle\n")
    matches, more = search(spool, "needle", 10)
    assert [cursor for cursor, _ in matches] == [0, 900_019] and not more


@pytest.mark.parametrize("pattern", ["0$", "^0", r"\b0", r"0\b", "^$"])
def test_the_cut_of_a_long_line_is_not_its_end(pattern: str) -> None:
    spool = make(memory=1 << 21)
    spool.append(b"x" + b"0" * 1_000_000 + b"x\n0\n")
    matches, more = search(spool, pattern, 10)
    assert [line for _, line in matches] == ([] if pattern == "^$" else ["0"]) and not more
    assert len(search(spool, "0+|y", 10)[0]) == 2


def test_a_slice_ends_the_line_where_only_a_control_string_follows() -> None:
    spool = make(memory=1 << 21)
    spool.append(b"x" * 262_143 + b"0\x1b]52;;" + b"x" * 9_000 + b"\x07")
    assert len(search(spool, "0$", 10)[0]) == 1


@pytest.mark.parametrize("size", range(4, len(SEQUENCES) + 1))
def test_no_slice_ends_inside_a_sequence(size: int) -> None:
    spool = make()
    spool.append(SEQUENCES * 3 + b"\n")
    task = Search(spool, lines_with("[1;/0]|http"), 10, LineBudget(1 << 30))
    task._size = size
    while not step(task):
        pass
    assert task.matches == []


def test_the_beginning_and_the_kept_stretch_are_both_searched() -> None:
    spool = make(memory=20_000)
    for n in range(20_000):
        spool.append(b"%06d\n" % n)
    matches, _ = search(spool, "0000$", 100)
    assert [line for _, line in matches] == ["000000"]
    matches, _ = search(spool, "1$", 10_000)
    assert matches[0] == (7, "000001") and matches[-1] == (19_991 * 7, "019991")
    assert len(matches) > 500
    assert all(cursor % 7 == 0 for cursor, line in matches[1:-1] if len(line) == 6)


def test_a_long_line_is_shown_around_its_match() -> None:
    spool = make(memory=1 << 22)
    spool.append(b"first\n" + b"x" * 600_000 + b"needle" + b"y" * 600_000 + b"\nlast needle\n")
    (one, two), more = search(spool, "needle", 10)
    assert one[0] == 6 and "needle" in one[1] and len(one[1]) < 5000
    assert one[1].startswith("…") and one[1].endswith("…")
    assert two == (spool.end - 12, "last needle") and not more


@pytest.mark.parametrize("line", [b"", b"z" * 3_000, b"\xff" * 3_000, b"z" * 5_000])
def test_searches_with_one_budget_share_its_bytes(line: bytes) -> None:
    spool = make(memory=1 << 22)
    spool.append((line + b"\n") * 100 + b"end")
    budget, sizes, more = LineBudget(40_000), [], []
    for _ in range(3):
        task = Search(spool, lines_with(""), 70, budget)
        while not step(task):
            pass
        sizes.append(sum(128 + len(text.encode()) for _, text in task.matches))
        more.append(task.more)
    assert more == [True] * 3 and sum(sizes) == budget.spent <= 40_000
    assert sizes[0] > 8_000 and budget.spent > 20_000


def test_output_that_comes_during_a_search_is_not_searched() -> None:
    spool = make()
    spool.append(b"a\n" * 300_000)
    task = Search(spool, lines_with("b"), 10, LineBudget(1 << 30))
    while not step(task):
        spool.append(b"b\n")
    assert task.matches == []


@pytest.mark.parametrize("text", HOSTILE)
def test_no_pattern_blocks_a_search(text: str) -> None:
    spool = make(memory=1 << 22)
    for n in range(200_000):
        spool.append(b"ab" if n * n % 7 < 3 else b"ba")
    task = Search(spool, lines_with(text), 10, LineBudget(1 << 30))
    worst = 0.0
    for _ in range(3):
        began = time.process_time()
        if step(task):
            break
        worst = max(worst, time.process_time() - began)
    assert worst < 0.5


def test_no_match_crosses_lines_and_an_invalid_pattern_is_refused() -> None:
    spool = make()
    spool.append(b"foo\nbar\n")
    assert search(spool, r"o\s*b|bar", 9) == ([(4, "bar")], False)
    with pytest.raises(RpcError, match="cannot be used"):
        search(spool, "(", 9)
    assert search(make(), "x*", 9) == ([], False)


@pytest.mark.parametrize("line", [b"", b"b", b"\x1b[31mb\x1b[0m", b"caf\xc3\xa9 b\r"])
def test_a_step_is_bounded_and_the_next_resumes_after_it(line: bytes) -> None:
    spool = Spool(1 << 20, 0, None, Budget(0))
    spool.append((line + b"\n") * 3_000 + b"b")
    search, steps, seen = Search(spool, lines_with("b|^$"), 10_000, LineBudget(1 << 30)), 1, 0
    while not step(search):
        assert len(search.matches) - seen <= 500
        seen, steps = len(search.matches), steps + 1
    assert steps >= 6
    size = len(line) + 1
    assert [at for at, _ in search.matches] == [n * size for n in range(3_001)]
