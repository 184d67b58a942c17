"""The wait of a single thread, as the kernel reports."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from haftd.host.input_state import syscalls, thread_wait


def test_a_ring_worker_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has neither a stack nor a place in the program, and no call of its own."""
    of_proc = {
        "syscall": b"0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0",
        "exe": b"\x7fELF\x02",
        "stat": b"1 (worker) S 0",
        "schedstat": b"1 1 1",
    }
    monkeypatch.setattr(thread_wait, "_read", lambda path, size=0: of_proc[path.rpartition("/")[2]])
    assert thread_wait.read_thread_state(1, 1, lambda descriptor: True).state == "hidden"
    of_proc["stat"] = b"1 (worker) R 0"
    assert thread_wait.read_thread_state(1, 1, lambda descriptor: True).state == "away"


def test_a_thread_that_went_on_during_the_look_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its target was closed meanwhile."""
    runs = iter((b"1 1 1", b"2 2 2"))
    of_proc: dict[str, Callable[[], bytes]] = {
        "syscall": lambda: b"0 0x0 0x0 0x0 0x0 0x0 0x0 0x7fffffffffff 0x7fffffffffff",
        "stat": lambda: b"1 (program) S 0",
        "schedstat": lambda: next(runs),
    }

    def judge(*_: object) -> thread_wait.ThreadState:
        raise thread_wait._Undecidable

    monkeypatch.setattr(
        thread_wait, "_read", lambda path, size=0: of_proc[path.rpartition("/")[2]]()
    )
    monkeypatch.setattr(thread_wait, "_judge", judge)
    monkeypatch.setattr(thread_wait, "_CALLS", {0: syscalls.CALLS["x86_64"][0]})
    assert thread_wait.read_thread_state(1, 1, lambda descriptor: True).state == "away"
    runs = iter((b"1 1 1", b"1 1 1"))
    assert thread_wait.read_thread_state(1, 1, lambda descriptor: True).state == "hidden"


@pytest.mark.parametrize(("state", "waits"), [("S", True), ("R", False), ("T", False)])
def test_a_woken_thread_waits_no_longer_even_before_it_runs(
    state: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine it awaits a core, and its count of runs stays."""
    of_proc = {"schedstat": b"1 1 1", "stat": f"1 (program) {state} 0".encode()}
    monkeypatch.setattr(thread_wait, "_read", lambda path, size=0: of_proc[path.rpartition("/")[2]])
    seen = thread_wait.ThreadState("reads", ran=b"1 1 1")
    assert thread_wait.is_unchanged(1, 1, seen) is waits


@pytest.mark.parametrize("address", [1 << 63, (1 << 64) - 8])
def test_an_unreadable_address_is_unclear(address: int) -> None:
    """A call may have any number; the offset of a file ends at 2^63."""
    with pytest.raises(thread_wait._Undecidable):
        thread_wait._read_memory(os.getpid(), address, 8)


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (b"-1 0x7ffd 0x7f01\n", "away"),  # on a page fault, or on the way out
        (b"running\n", "away"),
        (b"0 0x0\n", "hidden"),
        (b"", "hidden"),
    ],
)
def test_a_sleeper_outside_a_call_waits_for_no_input(
    monkeypatch: pytest.MonkeyPatch, line: bytes, state: str
) -> None:
    monkeypatch.setattr(thread_wait, "_read", lambda path, size=0: line)
    assert thread_wait.read_thread_state(1, 1, lambda descriptor: True).state == state


def test_a_set_is_read_bit_by_bit() -> None:
    bits = ctypes.create_string_buffer(bytes([0b1001, 0, 0b10, 0xFF]))
    at = ctypes.addressof(bits)
    assert thread_wait._read_selected(os.getpid(), at, 18) == [0, 3, 17]
    assert thread_wait._read_selected(os.getpid(), 0, 18) == []
    with pytest.raises(thread_wait._Undecidable):
        thread_wait._read_selected(os.getpid(), at, thread_wait._MAX_WATCHED + 1)


def test_a_partial_structure_is_unclear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pread", lambda fd, size, at: b"x" * (size - 1))
    with pytest.raises(thread_wait._Undecidable):
        thread_wait._read_memory(os.getpid(), 0x1000, 8)


def test_a_reused_descriptor_is_unclear() -> None:
    """An epoll goes on watching its file, after another file has taken the number."""
    r, w = os.pipe()
    try:
        inode = os.fstat(r).st_ino
        assert (
            thread_wait._find_file(os.getpid(), r, inode, lambda descriptor: False).kind == "pipe"
        )
        assert (
            thread_wait._find_file(os.getpid(), r, inode + 1, lambda descriptor: False).kind
            == "unclear"
        )
    finally:
        os.close(r)
        os.close(w)


def test_each_descriptor_has_the_kind_of_its_file(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:

        def opened(fd: int) -> int:
            stack.callback(os.close, fd)
            return fd

        read, write = map(opened, os.pipe())
        master, slave = map(opened, os.openpty())
        sockets = socket.socketpair()
        for each in sockets:
            stack.enter_context(each)
        epoll = stack.enter_context(select.epoll())
        kinds = {
            read: "pipe",
            write: "pipe",
            master: "terminal",
            slave: "other",
            sockets[0].fileno(): "socket",
            epoll.fileno(): "epoll",
            opened(os.eventfd(0)): "other",
            opened(os.open(tmp_path, os.O_RDONLY)): "other",
            opened(os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)): "other",
            opened(os.open("/dev/null", os.O_RDONLY)): "other",
        }
        pid = os.getpid()
        for fd, kind in kinds.items():
            assert thread_wait._find_file(pid, fd, None, lambda info: False).kind == kind
            assert thread_wait._find_file(pid, fd, None, lambda info: True).kind == "sought"
    # A closed number is of no file; an epoll may watch the file on.
    assert thread_wait._find_file(pid, fd, None, lambda info: True).kind == "other"
    assert thread_wait._find_file(pid, fd, 1, lambda info: True).kind == "unclear"
