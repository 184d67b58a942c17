"""A timer callback comes within a millisecond, once, and only while a loop runs."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from haftd.host import timer
from tests.patience import PATIENCE_S


def _timers() -> int:
    links = (os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return sum("timerfd" in link for link in links)


async def _ringing(*seconds: float) -> list[float]:
    """Return the delays of these callbacks."""
    late: list[float] = []
    done = trio.Event()

    def ring_of(after: float, began: float) -> None:
        def ring() -> None:
            late.append(time.monotonic() - began - after)
            if len(late) == len(seconds):
                done.set()

        timer.call_in(after, ring)

    for after in seconds:
        ring_of(after, time.monotonic())
    with trio.fail_after(PATIENCE_S):
        await done.wait()
    return late


class _Kernel:
    """The kernel's timer, which notes the requested nanoseconds."""

    def __init__(self, libc: Any) -> None:
        self._libc = libc
        self.asked_ns: list[int] = []

    def timerfd_create(self, *arguments: int) -> int:
        fd: int = self._libc.timerfd_create(*arguments)
        return fd

    def timerfd_settime(self, fd: int, flags: int, spec: bytes, old: None) -> int:
        every_s, every_ns, seconds, ns = struct.unpack("=qqqq", spec)
        assert (every_s, every_ns) == (0, 0), "it rings once"
        self.asked_ns.append(seconds * 1_000_000_000 + ns)
        done: int = self._libc.timerfd_settime(fd, flags, spec, old)
        return done


class _Standing:
    """A clock that stands still."""

    def monotonic(self) -> float:
        return 64.0


def _fail() -> None:
    raise AssertionError("it was cancelled")


def _nothing() -> None:
    """Do nothing."""


async def test_the_timer_is_finer_than_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is asked for exactly the remaining time, not for a whole millisecond."""
    kernel = _Kernel(timer._libc)
    monkeypatch.setattr(timer, "_libc", kernel)
    monkeypatch.setattr(timer, "time", _Standing())
    for after_us in (2_300_000, 1_500, 200, 150, 1, 0, -5):
        timer.call_in(after_us / 1_000_000, _nothing)
    timer.call_in(1.0, lambda: None)  # Later than the current setting: no change.
    asked_us = [ns / 1_000 for ns in kernel.asked_ns]
    assert asked_us == pytest.approx([2_300_000, 1_500, 200, 150, 1, 0.001, 0.001], abs=0.01)


async def test_each_callback_comes_in_any_order_and_also_when_past() -> None:
    assert min(await _ringing(0.003, 0.001, 0.002, -1.0, 0.0, 0.004)) >= 0


async def test_a_rescheduled_callback_comes_once_at_the_new_time() -> None:
    rings: list[float] = []
    began = time.monotonic()

    def ring() -> None:
        rings.append(time.monotonic() - began)

    timer.call_in(0.0001, ring)
    timer.call_in(0.005, ring)
    await _ringing(0.01)
    assert len(rings) == 1 and rings[0] >= 0.005


async def test_a_callback_may_reschedule_itself() -> None:
    done = trio.Event()
    left = [3]

    def ring() -> None:
        left[0] -= 1
        if left[0]:
            timer.call_in(0.0001, ring)
        else:
            done.set()

    timer.call_in(0.0001, ring)
    with trio.fail_after(PATIENCE_S):
        await done.wait()


async def test_a_cancelled_callback_does_not_come_and_the_timer_is_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = _Kernel(timer._libc)
    monkeypatch.setattr(timer, "_libc", kernel)
    timer.call_in(0.0001, _fail)
    timer.cancel(_fail)
    timer.cancel(_fail)
    assert kernel.asked_ns[1:] == [0], "the kernel wakes the loop no more"
    timer.call_in(0.0001, _fail)
    ringing = _ringing(0.0002, 0.001)
    timer.call_in(0.001, _nothing)
    timer.cancel(_fail)
    await ringing


def test_a_loop_has_one_timer_and_none_after_it() -> None:
    before = _timers()

    async def main() -> int:
        await _ringing(0.0001, 0.0002)
        await _ringing(0.0001)
        return _timers()

    assert trio.run(main) == before + 1
    assert _timers() == before


def test_without_a_timer_no_callback_comes_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Nothing:
        def timerfd_create(self, *_: int) -> int:
            return -1

    monkeypatch.setattr(timer, "_libc", Nothing())

    async def main() -> None:
        timer.call_in(0.0001, lambda: pytest.fail("rung"))
        await trio.sleep(0.005)

    trio.run(main)


async def test_a_timer_that_is_set_anew_before_it_is_read_rings_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = os.read
    early = [True]

    def read_early(fd: int, size: int) -> bytes:
        if early and "timerfd" in os.readlink(f"/proc/self/fd/{fd}"):
            early.pop()
            raise BlockingIOError
        return read(fd, size)

    monkeypatch.setattr(os, "read", read_early)
    await _ringing(0.0, 0.001)
    assert not early
