"""Which texts are matched in the loop, by the time that the matching has taken."""

from __future__ import annotations

import threading

import pytest

from haftd import matching
from haftd.matching import Matching


class Clock:
    """Time passes by `match` alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    thread_time = monotonic

    def match(self, seconds: float) -> str:
        self.now += seconds
        return "match"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(matching, "time", one)
    monkeypatch.setattr(matching, "_credit", matching._Credit())
    return one


def test_the_size_of_a_text_in_the_loop_follows_from_the_cost(clock: Clock) -> None:
    assert Matching(10).loop_size() == 25_000
    assert Matching(1_000).loop_size() == 250
    assert Matching(3_000).loop_size() == 0, "all of it is matched in threads"


def test_a_pattern_that_was_slow_is_matched_in_the_loop_by_short_texts(clock: Clock) -> None:
    slow, fast = Matching(10), Matching(10)
    assert slow.match(lambda: clock.match(0.0025), 25_000) == "match"
    fast.match(lambda: clock.match(0.00001), 25_000)
    assert slow.loop_size() == 5_000 and fast.loop_size() == 25_000
    slow.match(lambda: clock.match(0.00001), 5_000)
    assert slow.loop_size() == 25_000


def test_slow_patterns_share_the_time_of_the_loop(clock: Clock) -> None:
    for _ in range(2):
        first = Matching(10)
        assert first.loop_size()
        first.match(lambda: clock.match(0.003), 25_000)
    assert Matching(10).loop_size() == 0, "a third one would add up"
    clock.now += 0.1
    assert Matching(10).loop_size()


async def test_a_text_in_a_thread_is_measured_too() -> None:
    costly = Matching(4_000)
    thread = await costly.match_in_thread(threading.get_ident, 1_000)
    assert thread != threading.get_ident() and costly.used_s > 0
