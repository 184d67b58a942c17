"""The wait of a thread in a call, judged by the files it waits for and by its time."""

from __future__ import annotations

import ctypes
import os
from typing import Any, cast

import pytest

from haftd.host.input_state import syscalls, thread_wait

FILES = {
    3: thread_wait._File("sought"),
    4: thread_wait._File("socket", 40, 4),
    5: thread_wait._File("terminal", 7, 5),
    6: thread_wait._File("pipe", 8),
    7: thread_wait._File("other"),
    8: thread_wait._File("unclear"),
    9: thread_wait._File("epoll"),
    10: thread_wait._File("sought", once=True),
}
SHAPES = {
    "poll": syscalls.CALLS["x86_64"][271],
    "select": syscalls.CALLS["x86_64"][270],
    "epoll": syscalls.CALLS["x86_64"][441],
}


def judged(
    monkeypatch: pytest.MonkeyPatch, shape: str, fds: list[int], nanoseconds: int | None
) -> thread_wait.ThreadState:
    """Judge a call of this process that waits for the descriptors of `FILES`."""
    memory: list[ctypes.Array[ctypes.c_char]] = []

    def stored(data: bytes) -> int:
        memory.append(ctypes.create_string_buffer(data, len(data) + 1))
        return ctypes.addressof(memory[-1])

    def watched(pid: int, epoll: int) -> list[thread_wait._Watched]:
        assert epoll == 9
        return [thread_wait._Watched(fd, fd) for fd in fds]

    monkeypatch.setattr(thread_wait, "_find_file", lambda pid, fd, inode, sought: FILES[fd])
    monkeypatch.setattr(thread_wait, "_find_kind", lambda pid, file: file.kind)
    monkeypatch.setattr(thread_wait, "_read_registered", watched)
    call, args = SHAPES[shape], [0] * 6
    if shape == "poll":
        entries = [(fd, 0x41) for fd in fds] + [(8, 4), (-1, 0x41)]
        args[:2] = [
            stored(b"".join(thread_wait._POLLFD.pack(*e, 0) for e in entries)),
            len(entries),
        ]
    elif shape == "select":
        bits = sum(1 << fd for fd in fds)
        args[:2] = [11, stored(bits.to_bytes(2, "little"))]
    else:
        args[0] = 9
    if nanoseconds is not None:
        args[call.bound] = stored(thread_wait._TIME.pack(0, nanoseconds))
    return thread_wait._judge(os.getpid(), call, args, lambda info: False, b"line", b"ran")


@pytest.mark.parametrize("within", [None, 100])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_wait_for_several_files_is_for_input_if_the_sought_one_is_among_them(
    monkeypatch: pytest.MonkeyPatch, shape: str, within: int | None
) -> None:
    nanoseconds = None if within is None else within * 1_000_000
    for others in ([], [4], [5], [6], [7], [8], [4, 5, 6, 7]):
        state = judged(monkeypatch, shape, [3, *others], nanoseconds)
        assert (state.state, state.within_ms, state.idle) == ("watches", within, False)
        assert state.outward is (4 in others)
        assert state.terminals == ({(7, 5)} if 5 in others else set())
        assert state.pipes == ({8} if 6 in others else set())
        assert state.loops is (shape == "epoll" and others != [])
        assert (state.line, state.ran) == (b"line", b"ran")
    for others in ([], [4], [5], [6], [7], [6, 7], [4, 6, 7]):
        state = judged(monkeypatch, shape, others, nanoseconds)
        assert (state.state, state.within_ms, state.loops) == ("away", within, False)
        assert state.outward is (4 in others)
        assert state.terminals == ({(7, 5)} if 5 in others else set())
        is_housekeeping = shape == "epoll" and not {4, 5} & {*others}
        assert state.idle is (within is None or is_housekeeping)
    for others in ([8], [4, 8]):
        with pytest.raises(thread_wait._Undecidable):
            judged(monkeypatch, shape, others, nanoseconds)


@pytest.mark.parametrize(
    ("fd", "state", "outward"),
    [(3, "reads", False), (4, "away", True), (5, "away", False), (6, "away", False)],
)
def test_a_read_is_of_input_if_it_is_of_the_sought_file(
    monkeypatch: pytest.MonkeyPatch, fd: int, state: str, outward: bool
) -> None:
    monkeypatch.setattr(thread_wait, "_find_file", lambda pid, fd, inode, sought: FILES[fd])
    monkeypatch.setattr(thread_wait, "_find_kind", lambda pid, file: file.kind)
    for call in {c for calls in syscalls.CALLS.values() for c in calls.values()}:
        if call.shape == "read":
            args = [8] * 6
            # Only the low half of the register is the descriptor.
            args[call.first] = fd | 1 << 32
            seen = thread_wait._judge(1, call, args, lambda info: False, b"line", b"ran")
            assert (seen.state, seen.outward, seen.idle) == (state, outward, False)
            assert seen.within_ms is None and seen.line == (b"line" if state == "reads" else b"")


def test_a_sleep_waits_for_nothing_and_a_ring_shows_nothing() -> None:
    nap, ring = syscalls.CALLS["x86_64"][35], syscalls.CALLS["x86_64"][426]
    state = thread_wait._judge(1, nap, [0] * 6, lambda info: True, b"", b"")
    assert state == thread_wait.ThreadState("away", 0)
    with pytest.raises(thread_wait._Undecidable):
        thread_wait._judge(1, ring, [0] * 6, lambda info: True, b"", b"")


@pytest.mark.parametrize(
    ("unit", "given", "bound"),
    [
        *[("ms", n, n) for n in (0, 5, 0x7FFF_FFFF)],
        *[("ms", n, None) for n in (0x8000_0000, 0xFFFF_FFFF)],
        ("ms", 1 << 32 | 5, 5),
        *[(unit, None, None) for unit in ("timespec", "timeval")],
        *[("timespec", time, ms) for time, ms in (((1, 5_999_999), 1005), ((0, 999_999), 0))],
        *[("timeval", time, ms) for time, ms in (((1, 5_999), 1005), ((0, 999), 0))],
    ],
)
def test_a_bound_is_in_milliseconds_or_a_time_in_memory(
    unit: str, given: object, bound: int | None
) -> None:
    memory = ctypes.create_string_buffer(16)
    value = given if isinstance(given, int) else 0
    if isinstance(given, tuple):
        memory.raw = thread_wait._TIME.pack(*given)
        value = ctypes.addressof(memory)
    call = syscalls.Call("poll", bound=2, unit=cast(Any, unit))
    assert thread_wait._read_bound_ms(os.getpid(), call, [9, 9, value]) == bound
    assert thread_wait._read_bound_ms(os.getpid(), call._replace(bound=-1), [9, 9, value]) is None


@pytest.mark.parametrize(
    ("operation", "time", "is_idle"),
    [
        (0, None, True),
        (9, None, True),
        (0, (1, 500_000_000), True),
        (128, (1, 500_000_000), True),
        (0, (1, 499_000_000), False),
        (9, (60, 0), False),
        (0, (0, 0), False),
    ],
)
def test_a_wait_for_a_lock_is_idle_if_it_may_be_long(
    operation: int, time: tuple[int, int] | None, is_idle: bool
) -> None:
    """Those to a point in time, as FUTEX_WAIT_BITSET (9), have no length."""
    memory = ctypes.create_string_buffer(thread_wait._TIME.pack(*(time or (0, 0))), 16)
    args = [1, operation, 1, 0 if time is None else ctypes.addressof(memory), 1, 1]
    lock = syscalls.CALLS["x86_64"][202]
    state = thread_wait._judge(os.getpid(), lock, args, lambda info: True, b"", b"")
    assert state == thread_wait.ThreadState("away", idle=is_idle)
