from __future__ import annotations

import os
import tracemalloc

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from haftd.core.spool import Budget, Spool
from tests.core.disks import Disk, Nameless, make, open_full, open_memory, open_nothing
from tests.effort import examples

SIZES = st.one_of(
    st.integers(0, 40), st.sampled_from([1, 255, 4095, 4096, 65_536, 131_072, 131_073, 300_000])
)


def stream(size: int) -> bytes:
    """Return bytes that encode their offset in every stretch of eight."""
    return b"".join(b"%07d\n" % n for n in range(size // 8 + 1))[:size]


def check(spool: Spool, whole: bytes) -> None:
    """Check that every kept byte reads as written, by any cut of the range, and that the disk is
    accounted for."""
    assert spool.on_disk <= spool.budget.used
    assert spool.end == len(whole)
    assert spool.start <= spool.end
    assert spool.read(0, 1 << 60) == whole[spool.start :]
    assert whole.startswith(spool.head)
    assert spool.head or not spool.start or not spool.read(0, 1)
    middle = (spool.start + spool.end) // 2
    for start, stop in ((spool.start, middle), (middle, spool.end), (middle - 3, middle + 3)):
        assert spool.read(start, stop) == whole[max(start, spool.start) : max(stop, 0)]


@given(
    sizes=st.lists(SIZES, max_size=30),
    memory=st.sampled_from([0, 1, 10, 1000, 65_536, 1 << 20]),
    disk=st.sampled_from([0, 1, 100, 4096, 100_000, 1 << 21]),
    total=st.sampled_from([0, 50, 70_000, 1 << 30]),
    short=st.sampled_from([0, 7]),
)
@settings(deadline=None, max_examples=examples(24))
@example([131_073] * 4, 10, 65_536, 1 << 30, 0)
@example([1] * 30, 10, 15, 1 << 30, 0)
def test_kept_bytes_are_the_newest_and_read_as_written(
    sizes: list[int], memory: int, disk: int, total: int, short: int
) -> None:
    whole = stream(sum(sizes))
    budget = Budget(total)
    spool = Spool(memory, disk, Nameless(), budget)
    with pytest.MonkeyPatch.context() as patch:
        if short and sum(sizes) < 2000:
            Disk(patch).short = short
        at = 0
        for size in sizes:
            spool.append(whole[at : at + size])
            at += size
            assert spool.end - spool.start >= min(at, memory)
            assert budget.used <= total
        check(spool, whole)
    assert spool.budget.faults == 0
    assert spool.end - spool.start >= min(at, memory + min(disk, total) - 131_072)
    spool.close()
    assert budget.used == 0
    assert spool.end == at and spool.read(0, at) == b""


@given(
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=40),
    disk=st.integers(1, 40_000),
    failing=st.sets(st.integers(1, 60), max_size=3),
    full_at=st.none() | st.integers(0, 30_000),
)
@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_failing_disk_costs_old_output_only_and_is_counted(
    sizes: list[int], disk: int, failing: set[int], full_at: int | None
) -> None:
    whole = stream(sum(sizes))
    spool = make(memory=3000, disk=disk)
    with pytest.MonkeyPatch.context() as patch:
        device = Disk(patch)
        device.failing, device.full_at = failing, full_at
        at = 0
        for size in sizes:
            spool.append(whole[at : at + size])
            at += size
            check(spool, whole[:at])
            assert spool.end - spool.start >= min(at, 3000)
        if device.calls in failing:
            assert spool.budget.faults > 0
        spool.finish()
        check(spool, whole)
    spool.close()


def test_a_full_disk_leaves_a_ring_of_the_written_bytes() -> None:
    whole = stream(200_000)
    spool = make(memory=4096, disk=1 << 20)
    with pytest.MonkeyPatch.context() as patch:
        Disk(patch).full_at = 50_000
        for at in range(0, len(whole), 1000):
            spool.append(whole[at : at + 1000])
    assert spool.budget.faults == 1
    assert 40_000 < spool.on_disk <= 50_000
    check(spool, whole)
    assert spool.head == whole[:4096]
    assert spool.budget.used <= 50_000
    spool.close()
    assert spool.budget.used == 0


def test_a_wrapped_ring_that_breaks_is_given_up_with_its_disk() -> None:
    whole = stream(100_000)
    spool = make(memory=4096, disk=20_000)
    with pytest.MonkeyPatch.context() as patch:
        device = Disk(patch)
        for at in range(0, len(whole), 1000):
            if at == 50_000:
                assert spool.on_disk > 15_000
                device.failing = {device.calls + 1}
            spool.append(whole[at : at + 1000])
            check(spool, whole[: at + 1000])
    assert (spool.budget.faults, spool.on_disk, spool.budget.used) == (1, 0, 0)
    assert spool.head == whole[:4096]


def test_a_full_device_leaves_the_memory() -> None:
    for opener in (open_full, open_nothing):
        whole = stream(200_000)
        spool = make(memory=8192, disk=1 << 20, open_file=opener)
        for at in range(0, len(whole), 100):
            spool.append(whole[at : at + 100])
        assert spool.budget.faults == 1 and spool.on_disk == 0
        check(spool, whole)
        assert spool.end - spool.start >= 8192


def test_a_truncated_file_is_given_up_at_the_read() -> None:
    files: list[int] = []

    def opened() -> int:
        files.append(open_memory())
        return files[0]

    whole = stream(100_000)
    spool = make(memory=4096, disk=1 << 20, open_file=opened)
    spool.append(whole)
    assert spool.start == 0 and spool.on_disk > 0
    os.ftruncate(files[0], 10)
    kept = spool.read(0, 1 << 60)
    assert spool.budget.faults > 0 and spool.start > 0
    assert kept == whole[spool.start :]
    spool.append(b"more")
    assert spool.read(spool.start, spool.end) == whole[spool.start :] + b"more"


def test_the_file_is_opened_at_the_first_overflow_and_closed_once() -> None:
    opened: list[int] = []

    def opener() -> int:
        opened.append(open_memory())
        return opened[-1]

    spool = make(memory=10_000, disk=1 << 20, open_file=opener)
    spool.append(b"x" * 9_000)
    assert opened == []
    spool.append(b"x" * 9_000)
    assert len(opened) == 1
    spool.close()
    spool.close()
    with pytest.raises(OSError):
        os.fstat(opened[0])


@pytest.mark.parametrize(
    ("disk", "total"), [(0, 1 << 30), (100_000, 1 << 30), (1 << 20, 100_000), (1 << 20, 0)]
)
def test_settling_never_costs_a_byte(disk: int, total: int) -> None:
    whole = stream(150_000)
    spool = make(memory=1 << 17, disk=disk, total=total)
    for at in range(0, len(whole), 1000):
        spool.append(whole[at : at + 1000])
    before = spool.start
    spool.finish()
    assert spool.start == before
    check(spool, whole)


def test_settling_frees_the_memory_of_a_long_output_and_leaves_a_short_one() -> None:
    long, short = make(disk=1 << 26), make(disk=1 << 26, open_file=open_nothing)
    long.append(stream(900_000))
    short.append(stream(60_000))
    long.finish()
    short.finish()
    assert long.on_disk == 900_000 and short.on_disk == 0
    check(long, stream(900_000))


def test_the_disk_is_shared_and_given_back() -> None:
    budget = Budget(3 << 20)
    spools = [Spool(1000, 2 << 20, Nameless(), budget) for _ in range(3)]
    whole = stream(3 << 20)
    for spool in spools:
        for at in range(0, len(whole), 65_536):
            spool.append(whole[at : at + 65_536])
        check(spool, whole)
    assert budget.used == 3 << 20
    assert [spool.on_disk >> 18 for spool in spools] == [8, 4, 0]
    for spool in spools:
        spool.close()
    assert budget.used == 0


def test_the_beginning_of_an_endless_output_is_kept() -> None:
    spool = make(memory=1 << 20, disk=1 << 20)
    whole = stream(5 << 20)
    for at in range(0, len(whole), 65_536):
        spool.append(whole[at : at + 65_536])
    assert spool.start > 1 << 20
    assert spool.head == whole[:32_768]
    assert spool.end - spool.start <= (2 << 20) + 65_536


def test_a_million_single_bytes_cost_their_size() -> None:
    spool = make(memory=1 << 20)
    byte = b"x"
    tracemalloc.start()
    try:
        for _ in range(60_000):
            spool.append(byte)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 150_000


def test_an_idle_spool_holds_no_buffer() -> None:
    tracemalloc.start()
    try:
        spools = [Spool(1 << 20, 1 << 26, Nameless(), BUDGET) for _ in range(100)]
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(spools) == 100
    assert size < 100 * 300


BUDGET = Budget(1 << 30)


@given(
    sizes=st.lists(SIZES, max_size=20),
    memory=st.sampled_from([0, 10, 1000, 65_536, 1 << 20]),
    disk=st.sampled_from([4096, 100_000, 1 << 21]),
    settled=st.booleans(),
    more=SIZES,
)
@settings(deadline=None, max_examples=examples(24))
@example([300_000], 1000, 1 << 21, True, 10)
@example([0, 1], 0, 4096, False, 0)
def test_a_spool_that_shrinks_keeps_its_ends_without_a_file(
    sizes: list[int], memory: int, disk: int, settled: bool, more: int
) -> None:
    whole = stream(sum(sizes) + more)
    spool = make(memory, disk)
    for size in sizes:
        spool.append(whole[spool.end : spool.end + size])
    if settled:
        spool.finish()
    was_open, start, end = spool.is_open, spool.start, spool.end
    spool.shrink()
    assert not spool.is_open
    if was_open:
        kept = end - start
        assert spool.start == (start if kept <= 65_536 else end - 32_768)
        assert spool.budget.used == 0 and spool.on_disk == 0
    else:
        assert spool.start == start
    assert spool.budget.faults == 0
    check(spool, whole[:end])
    if memory:
        assert spool.start == 0 or spool.head
    spool.append(whole[end:])
    check(spool, whole)
    spool.close()
