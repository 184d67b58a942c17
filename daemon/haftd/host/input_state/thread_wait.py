"""The system call that blocks a thread, from /proc/<pid>/task/<tid>/syscall, mem, fdinfo and fd.

Unreadable or unknown data, such as an io_uring, which shows no reads, means `hidden`. An event loop
returns to the very same call: `is_unchanged` also compares the count of runs. A socket pair with
both ends in the process is internal.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterable
from typing import Final, Literal

from haftd.host.input_state.fd_peers import find_terminal, has_both_ends, is_listening
from haftd.host.input_state.syscalls import CALLS, Call
from haftd.host.process.identity import skip_name
from haftd.lazy_pattern import lazy_pattern
from haftd.named_tuple import NamedTuple

FilePredicate = Callable[[os.stat_result], bool]
"""True for the stat of the file from which input is awaited."""

ReadFile = Callable[[str], bytes]
"""Read a small file of /proc; raises OSError."""


class ThreadState(NamedTuple):
    state: Literal["reads", "watches", "away", "hidden"]
    """`reads`: in a read of the file. `watches`: waits until it is readable. `away`: runs, or
    sleeps otherwise. `hidden`: unknown."""
    within_ms: int | None = None
    """Timeout of the wait in milliseconds, 0 for a plain sleep of any length; None without a timeout."""
    outward: bool = False
    """The thread waits for an outside peer, and possibly other files: a socket, or an unidentified
    terminal."""
    terminals: frozenset[tuple[int, int]] = frozenset()
    """Terminals of other awaited masters: number and descriptor."""
    loops: bool = False
    """The thread waits in an epoll for more than the file. Entries that libuv has stopped reading
    stay until its loop next runs, except one-shot entries (EPOLLONESHOT)."""
    idle: bool = False
    """The thread waits without timeout for a lock or work, or does housekeeping of an event loop or
    runtime (Go) between long sleeps."""
    pipes: frozenset[int] = frozenset()
    """Inodes of other awaited pipes."""
    line: bytes = b""
    """Line of /proc/<pid>/task/<tid>/syscall; empty for `away`."""
    ran: bytes = b""
    """Run time and run count as of the wait (schedstat)."""


_AWAY: Final = ThreadState("away")
_HIDDEN: Final = ThreadState("hidden")


_CALLS: Final = CALLS.get(os.uname().machine, {})

_4_GIB = 1 << 32
_X32 = 1 << 30  # __X32_SYSCALL_BIT of asm/unistd.h
_ELF_64 = b"\x7fELF\x02"
_POLLFD = struct.Struct("=ihh")  # poll(2)
_TIME = struct.Struct("=qq")  # timespec and timeval
_MAX_MS = 0x7FFF_FFFF  # of an int; a greater one is negative: for ever
_IN = 0x41  # POLLIN, POLLRDNORM; the same in an epoll
_ONE_SHOT = 1 << 30  # EPOLLONESHOT
_FUTEX_COMMAND = (
    0x7F  # linux/futex.h: without the flags PRIVATE and CLOCK_REALTIME; 0 is FUTEX_WAIT
)
_HOUSEKEEPING_MS = 1500
"""A working thread takes shorter sleeps. Go's last until its next timer."""
_MAX_DEPTH = 4  # the kernel nests epolls no deeper
_MAX_WATCHED = 1024
"""Descriptors of one wait, each examined while the loop waits. Beyond, the thread is `hidden`."""
_MAX_BYTES = 1 << 18
"""Bytes of a file of /proc: the fdinfo of an epoll of `_MAX_WATCHED` entries has fewer."""
_WATCHED = lazy_pattern(
    rb"tfd:\s*(\d+) events:\s*([0-9a-f]+) data:\s*[0-9a-f]+(?:\s+pos:\S+ ino:([0-9a-f]+))?"
)
_RING_FILE = "anon_inode:[io_uring]"
_EPOLL_FILE = "anon_inode:[eventpoll]"


class _Undecidable(Exception):
    """Decisive data cannot be read or understood."""


def _read_anew(path: str) -> bytes:
    return _read(path)


def read_thread_state(
    pid: int, tid: int, sought: FilePredicate, read: ReadFile = _read_anew
) -> ThreadState:
    """Return a thread's activity; `away` for a thread that is gone. `read` reads the files that
    `is_unchanged` reads again. Never raises."""
    # Read first: an unchanged count proves the line.
    ran = _run_count(pid, tid, read)
    try:
        line = _read(f"/proc/{pid}/task/{tid}/syscall")
    except (FileNotFoundError, ProcessLookupError):
        return _AWAY
    except OSError:
        # A thread that awaits input sleeps, even in a hidden call.
        return _HIDDEN if _is_asleep(pid, tid, read) else _AWAY
    words = line.split()
    if words[:1] == [b"running"]:
        return _AWAY
    if len(words) < 9:
        # Asleep outside a call: on a page fault, or on the way out.
        return _AWAY if words[:1] == [b"-1"] else _HIDDEN
    number = int(words[0])
    args = [int(word, 16) for word in words[1:7]]
    try:
        if not _CALLS or number >= _X32 or _is_foreign(pid, int(words[7], 16), int(words[8], 16)):
            return _HIDDEN
        call = _CALLS.get(number)
        if call is None or (call.resumed and "poll" not in _read_wait_channel(pid, tid)):
            return _AWAY
        return _judge(pid, call, args, sought, line, ran)
    except (FileNotFoundError, ProcessLookupError):
        return _AWAY
    except (_Undecidable, OSError):
        # A thread that has continued changed its data during the read, and hides nothing.
        return (
            _HIDDEN
            if is_unchanged(pid, tid, ThreadState("hidden", line=line, ran=ran), read)
            else _AWAY
        )


def is_unchanged(pid: int, tid: int, seen: ThreadState, read: ReadFile = _read_anew) -> bool:
    """True if the thread is in the same wait, neither stopped nor halted by a tracer."""
    if not seen.ran:
        try:
            if _read(f"/proc/{pid}/task/{tid}/syscall") != seen.line:
                return False
        except OSError:
            return False
    # Also asked for an equal count: a woken thread that has no core yet has not run.
    return _is_asleep(pid, tid, read) and _run_count(pid, tid, read) == seen.ran


def _run_count(pid: int, tid: int, read: ReadFile) -> bytes:
    """Read a thread's run time and count; empty without CONFIG_SCHED_INFO."""
    try:
        return read(f"/proc/{pid}/task/{tid}/schedstat")
    except OSError:
        return b""


def _is_asleep(pid: int, tid: int, read: ReadFile) -> bool:
    # The state in the process's file is that of its first thread.
    path = f"/proc/{pid}/stat" if tid == pid else f"/proc/{pid}/task/{tid}/stat"
    try:
        content = read(path)
    except OSError:
        return False
    return skip_name(content)[:1] == b"S"


def _judge(
    pid: int, call: Call, args: list[int], sought: FilePredicate, line: bytes, ran: bytes
) -> ThreadState:
    if call.shape == "ring":
        raise _Undecidable
    if call.shape == "lock":
        return ThreadState("away", idle=_is_long(pid, call, args))
    within = 0 if call.shape == "nap" else _read_bound_ms(pid, call, args)
    if (
        call.shape == "read"
        and _find_file(pid, args[call.first] & 0xFFFF_FFFF, None, sought) is _SOUGHT
    ):
        return ThreadState("reads", within, line=line, ran=ran)
    match call.shape:
        case "read" | "epoll":
            watched = [args[call.first] & 0xFFFF_FFFF]
        case "poll":
            watched = _read_polled(pid, args[call.first], args[1] & 0xFFFF_FFFF)
        case "select":
            watched = _read_selected(pid, args[call.first], args[0] & 0xFFFF_FFFF)
        case _:
            watched = []
    files = _find_files(pid, (_Watched(fd) for fd in watched), sought)
    kinds = {_find_kind(pid, file) for file in files}
    terminals = frozenset((file.inode, file.fd) for file in files if file.kind == "terminal")
    pipes = frozenset(file.inode for file in files if file.kind == "pipe")
    if "sought" in kinds:
        state: Literal["reads", "watches"] = "reads" if call.shape == "read" else "watches"
        loops = call.shape == "epoll" and kinds != {"sought"} and _SOUGHT_ONCE not in files
        outward = "socket" in kinds
        return ThreadState(state, within, outward, terminals, loops, False, pipes, line, ran)
    if "unclear" in kinds:
        raise _Undecidable
    # A loop over its own process's events is housekeeping, as V8's for memory.
    is_housekeeping = call.shape == "epoll" and kinds <= {"other", "pipe"}
    idle = (within is None or is_housekeeping) and call.shape in ("poll", "select", "epoll")
    return ThreadState("away", within, "socket" in kinds, terminals, idle=idle)


def _is_long(pid: int, call: Call, args: list[int]) -> bool:
    if args[call.bound] == 0:
        return True
    # FUTEX_WAIT_BITSET and others give a point in time.
    is_relative = args[call.first] & _FUTEX_COMMAND == 0
    return is_relative and (_read_bound_ms(pid, call, args) or 0) >= _HOUSEKEEPING_MS


def _find_kind(pid: int, file: _File) -> str:
    """Return a file's kind; a socket without an outside peer is `other`."""
    if file.kind == "socket" and (has_both_ends(pid, file.inode) or is_listening(pid, file.fd)):
        return "other"
    return file.kind


def _read_bound_ms(pid: int, call: Call, args: list[int]) -> int | None:
    """Return the call's timeout in milliseconds; None for ever."""
    if call.bound < 0:
        return None
    bound = args[call.bound]
    if call.unit == "ms":
        bound &= 0xFFFF_FFFF
        return None if bound > _MAX_MS else bound
    if bound == 0:
        return None
    seconds, rest = _TIME.unpack(_read_memory(pid, bound, _TIME.size))
    return int(seconds * 1000 + rest // (1_000_000 if call.unit == "timespec" else 1000))


class _File(NamedTuple):
    """A descriptor's file."""

    kind: Literal["sought", "socket", "terminal", "pipe", "epoll", "unclear", "other"]
    """`terminal`: the master of the terminal numbered `inode`."""
    inode: int = 0
    fd: int = -1
    once: bool = False
    """One-shot entry of an epoll."""


class _Watched(NamedTuple):
    fd: int
    inode: int | None = None
    once: bool = False


def _find_files(
    pid: int, watched: Iterable[_Watched], sought: FilePredicate, depth: int = 0
) -> set[_File]:
    """Return these descriptors' files, epolls replaced by the files they watch."""
    files: set[_File] = set()
    for fd, inode, once in watched:
        file = _find_file(pid, fd, inode, sought)
        if once and file is _SOUGHT:
            file = _SOUGHT_ONCE
        if file.kind != "epoll":
            files.add(file)
        elif depth > _MAX_DEPTH:
            files.add(_UNCLEAR)
        else:
            files |= _find_files(pid, _read_registered(pid, fd), sought, depth + 1)
    return files


def _find_file(pid: int, fd: int, inode: int | None, sought: FilePredicate) -> _File:
    path = f"/proc/{pid}/fd/{fd}"
    try:
        info = os.stat(path)  # noqa: PTH116 - a quarter of the time of Path.stat
    except FileNotFoundError:
        # Closed meanwhile; but an epoll's file may outlive the number.
        return _OTHER if inode is None else _UNCLEAR
    if inode not in (None, info.st_ino):
        return _UNCLEAR
    if sought(info):
        return _SOUGHT
    if stat.S_ISSOCK(info.st_mode):
        return _File("socket", info.st_ino, fd)
    if stat.S_ISFIFO(info.st_mode):
        return _File("pipe", info.st_ino)
    if stat.S_ISCHR(info.st_mode):
        return _File("terminal", find_terminal(pid, fd), fd) if _is_master(info.st_rdev) else _OTHER
    if stat.S_IFMT(info.st_mode) == 0:
        link = os.readlink(path)  # noqa: PTH115
        return _File("epoll") if link == _EPOLL_FILE else _UNCLEAR if link == _RING_FILE else _OTHER
    return _OTHER


_SOUGHT: Final = _File("sought")
_SOUGHT_ONCE: Final = _File("sought", once=True)
_UNCLEAR: Final = _File("unclear")
_OTHER: Final = _File("other")


def _is_master(rdev: int) -> bool:
    return (os.major(rdev), os.minor(rdev)) == (5, 2) or os.major(rdev) == 2


def _read_polled(pid: int, address: int, count: int) -> list[int]:
    if count > _MAX_WATCHED:
        raise _Undecidable
    table = _read_memory(pid, address, count * _POLLFD.size)
    return [fd for fd, events, _ in _POLLFD.iter_unpack(table) if fd >= 0 and events & _IN]


def _read_selected(pid: int, address: int, count: int) -> list[int]:
    if address == 0:
        return []
    if count > _MAX_WATCHED:
        raise _Undecidable
    bits = int.from_bytes(_read_memory(pid, address, (count + 7) // 8), "little")
    return [fd for fd in range(count) if bits >> fd & 1]


def _read_registered(pid: int, epoll: int) -> list[_Watched]:
    content = _WATCHED.findall(_read(f"/proc/{pid}/fdinfo/{epoll}"))
    if len(content) > _MAX_WATCHED:
        raise _Undecidable
    return [
        _Watched(int(fd), int(inode, 16) if inode else None, int(events, 16) & _ONE_SHOT > 0)
        for fd, events, inode in content
        if int(events, 16) & _IN
    ]


def _is_foreign(pid: int, stack: int, place: int) -> bool:
    """True for a 32-bit program, with its other system call table.

    Such a program is always below 4 GiB in memory, a 64-bit one may be.
    """
    if stack >= _4_GIB or place >= _4_GIB:
        return False
    if stack == place == 0:
        raise _Undecidable  # an io_uring worker shows its submitter's call
    return _read(f"/proc/{pid}/exe", len(_ELF_64)) != _ELF_64


def _read_wait_channel(pid: int, tid: int) -> str:
    name = _read(f"/proc/{pid}/task/{tid}/wchan").decode("ascii", "replace")
    if name in ("", "0"):
        raise _Undecidable
    return name


def _read_memory(pid: int, address: int, size: int) -> bytes:
    if size == 0:
        return b""
    fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        data = os.pread(fd, size, address)
    except OverflowError:
        raise _Undecidable from None
    finally:
        os.close(fd)
    if len(data) != size:
        raise _Undecidable
    return data


def _read(path: str, size: int = _MAX_BYTES) -> bytes:
    """Read a file of /proc, or its first bytes; raise OSError, _Undecidable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        data = os.read(fd, min(size, 4096))
        if len(data) < 4096:
            return data
        while part := os.read(fd, 65_536):
            data += part
            if len(data) >= size:
                raise _Undecidable
        return data
    finally:
        os.close(fd)
