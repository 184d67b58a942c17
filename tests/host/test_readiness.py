"""Callbacks for readable descriptors, without a task for each."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from haftd.host import readiness


@pytest.fixture
def pipes() -> Iterator[list[tuple[int, int]]]:
    pipes = [os.pipe() for _ in range(2)]
    yield pipes
    for pipe in pipes:
        for fd in pipe:
            os.close(fd)


async def test_a_callback_runs_in_each_pass_until_the_watch_ends(
    pipes: list[tuple[int, int]],
) -> None:
    (read, write), (other, _) = pipes
    calls: list[int] = []
    ended = trio.Event()

    def on_readable() -> None:
        calls.append(read)
        if len(calls) == 3:
            readiness.unwatch(read)
            ended.set()

    readiness.watch(read, on_readable)
    readiness.watch(other, lambda: calls.append(other))
    await trio.testing.wait_all_tasks_blocked()
    assert calls == []
    os.write(write, b"x")
    await ended.wait()
    await trio.testing.wait_all_tasks_blocked()
    assert calls == [read] * 3
    readiness.unwatch(other)
    readiness.unwatch(other)


async def test_a_watch_that_another_callback_has_ended_calls_nothing(
    pipes: list[tuple[int, int]],
) -> None:
    reads = [read for read, _ in pipes]
    calls: list[int] = []

    def end_all() -> None:
        calls.append(1)
        for read in reads:
            readiness.unwatch(read)

    for read, write in pipes:
        readiness.watch(read, end_all)
        os.write(write, b"x")
    await trio.testing.wait_all_tasks_blocked()
    assert calls == [1]


async def test_a_callback_can_be_called_before_the_next_pass_except_by_another(
    pipes: list[tuple[int, int]],
) -> None:
    (read, write), (other, _) = pipes
    os.set_blocking(read, False)
    calls: list[str] = []
    call_after = readiness.get_call_after()

    def take() -> None:
        calls.append(os.read(read, 10).decode())
        assert call_after(lambda: calls.append("after"))
        readiness.call_now([read, other])

    readiness.watch(read, take)
    readiness.watch(other, lambda: calls.append("other"))
    os.write(write, b"now")
    readiness.call_now([read])
    assert calls == ["now", "after"]
    assert not call_after(lambda: None)
    readiness.unwatch(read)
    readiness.call_now([read])
    assert calls == ["now", "after"]
