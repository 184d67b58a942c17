"""Every byte is moved once, in order, without delaying other tasks."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from haftd.host import pump as room
from haftd.host.pump import CHUNK, Closed, InputFull, Writer, drain, pump
from haftd.host.tty import pseudo_terminal
from tests.effort import examples


class Pipe:
    """Both ends, not blocking."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        for fd in (self.read, self.write):
            try:
                os.close(fd)
            except OSError:
                pass


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def fill(fd: int) -> int:
    """Write until blocked; return the number of bytes."""
    count = 0
    try:
        while True:
            count += os.write(fd, bytes(CHUNK))
    except BlockingIOError:
        return count


async def test_reads_of_a_flood_arrive_in_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gives 4 KiB a read; a line is not held up for more."""
    reads = [b"line\n", None, *[bytes(4095)] * 7, b"end\n", None, bytes(4095), b""]
    left = iter([*reads, b""])
    monkeypatch.setattr(room, "_read", lambda fd: next(left))
    monkeypatch.setattr(room, "_TURN_S", 60.0)
    monkeypatch.setattr(trio.lowlevel, "wait_readable", lambda fd: trio.lowlevel.checkpoint())
    chunks: list[bytes] = []
    await pump(-1, chunks.append)
    assert [len(chunk) for chunk in chunks] == [5, 4 * 4095, 3 * 4095 + 4, 4095]
    assert b"".join(chunks) == b"".join(read for read in reads if read)


def test_a_turn_of_little_output_takes_one_read(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel has given all: another read would find nothing."""
    chunks: list[bytes] = []
    sizes: list[int | None] = []
    real = room._read

    def read(fd: int) -> bytes | None:
        data = real(fd)
        sizes.append(None if data is None else len(data))
        return data

    monkeypatch.setattr(room, "_read", read)
    reader = room.Reader(pipe.read, chunks.append)
    for line in (b"one\n", b"two\n"):
        os.write(pipe.write, line)
        reader.turn()
        assert reader.is_idle and not reader.at_end
    reader.turn()
    assert reader.is_idle
    assert (chunks, sizes) == ([b"one\n", b"two\n"], [4, 4, None])


async def test_a_consumer_that_does_not_keep_up_gets_single_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = iter([*[bytes(4095)] * 12, b""])
    behind = iter([True, True, False])
    monkeypatch.setattr(room, "_read", lambda fd: next(left, b""))
    monkeypatch.setattr(room, "_TURN_S", 60.0)
    chunks: list[int] = []

    def keep_up() -> Awaitable[None] | None:
        return trio.lowlevel.checkpoint() if next(behind, False) else None

    await pump(-1, lambda data: chunks.append(len(data)), keep_up)
    assert [size // 4095 for size in chunks] == [4, 1, 1, 4, 2]


async def test_all_bytes_arrive_in_order_up_to_the_end(pipe: Pipe) -> None:
    data = os.urandom(1 << 20)
    got = bytearray()

    def write() -> None:
        os.set_blocking(pipe.write, True)
        with os.fdopen(pipe.write, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    await pump(pipe.read, got.extend)
    thread.join()
    assert got == data


async def test_available_bytes_are_read_before_any_wait(pipe: Pipe) -> None:
    os.write(pipe.write, b"now")
    got: list[bytes] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump, pipe.read, got.append)
        await wait_all_tasks_blocked()
        assert got == [b"now"]
        os.close(pipe.write)


async def test_a_cancelled_pump_loses_nothing(pipe: Pipe) -> None:
    got: list[bytes] = []
    for part in (b"one", b"two", b"three"):
        with trio.CancelScope() as scope:

            def take(data: bytes, scope: trio.CancelScope = scope) -> None:
                got.append(data)
                scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(pump, pipe.read, take)
                await wait_all_tasks_blocked()
                os.write(pipe.write, part)
        assert scope.cancelled_caught
    assert got == [b"one", b"two", b"three"]


async def test_an_endless_stream_lets_other_tasks_run() -> None:
    fd = os.open("/dev/zero", os.O_RDONLY)
    reads = 0

    def count(_: bytes) -> None:
        nonlocal reads
        reads += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump, fd, count)
        for _n in range(5):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert 0 < reads <= 6 * 8
    os.close(fd)


async def test_a_slow_chunk_is_the_last_of_its_turn(
    mock_clock: trio.testing.MockClock,
) -> None:
    fd = os.open("/dev/zero", os.O_RDONLY)
    reads = 0

    def work(_: bytes) -> None:
        nonlocal reads
        reads += 1
        mock_clock.jump(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump, fd, work)
        for turn in range(1, 5):
            await trio.lowlevel.checkpoint()
            assert reads <= turn
        nursery.cancel_scope.cancel()
    os.close(fd)


async def test_nothing_is_read_before_the_last_chunk_is_processed(pipe: Pipe) -> None:
    go = trio.Event()
    got: list[bytes] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump, pipe.read, got.append, lambda: None if go.is_set() else go.wait())
        await wait_all_tasks_blocked()
        for part in (b"one", b"two"):
            os.write(pipe.write, part)
            await wait_all_tasks_blocked()
            assert got == [b"one"]
        go.set()
        await wait_all_tasks_blocked()
        assert got == [b"one", b"two"]
        os.close(pipe.write)


async def test_the_hangup_of_a_terminal_is_an_end() -> None:
    """A read fails with EIO, after the last byte."""
    master, slave = pseudo_terminal.open_terminal(24, 80)
    other = os.open(slave, os.O_RDWR | os.O_NOCTTY)
    os.write(other, b"last words\n")
    os.close(other)
    got = bytearray()
    await pump(master, got.extend)
    assert got == b"last words\r\n"
    os.close(master)


async def test_closing_wakes_the_pump(pipe: Pipe) -> None:
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await pump(pipe.read, print)

        nursery.start_soon(run)
        await wait_all_tasks_blocked()
        room.close(pipe.read)


def test_drain_takes_available_bytes_and_reports_completeness(pipe: Pipe) -> None:
    got = bytearray()
    assert not drain(pipe.read, got.extend)
    os.write(pipe.write, b"abc")
    assert not drain(pipe.read, got.extend)
    os.write(pipe.write, b"def")
    os.close(pipe.write)
    assert drain(pipe.read, got.extend)
    assert got == b"abcdef"


def test_drain_ends_on_an_endless_stream() -> None:
    fd = os.open("/dev/zero", os.O_RDONLY)
    got = bytearray()
    assert not drain(fd, got.extend, 200_000)
    assert 200_000 <= len(got) < 200_000 + CHUNK
    os.close(fd)


# The writer


def test_a_fitting_write_happens_at_once(pipe: Pipe) -> None:
    done: list[int] = []
    writer = Writer(pipe.write, done.append)
    assert [writer.put(b"a"), writer.put(b""), writer.put(b"b")] == [1, 2, 3]
    assert os.read(pipe.read, 10) == b"ab"
    assert done == [1, 2, 3] and writer.waiting == 0 and writer.last == 3


@settings(max_examples=examples(12), deadline=None)
@given(sizes=st.lists(st.integers(0, 200_000), max_size=8), reads=st.integers(1, 150_000))
def test_items_arrive_whole_and_in_order(sizes: list[int], reads: int) -> None:
    """With any queue length and reading speed."""
    items = [bytes([65 + n]) * size for n, size in enumerate(sizes)]
    done: list[int] = []
    got = bytearray()

    async def main() -> None:
        pipe = Pipe()
        writer = Writer(pipe.write, done.append, lambda: os.close(pipe.write), limit=1 << 30)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.run)
            for item in items:
                writer.put(item)
            writer.end()
            while True:
                try:
                    part = os.read(pipe.read, reads)
                except BlockingIOError:
                    await trio.lowlevel.wait_readable(pipe.read)
                    continue
                if not part:
                    break
                got.extend(part)
        os.close(pipe.read)

    trio.run(main)
    assert got == b"".join(items)
    assert done == list(range(1, len(items) + 1))


async def test_a_written_item_reports_its_number(pipe: Pipe) -> None:
    done: list[int] = []
    writer = Writer(pipe.write, done.append)
    taken = fill(pipe.write)
    writer.put(b"x" * 100)
    writer.put(b"y")
    assert done == [] and writer.waiting == 101
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await wait_all_tasks_blocked()
        assert done == []
        got = bytearray()
        while len(got) < taken + 101:
            drain(pipe.read, got.extend)
            await trio.lowlevel.checkpoint()
        assert got[taken:] == b"x" * 100 + b"y" and done == [1, 2]
        nursery.cancel_scope.cancel()


def test_items_over_the_limit_are_refused_and_harm_nothing(pipe: Pipe) -> None:
    fill(pipe.write)
    writer = Writer(pipe.write, limit=1000)
    writer.put(b"x" * 900)
    with pytest.raises(InputFull, match="900 bytes are queued; the limit is 1,000"):
        writer.put(b"y" * 101)
    assert writer.waiting == 900 and writer.last == 1
    assert writer.put(b"y" * 100) == 2


def test_a_single_item_may_exceed_the_limit(pipe: Pipe) -> None:
    writer = Writer(pipe.write, limit=10)
    assert writer.put(b"x" * 200_000) == 1
    with pytest.raises(InputFull):
        writer.put(b"y")


async def test_a_closed_reader_ends_the_writer_and_every_item_is_resolved(pipe: Pipe) -> None:
    done: list[int] = []
    fill(pipe.write)
    writer = Writer(pipe.write, done.append)
    writer.put(b"a")
    writer.put(b"b")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await wait_all_tasks_blocked()
        os.close(pipe.read)
    assert writer.closed and writer.waiting == 0 and done[-1] == 2
    with pytest.raises(Closed):
        writer.put(b"c")


def test_a_closed_reader_is_noticed_by_the_next_item(pipe: Pipe) -> None:
    done: list[int] = []
    os.close(pipe.read)
    writer = Writer(pipe.write, done.append)
    assert writer.put(b"a") == 1
    assert writer.closed and done == [1]


async def test_closing_the_descriptor_ends_the_writer(pipe: Pipe) -> None:
    fill(pipe.write)
    writer = Writer(pipe.write)
    writer.put(b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await wait_all_tasks_blocked()
        room.close(pipe.write)
    assert writer.closed


async def test_end_of_input_follows_queued_items(pipe: Pipe) -> None:
    ends: list[int] = []
    writer = Writer(pipe.write, on_end=lambda: ends.append(writer.waiting))
    taken = fill(pipe.write)
    writer.put(b"last")
    writer.end()
    writer.end()
    assert ends == [] and writer.closed
    with pytest.raises(Closed):
        writer.put(b"too late")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await wait_all_tasks_blocked()
        got = bytearray()
        while len(got) < taken + 4:
            drain(pipe.read, got.extend)
            await trio.lowlevel.checkpoint()
    assert got.endswith(b"last") and ends == [0]


async def test_a_writer_runs_once_an_item_has_to_wait(pipe: Pipe) -> None:
    """An idle handle has no task for an input that fits."""
    runs: list[Callable[[], Awaitable[None]]] = []
    writer = Writer(pipe.write, on_waiting=runs.append)
    writer.put(b"fits")
    assert runs == []
    taken = fill(pipe.write)
    writer.put(b"x")
    writer.put(b"y")
    assert runs == [writer.run]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runs[0])
        got = bytearray()
        while len(got) < 4 + taken + 2:
            drain(pipe.read, got.extend)
            await trio.lowlevel.checkpoint()
        fill(pipe.write)
        writer.put(b"z")
        assert len(runs) == 1 and writer.waiting
        nursery.cancel_scope.cancel()
    assert got.endswith(b"xy")


async def test_an_idle_writer_sleeps_until_something_is_put_or_it_ends(pipe: Pipe) -> None:
    writer = Writer(pipe.write)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await wait_all_tasks_blocked()
        writer.put(b"a")
        await wait_all_tasks_blocked()
        writer.end()
    assert os.read(pipe.read, 10) == b"a"
