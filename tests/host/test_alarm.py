"""A ring comes in less than a millisecond, once, and only while a loop runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import trio

from haftd.host import alarm


def _timers() -> int:
    links = (os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return sum("timerfd" in link for link in links)


async def _ringing(*seconds: float) -> list[float]:
    """How late each of these rings came."""
    late: list[float] = []
    done = trio.Event()

    def ring_of(after: float, began: float) -> None:
        def ring() -> None:
            late.append(time.monotonic() - began - after)
            if len(late) == len(seconds):
                done.set()

        alarm.ring_in(after, ring)

    for after in seconds:
        ring_of(after, time.monotonic())
    with trio.fail_after(5):
        await done.wait()
    return late


async def test_it_is_finer_than_the_loop() -> None:
    late = [(await _ringing(0.0002))[0] for _ in range(50)]
    assert min(late) >= 0
    assert sorted(late)[5] < 0.0006, "the loop alone takes a whole millisecond"


async def test_each_is_rung_whatever_the_order_and_also_what_is_past() -> None:
    assert min(await _ringing(0.003, 0.001, 0.002, -1.0, 0.0, 0.004)) >= 0


async def test_who_asks_again_is_rung_once_at_the_new_time() -> None:
    rings: list[float] = []
    began = time.monotonic()

    def ring() -> None:
        rings.append(time.monotonic() - began)

    alarm.ring_in(0.0001, ring)
    alarm.ring_in(0.005, ring)
    await _ringing(0.01)
    assert len(rings) == 1 and rings[0] >= 0.005


async def test_who_is_rung_may_ask_again() -> None:
    done = trio.Event()
    left = [3]

    def ring() -> None:
        left[0] -= 1
        if left[0]:
            alarm.ring_in(0.0001, ring)
        else:
            done.set()

    alarm.ring_in(0.0001, ring)
    with trio.fail_after(5):
        await done.wait()


def test_there_is_one_timer_for_a_loop_and_none_after_it() -> None:
    before = _timers()

    async def main() -> int:
        await _ringing(0.0001, 0.0002)
        await _ringing(0.0001)
        return _timers()

    assert trio.run(main) == before + 1
    assert _timers() == before


def test_without_a_timer_nobody_is_rung_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        def timerfd_create(self, *_: int) -> int:
            return -1

    monkeypatch.setattr(alarm, "_libc", Nothing())

    async def main() -> None:
        alarm.ring_in(0.0001, lambda: pytest.fail("rung"))
        await trio.sleep(0.005)

    trio.run(main)
