"""Decide if a process waits for input right now: on a terminal, or at the end of a pipe.

A sleeping read or poll of the terminal, in a thread of the foreground group, proves a wait while no
typed input is unread. `reads` is certain; so is `busy`, except on a non-canonical terminal with a
timed sleep or a wait for an outside peer; `unknown`: a process may not be examined (sudo), or there is
none. A terminal within the terminal (script, expect) is followed to its reader. The terminal's other end is opened
for a moment, never as controlling terminal, and only while a process also has it open.
"""

from __future__ import annotations

import fcntl
import os
import stat
import termios
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Literal

from haftd.host import pump
from haftd.host.input_state.fd_peers import is_readable, writes_to
from haftd.host.input_state.wait_snapshot import (
    Wait,
    WaitSnapshot,
    add_strangers,
    confirm,
    find_related,
    take_snapshot,
)
from haftd.host.process.ancestry import list_children
from haftd.host.process.identity import read_whole, skip_name
from haftd.host.tty import pseudo_terminal
from haftd.named_tuple import NamedTuple

Kind = Literal["line", "key", "secret"]

_TIOCGPTPEER = 0x5441  # from Linux 4.13 on, the same on every machine of gate.py
_SLAVE_FLAGS = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK
_DEV_TTY = os.makedev(5, 0)
_PTS_MAJOR = 136  # UNIX98_PTY_SLAVE_MAJOR of linux/major.h
_MAX_DEPTH = 3
"""Terminals within terminals that are followed."""
_STABLE_S = 0.5
"""A program that has just begun is likely to start others, or to set the modes."""
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class ReadState(NamedTuple):
    state: Literal["reads", "busy", "unknown"]
    kind: Kind | None = None
    """Awaited input by the terminal's modes: a line, a line without echo, keys; None if busy. If
    `unknown`, possible input, None without a foreground group. Always a line on a pipe."""
    certain: bool = False
    pids: tuple[int, ...] = ()
    """The waiting processes; of `unknown` the hidden processes, of `busy` those in the foreground, none
    if typed input is unread."""
    within_ms: int | None = None
    """Longest timeout of the waits; None when one has none."""
    relays: bool = False
    """Every waiting process has another source, a socket or a foreground process's pipe: typed
    input may be for a remote peer (ssh, tmux) of unknown state."""
    loops: bool = False
    """Every waiting process is in an event loop, with other events."""
    at_work: bool = False
    """A waiting process also works, in another thread or foreground process."""
    processes: frozenset[tuple[int, int, int]] = frozenset()
    """Of uncertain states, and with `relays` or `loops`: the foreground group, and pid, start time and
    reaped faults of each related process. Equal sets: no process has started or ended between."""
    is_stable: bool = False
    """For the same states: a process is in the foreground, and no process and program began within
    `_STABLE_S`."""

    def __eq__(self, other: object) -> bool:
        """Compare without the evidence of idleness."""
        return isinstance(other, ReadState) and self[:-2] == other[:-2]

    def __hash__(self) -> int:
        return hash(self[:-2])


class _Terminal(NamedTuple):
    foreground: Callable[[], int | None]
    open: Callable[[], int]
    """Open the terminal like a program; raises OSError."""
    master: int | None


def read_terminal_state(
    master: int, slave: str, pids: Iterable[int], began_s: float = 0.0
) -> ReadState:
    """Read the state of the terminal's foreground processes.

    `pids`: the session's leader and orphans, examined with all descendants. `began_s`: the beginning of
    the leader's program, by CLOCK_BOOTTIME; its process may be older. Blocks for some 0.1 ms.
    Read the output first: a process that prints and then waits has done both by then. `unknown`
    without a foreground group, also for a descriptor of another file. Raises OSError.
    """
    terminal = _Terminal(
        lambda: pseudo_terminal.foreground(master), lambda: _open_peer(master, slave), master
    )
    return _add_beginning(_read_terminal(terminal, pids), began_s)


def _read_terminal(terminal: _Terminal, pids: Iterable[int], depth: int = 0) -> ReadState:
    group = terminal.foreground()
    for _ in range(3):
        if group is None:
            break
        result = _read_foreground(terminal, pids, group, depth)
        now = terminal.foreground()
        if now == group:
            return result
        group = now
    seen = frozenset[tuple[int, int, int]]() if group is None else frozenset({(group, 0, 0)})
    return ReadState("unknown", processes=seen)


def read_pipe_state(pids: Sequence[int], pipe_inode: int, began_s: float = 0.0) -> ReadState:
    """Read the state of these processes and descendants at that pipe.

    `began_s`: see `read_terminal_state`. The caller checks for queued input.
    """

    def sought(facts: os.stat_result) -> bool:
        return (
            facts.st_ino == pipe_inode
            and stat.S_ISFIFO(facts.st_mode)
            and facts.st_dev == _read_pipe_device()
        )

    snapshot = WaitSnapshot()
    try:
        take_snapshot(snapshot, pids, None, sought)
        waits = confirm(snapshot)
    finally:
        snapshot.close()
    if waits:
        result = _make_reads(snapshot, waits, "line")
    elif snapshot.unsure or not snapshot.members:
        result = ReadState("unknown", "line", pids=tuple(sorted(snapshot.unsure)))
    else:
        result = ReadState("busy", None, True, tuple(snapshot.members))
    return _add_beginning(_add_processes(result, snapshot, None), began_s)


def _add_beginning(result: ReadState, began_s: float) -> ReadState:
    if result.is_stable and time.clock_gettime(time.CLOCK_BOOTTIME) - began_s < _STABLE_S:
        return result._replace(is_stable=False)
    return result


def _add_processes(result: ReadState, snapshot: WaitSnapshot, group: int | None) -> ReadState:
    if result.certain and not (result.relays or result.loops):
        return result
    relatives = find_related(snapshot, group)
    newest_s = max((process.ticks for process in relatives), default=0) / _TICKS_A_SECOND
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - newest_s
    return result._replace(
        processes=frozenset(
            {
                (group or 0, 0, 0),
                *((process.pid, process.ticks, process.reaped) for process in relatives),
            }
        ),
        is_stable=bool(snapshot.members or snapshot.unsure) and age_s >= _STABLE_S,
    )


def _read_foreground(terminal: _Terminal, pids: Iterable[int], group: int, depth: int) -> ReadState:
    try:
        fd = terminal.open()
    except OSError:  # the terminal is exclusive, or no descriptor is left
        kind = None if terminal.master is None else _read_kind(terminal.master)[0]
        return ReadState("unknown", kind)
    try:
        # In canonical mode only a whole line is readable, as with FIONREAD.
        if pump.is_readable(fd):
            return ReadState("busy", None, True)
        return _read_at(fd, pids, group, depth)
    finally:
        os.close(fd)


def _read_at(fd: int, pids: Iterable[int], group: int, depth: int) -> ReadState:
    ours = os.fstat(fd)

    def is_terminal(facts: os.stat_result) -> bool:
        return (facts.st_dev, facts.st_ino) == (ours.st_dev, ours.st_ino)

    def sought(facts: os.stat_result) -> bool:
        # /dev/tty is this terminal: the group is of its session.
        return is_terminal(facts) or (facts.st_rdev == _DEV_TTY and stat.S_ISCHR(facts.st_mode))

    snapshot = WaitSnapshot()
    try:
        take_snapshot(snapshot, [*pids, group], group, sought)
        add_strangers(snapshot, is_terminal)
        kind, patience_ms = _read_kind(fd)
        inner = _find_carried_terminal(snapshot)
        within = (
            None
            if inner is None or depth >= _MAX_DEPTH
            else _read_inner(inner, snapshot, depth + 1)
        )
        waits = confirm(snapshot)
    finally:
        snapshot.close()
    if waits and within is not None and within.state != "unknown":
        result = within
    elif waits:
        result = _make_reads(snapshot, waits, kind, patience_ms)
    elif snapshot.unsure or (not snapshot.members and not pseudo_terminal.is_empty_group(group)):
        result = ReadState("unknown", kind, pids=tuple(sorted(snapshot.unsure)))
    else:
        doubtful = kind == "key" and (snapshot.timed or bool(snapshot.outward))
        result = ReadState("busy", None, not doubtful, tuple(snapshot.members))
    result = _add_processes(result, snapshot, group)
    if result.is_stable and within is not None and not within.is_stable:
        return result._replace(is_stable=False)  # the inner terminal may have no foreground process
    return result


def _find_carried_terminal(snapshot: WaitSnapshot) -> int | None:
    """Return the number of the one inner terminal that every waiting process relays, without other
    sources; None if there is no such terminal."""
    inner: set[int] = set()
    for wait in snapshot.waits:
        terminals = wait.seen.terminals
        if not terminals or wait.pid in snapshot.outward or _is_fed(wait, snapshot.members):
            return None
        inner.update(number for number, _ in terminals)
    return min(inner) if len(inner) == 1 else None


def _read_inner(number: int, snapshot: WaitSnapshot, depth: int) -> ReadState | None:
    """Return the state at the inner terminal, for the outer one; None if it is unknown, so that the
    relay's own wait counts."""
    below = [child for pid in snapshot.members for child in list_children(pid)]
    terminal = _Terminal(
        lambda: _find_foreground(below, number),
        lambda: os.open(f"/dev/pts/{number}", _SLAVE_FLAGS),
        None,
    )
    try:
        result = _read_terminal(terminal, below, depth)
    except OSError:
        return None
    if result.state != "reads":
        return result
    # The inner terminal's output may be on its way to the relay.
    for wait in snapshot.waits:
        for _, fd in wait.seen.terminals:
            if (readable := is_readable(wait.pid, fd)) is not False:
                return None if readable is None else ReadState("busy", None, True)
    return result


def _find_foreground(pids: Iterable[int], number: int) -> int | None:
    """Return the foreground group of a terminal, from the first of these processes that has it; None if
    none has."""
    terminal = os.makedev(_PTS_MAJOR, number)
    for pid in pids:
        try:
            content = read_whole(f"/proc/{pid}/stat")
        except OSError:
            continue
        if not content:
            continue
        fields = skip_name(content).split()
        if int(fields[4]) & 0xFFFF_FFFF == _encode_device(terminal):
            return int(fields[5]) if int(fields[5]) > 0 else None
    return None


def _encode_device(device: int) -> int:
    """Return a device number as in /proc/<pid>/stat."""
    major, minor = os.major(device), os.minor(device)
    return (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)


def _make_reads(
    snapshot: WaitSnapshot, waits: list[Wait], kind: Kind, patience_ms: int | None = None
) -> ReadState:
    waiting: set[int] = set()
    remote = set(snapshot.outward)
    within: int | None = 0
    loops = True
    for wait in waits:
        seen = wait.seen
        waiting.add(wait.pid)
        if seen.terminals or _is_fed(wait, snapshot.members):
            remote.add(wait.pid)
        bound = patience_ms if seen.state == "reads" else seen.within_ms
        within = None if within is None or bound is None else max(within, bound)
        loops = loops and seen.loops
    relays = waiting <= remote
    at_work = not waiting.isdisjoint(snapshot.at_work) or _has_started(waiting, snapshot)
    return ReadState("reads", kind, True, tuple(sorted(waiting)), within, relays, loops, at_work)


def _has_started(waiting: set[int], snapshot: WaitSnapshot) -> bool:
    for member in snapshot.members:
        if member not in waiting:
            ancestor = snapshot.processes.get(member)
            while ancestor is not None:
                if ancestor.parent in waiting:
                    return True
                ancestor = snapshot.processes.get(ancestor.parent)
    return False


def _is_fed(wait: Wait, members: Iterable[int]) -> bool:
    pipes = wait.seen.pipes
    return bool(pipes) and any(writes_to(pid, pipes) for pid in members if pid != wait.pid)


def _open_peer(master: int, slave: str) -> int:
    try:
        return fcntl.ioctl(master, _TIOCGPTPEER, _SLAVE_FLAGS)
    except OSError:
        return os.open(slave, _SLAVE_FLAGS)


def _read_kind(fd: int) -> tuple[Kind, int | None]:
    """Return the kind of input of a read, and the timeout in milliseconds (VTIME of termios(3)), None
    without one. Raises OSError."""
    try:
        _, _, _, lflag, _, _, chars = termios.tcgetattr(fd)
    except termios.error as error:
        raise OSError(*error.args) from None
    if lflag & termios.ICANON:
        return ("line" if lflag & termios.ECHO else "secret"), None
    return "key", None if chars[termios.VMIN] else chars[termios.VTIME] * 100


@cache
def _read_pipe_device() -> int:
    ours, theirs = os.pipe()
    try:
        return os.fstat(ours).st_dev
    finally:
        os.close(ours)
        os.close(theirs)
