"""Whether somebody waits for input right now: on a terminal, or at the end of a pipe.

Rules:

- Nothing is guessed. What a program prints, how long it is silent and what it is called say
  nothing. A read or a poll of the terminal that a thread of the foreground group sleeps in does,
  while nothing that was typed is unread.
- `reads` is certain, always. `busy` is, unless the program has taken the keyboard over (the
  terminal is not canonical) and sleeps by the clock: it may look at the keyboard in between.
  Where something may not be looked at (another user's program, such as sudo) and nothing else
  reads, it is `unknown`.
- An answer is of one moment. What is seen to wait is looked at again at the end, and has to be
  in the very same wait; in between the modes and the foreground are read.
- Nothing is changed, and nothing waits. The other end of the terminal is opened for the moment,
  never as a controlling one, and only while a program holds it too.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import stat
import termios
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

from haftd.host import tty
from haftd.host.family import hidden, lister, lives
from haftd.host.identity import Stat, read_stat
from haftd.host.waits import Blocked, Sought, blocked, holds, still

__all__ = ["Kind", "Reading", "reading", "reading_pipe"]

Kind = Literal["line", "key", "secret"]

_TIOCGPTPEER = 0x5441  # from Linux 4.13 on, the same on every machine of gate.py
_THEIRS = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
_DEV_TTY = os.makedev(5, 0)
_MOST_PROCESSES = 256
_MOST_THREADS = 512


@dataclass(frozen=True, slots=True)
class Reading:
    """Whether input is awaited, as of one moment."""

    state: Literal["reads", "busy", "unknown"]
    kind: Kind | None = None
    """What is awaited, by the modes of the terminal: a line; a line that is not shown; keys. Of
    an `unknown`, what it would be. None when busy. On a pipe always a line."""
    certain: bool = False
    pids: tuple[int, ...] = ()
    """Who waits; of an `unknown`, who cannot be told; of a `busy`, who is in the foreground."""
    within_ms: int | None = None
    """Every wait ends by itself as well, after so long at most: the program does something else
    now and then. None when one lasts for ever."""
    relays: bool = False
    """Every program that waits has something else to wait for, too: a socket, another terminal,
    or a pipe from another program of the foreground. What is typed may be for somebody beyond
    (ssh, tmux, script), and what is awaited may be somebody's work, of whom this says nothing."""
    alone: bool = False
    """Some program waits for nothing but the input."""

    @property
    def timed(self) -> bool:
        """Whether the wait ends without input, too."""
        return self.within_ms is not None


class _Wait(NamedTuple):
    pid: int
    tid: int
    seen: Blocked


@dataclass(slots=True)
class _Look:
    """What was seen of some processes. `unsure` are those that cannot be told."""

    members: list[int] = field(default_factory=list)
    unsure: set[int] = field(default_factory=set)
    waits: list[_Wait] = field(default_factory=list)
    outward: set[int] = field(default_factory=set)
    timed: bool = False
    """Something that does not wait for input sleeps by the clock."""


def reading(master: int, slave: str, pids: Iterable[int]) -> Reading:
    """Tell whether a program in the foreground of the terminal waits for what is typed.

    `pids`: where to look, together with all that descends from them; the leader of the session
    is enough but for what has lost its parent. Blocks for some 0.1 ms. Call it when the output
    was read up to here: a program that prints and then waits has done both by then. Raises
    OSError when `master` is no terminal.
    """
    group = tty.foreground(master)
    for _ in range(3):
        if group is None:
            break
        told = _in_foreground(master, slave, pids, group)
        now = tty.foreground(master)
        if now == group:
            return told
        group = now
    return Reading("unknown")


def reading_pipe(pids: Sequence[int], pipe_inode: int) -> Reading:
    """Tell whether one of these, or of what descends from them, waits at the end of that pipe.

    Who waits there has read all that was written. Anything still queued is the caller's to know.
    """

    def sought(what: os.stat_result) -> bool:
        return (
            what.st_ino == pipe_inode
            and stat.S_ISFIFO(what.st_mode)
            and what.st_dev == _pipe_device()
        )

    look = _look(pids, None, sought)
    found = _confirm(look)
    if found:
        return _reads(look, found, "line")
    if look.unsure or not look.members:
        return Reading("unknown", "line", pids=tuple(sorted(look.unsure)))
    return Reading("busy", None, True, tuple(look.members))


def _in_foreground(master: int, slave: str, pids: Iterable[int], group: int) -> Reading:
    try:
        terminal, unread = _other_end(master, slave)
    except OSError:  # it is exclusive, or there is no descriptor to be had
        return Reading("unknown", _kind(master)[0])
    if unread:
        return Reading("busy", None, True)

    def sought(what: os.stat_result) -> bool:
        # /dev/tty is this one: the group is of its session.
        return (what.st_dev, what.st_ino) == terminal or (
            what.st_rdev == _DEV_TTY and stat.S_ISCHR(what.st_mode)
        )

    look = _look([*pids, group], group, sought)
    kind, patience_ms = _kind(master)
    found = _confirm(look)
    if found:
        return _reads(look, found, kind, patience_ms)
    if look.unsure or (not look.members and not _is_empty(group)):
        return Reading("unknown", kind, pids=tuple(sorted(look.unsure)))
    return Reading("busy", None, not (kind == "key" and look.timed), tuple(look.members))


def _reads(look: _Look, found: list[_Wait], kind: Kind, patience_ms: int | None = None) -> Reading:
    """Put together what several waits come to. `patience_ms` is that of a read."""
    who = {wait.pid for wait in found}
    fed = {wait.pid for wait in found if _is_fed(wait, look.members)}
    bounds = [patience_ms if wait.seen.state == "reads" else wait.seen.within_ms for wait in found]
    timed = [bound for bound in bounds if bound is not None]
    within = max(timed) if len(timed) == len(bounds) else None
    alone = any(wait.seen.alone for wait in found)
    relays = who <= look.outward | fed
    return Reading("reads", kind, True, tuple(sorted(who)), within, relays, alone)


def _is_fed(wait: _Wait, members: Iterable[int]) -> bool:
    """Say whether another of them can write to a pipe that the wait is for, too."""
    pipes = wait.seen.pipes
    return bool(pipes) and any(
        holds(pid, pipes, stat.S_ISFIFO, os.O_WRONLY | os.O_RDWR)
        for pid in members
        if pid != wait.pid
    )


def _confirm(look: _Look) -> list[_Wait]:
    """Who has not left its wait since it was seen."""
    return [wait for wait in look.waits if still(wait.pid, wait.tid, wait.seen)]


def _look(pids: Iterable[int], group: int | None, sought: Sought) -> _Look:
    """Look at these and their descendants, as far as they are of the group."""
    look = _Look()
    below = lister()
    queue, known, threads = list(pids), set[int](), 0
    while queue:
        pid = queue.pop()
        if pid in known:
            continue
        if len(known) >= _MOST_PROCESSES or threads >= _MOST_THREADS:
            look.unsure.add(pid)
            break
        known.add(pid)
        who = read_stat(pid)
        if who is None:
            if hidden(pid) and group in (None, _group_of(pid)):
                look.unsure.add(pid)
            continue
        queue += below(pid)
        if (group is None or who.group == group) and lives(who):
            threads += _look_at(who, sought, look, _MOST_THREADS - threads)
    look.members.sort()
    return look


def _look_at(who: Stat, sought: Sought, look: _Look, most: int) -> int:
    """Look at the threads of a process; returns how many."""
    pid = who.pid
    look.members.append(pid)
    try:
        tids = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - half the time of Path.iterdir
    except OSError:
        return 0
    for tid in map(int, tids[:most]):
        if tid == pid and who.state in "ZX":
            continue  # the first thread has ended before the others
        seen = blocked(pid, tid, sought)
        if seen.outward:
            look.outward.add(pid)
        if seen.state == "hidden":
            look.unsure.add(pid)
        elif seen.state == "away":
            look.timed |= seen.within_ms is not None
        else:
            look.waits.append(_Wait(pid, tid, seen))
    if len(tids) > most:
        look.unsure.add(pid)
    return len(tids)


def _other_end(master: int, slave: str) -> tuple[tuple[int, int], bool]:
    """Which file the terminal is, and whether something typed is unread. Raises OSError."""
    try:
        fd = fcntl.ioctl(master, _TIOCGPTPEER, _THEIRS)
    except OSError:
        fd = os.open(slave, _THEIRS)
    try:
        # What is on its way to the reader is handed over by the poll. It knows a line that has
        # no end yet from one that could be read, which FIONREAD does only in canonical mode.
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        unread = any(event & select.POLLIN for _, event in poll.poll(0))
        what = os.fstat(fd)
        return (what.st_dev, what.st_ino), unread
    finally:
        os.close(fd)


def _kind(master: int) -> tuple[Kind, int | None]:
    """What a read of the terminal gets, and after how many milliseconds it gives up."""
    try:
        _, _, _, lflag, _, _, chars = termios.tcgetattr(master)
    except termios.error as error:
        raise OSError(*error.args) from None
    if lflag & termios.ICANON:
        return ("line" if lflag & termios.ECHO else "secret"), None
    return "key", None if chars[termios.VMIN] else chars[termios.VTIME] * 100


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _is_empty(group: int) -> bool:
    """Say whether nobody is in the foreground: a shell is about to take it back."""
    try:
        os.killpg(group, 0)
    except OSError as error:
        return error.errno == errno.ESRCH
    return False


@cache
def _pipe_device() -> int:
    """The file system of all pipes without a name."""
    ours, theirs = os.pipe()
    try:
        return os.fstat(ours).st_dev
    finally:
        os.close(ours)
        os.close(theirs)
