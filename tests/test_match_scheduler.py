"""Which texts are matched in the loop, by the time that the matching has taken."""

from __future__ import annotations

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from haftd import match_scheduler
from haftd.match_scheduler import MatchScheduler, Turn
from tests.patience import PATIENCE_S


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
    monkeypatch.setattr(match_scheduler, "time", one)
    monkeypatch.setattr(match_scheduler, "_credit", match_scheduler._Credit())
    return one


def test_the_size_of_a_text_in_the_loop_follows_from_the_cost(clock: Clock) -> None:
    assert MatchScheduler(10).loop_size() == 25_000
    assert MatchScheduler(1_000).loop_size() == 250
    assert MatchScheduler(3_000).loop_size() == 0, "all of it is matched in threads"


def test_a_pattern_that_was_slow_is_matched_in_the_loop_by_short_texts(clock: Clock) -> None:
    slow, fast = MatchScheduler(10), MatchScheduler(10)
    assert slow.match(lambda: clock.match(0.0025), 25_000) == "match"
    fast.match(lambda: clock.match(0.00001), 25_000)
    assert slow.loop_size() == 5_000 and fast.loop_size() == 25_000
    slow.match(lambda: clock.match(0.00001), 5_000)
    assert slow.loop_size() == 25_000


def test_slow_patterns_share_the_time_of_the_loop(clock: Clock) -> None:
    for _ in range(2):
        first = MatchScheduler(10)
        assert first.loop_size()
        first.match(lambda: clock.match(0.003), 25_000)
    assert MatchScheduler(10).loop_size() == 0, "a third one would add up"
    clock.now += 0.1
    assert MatchScheduler(10).loop_size()


async def test_a_text_in_a_thread_is_measured_too() -> None:
    costly = MatchScheduler(4_000)
    async with Turn(Client()) as turn:
        thread = await costly.match_in_thread(turn, threading.get_ident, 1_000)
    assert thread != threading.get_ident() and costly.used_s > 0


def test_the_time_of_a_short_text_says_nothing_of_a_long_one(clock: Clock) -> None:
    """The call itself takes microseconds."""
    matching = MatchScheduler(10)
    matching.match(lambda: clock.match(0.00002), 1)
    assert matching.loop_size() == 25_000


def test_texts_of_a_moment_use_up_no_time_of_the_loop(clock: Clock) -> None:
    matching = MatchScheduler(10)
    for _ in range(1_000):
        matching.match(lambda: clock.match(0.00009), 25_000)
    assert MatchScheduler(10).loop_size() == 25_000


class Client:
    """A caller; only its identity counts."""


class Held:
    """Work that waits for `go` in its thread."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.go.wait(PATIENCE_S)

    async def wait_begun(self) -> None:
        assert await trio.to_thread.run_sync(self.begun.wait, PATIENCE_S)


async def match(client: object, work: Held) -> None:
    async with Turn(client) as turn:
        await MatchScheduler(4_000).match_in_thread(turn, work, 1_000)


async def test_two_texts_at_a_time_are_matched_in_threads() -> None:
    works, clients = [Held() for _ in range(4)], [Client() for _ in range(4)]
    default = trio.to_thread.current_default_thread_limiter()
    async with trio.open_nursery() as nursery:
        for client, work in zip(clients, works, strict=True):
            nursery.start_soon(match, client, work)
        await wait_all_tasks_blocked()
        assert default.borrowed_tokens == 0, "other work has threads of its own"
        assert match_scheduler._threads().borrowed_tokens == 2
        for work in works:
            work.go.set()
    assert all(work.begun.is_set() for work in works)


async def test_the_thread_of_a_cancelled_call_keeps_the_turn_of_its_client() -> None:
    client, abandoned, queued, following, other = Client(), Held(), Held(), Held(), Held()
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as cancelled:
            cancelled.start_soon(match, client, abandoned)
            await abandoned.wait_begun()
            cancelled.start_soon(match, client, queued)
            await wait_all_tasks_blocked()
            cancelled.cancel_scope.cancel()
        nursery.start_soon(match, client, following)
        await wait_all_tasks_blocked()
        assert match_scheduler._threads().borrowed_tokens == 1, "of the abandoned text"
        other.go.set()
        await match(Client(), other)
        assert not following.begun.is_set()
        abandoned.go.set()
        await following.wait_begun()
        following.go.set()
    assert not queued.begun.is_set()
