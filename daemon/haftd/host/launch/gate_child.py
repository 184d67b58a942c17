"""A child at its gate, with the daemon's end of the socket that opens it.

A machine gate takes its words and descriptors when it opens, so a child can wait for a later start:
during `keep_spare`, a start without a sandbox leaves one for half a second, if the start before was as
recent. It has the socket and nothing else of the daemon's, sleeps until its start, and exits with the daemon.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from haftd.host import timer
from haftd.host.launch.gate import GATE_FD, WORDS_FD, Gate, make_words_file
from haftd.host.launch.spawn_fds import Action, SpawnFds
from haftd.host.process.ancestry import abandoned, helpers
from haftd.host.process.identity import Identity, identify_child, send_signal

_SIGNALS = signal.valid_signals()
_ENDED_OR_STOPPED = os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT
_MAX_AGE_S = 0.5
"""A child waits no longer for a start: its program has the start time of the fork, and the limits and
affinity that the daemon had then. Starts of one piece of work follow each other sooner."""


class GateChild:
    """Child at a gate that is shut. The owner closes `pidfd`, and takes the exit status."""

    __slots__ = ("_fds", "_socket", "_words", "identity", "pid", "pidfd")

    def __init__(
        self, pid: int, pidfd: int, identity: Identity, sock: socket.socket, words: int | None
    ) -> None:
        self.pid: Final = pid
        self.pidfd: Final = pidfd
        self.identity: Final = identity
        self._socket = sock
        self._words = words
        """Memory file for a machine gate."""
        self._fds: dict[int, int] = {}

    def give(self, fds: Mapping[int, int], memory: bytes = b"") -> None:
        """Own `fds`, by the child's numbers, until the gate is closed; raise OSError.

        A machine gate gets them, with the words in `memory`, when it opens.
        """
        self._fds.update(fds)
        if self._words is not None:
            rest = memoryview(memory)
            while rest:
                rest = rest[os.write(self._words, rest) :]
            self._fds[WORDS_FD] = self._words

    def open(self) -> None:
        """Open the gate, once. Raises OSError, but not for a killed gate, which its exit shows."""
        # A machine gate gets the numbers 0, 1, 2, 4 … in this order.
        fds = [] if self._words is None else [fd for _, fd in sorted(self._fds.items())]
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendmsg([b"\n"], [rights] if fds else [])

    def close(self) -> None:
        """Close the daemon's descriptors but `pidfd`; a gate that is shut exits."""
        self._socket.close()
        if self._words is not None:
            self._fds[WORDS_FD] = self._words
            self._words = None
        for fd in set(self._fds.values()):
            os.close(fd)
        self._fds.clear()

    def can_run(self) -> bool:
        """True unless the child has ended or was stopped by a signal."""
        try:
            return os.waitid(os.P_PIDFD, self.pidfd, _ENDED_OR_STOPPED) is None
        except ChildProcessError:  # the reaper has taken the status
            return False


def fork(
    gate: Gate,
    words: list[str] | None = None,
    env: Mapping[str, str] | None = None,
    actions: Sequence[Action] = (),
) -> GateChild:
    """Fork a child up to the gate; blocks for some 0.1 ms. Raises OSError, and leaves nothing."""
    fds = SpawnFds()
    pid = 0
    ours, theirs = socket.socketpair()
    try:
        end = fds.adopt(theirs.detach())
        memory = fds.adopt(make_words_file()) if gate.kind == "machine" else None
        pid = os.posix_spawn(
            gate.program,
            list(gate.prefix) if words is None else words,
            env or {},
            file_actions=[*actions, (os.POSIX_SPAWN_DUP2, end, GATE_FD)],
            setsigmask=(),
            setsigdef=_SIGNALS,
        )
        fds.close_one(end)
        pidfd = fds.adopt(os.pidfd_open(pid))
        return GateChild(pid, pidfd, identify_child(pid, pidfd), ours, memory)
    except BaseException:
        if pid:
            kill(pid)
        ours.close()
        theirs.close()
        fds.close()
        raise


def kill(pid: int) -> None:
    """Kill a child, at or just past the gate, and take its status."""
    # Unreaped: the pid cannot be reused.
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


class _Spare:
    """Child that waits for the next start."""

    __slots__ = ("child", "gate", "is_wanted", "started_s", "until_s")

    def __init__(self) -> None:
        self.is_wanted: Callable[[], bool] = lambda: False
        self.gate: Gate | None = None
        self.child: GateChild | None = None
        self.until_s = 0.0
        """End of the wait, by `_read_clock_s`."""
        self.started_s = float("-inf")
        """Time of the last start that could have left a child, by `_read_clock_s`."""


_spare = _Spare()
"""Global, as the kernel's table of children."""


def take(gate: Gate) -> GateChild:
    """Return the spare child of this gate, or fork one; raises OSError. Waits for no end of a child."""
    child = _spare.child
    if child is None or _spare.gate is not gate:
        return fork(gate)
    if _read_clock_s() < _spare.until_s and child.can_run():
        _spare.child = None
        helpers.discard(child.pid)
        return child
    _end_spare()
    return fork(gate)


def leave_spare(gate: Gate) -> None:
    """Fork the child of the next start, if one is to be kept, and have it ended `_MAX_AGE_S` later. Never
    raises OSError.

    A start that comes alone leaves none: the fork and the end of a child that was not used would cost the
    daemon a fifth of a start.
    """
    now_s = _read_clock_s()
    is_alone = now_s - _spare.started_s >= _MAX_AGE_S
    _spare.started_s = now_s
    if is_alone or _spare.child is not None or not _spare.is_wanted():
        return
    # A call that is due already is put off by this one; without a timer no child may wait.
    if not timer.call_in(_MAX_AGE_S, _end_spare):
        return
    with contextlib.suppress(OSError):
        child = fork(gate)
        _spare.gate, _spare.child, _spare.until_s = gate, child, now_s + _MAX_AGE_S
        helpers.add(child.pid)


@contextlib.contextmanager
def keep_spare(is_wanted: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Have each start without a sandbox that soon follows another leave a child for the next one, during the
    block, if `is_wanted` then returns True.

    A start that follows at once gains nothing: it waits for the fork all the same, and for the program
    before it where that has got the daemon's processor.
    """
    before, _spare.is_wanted = _spare.is_wanted, is_wanted
    try:
        yield
    finally:
        _spare.is_wanted = before
        _end_spare(waits=True)


def _end_spare(*, waits: bool = False) -> None:
    """Kill the spare child, if there is one. The reaper takes its status, unless this function `waits`."""
    child, _spare.child = _spare.child, None
    if child is None:
        return
    send_signal(child.pidfd, signal.SIGKILL)
    try:
        end = os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED | (0 if waits else os.WNOHANG))
    except ChildProcessError:
        pass  # the reaper has taken the status, and the pid out of `helpers`
    else:
        if end is None:
            abandoned.add(child.pid)
        else:
            helpers.discard(child.pid)
    child.close()
    os.close(child.pidfd)


def _read_clock_s() -> float:
    """Return the clock of the processes' start times, which goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
