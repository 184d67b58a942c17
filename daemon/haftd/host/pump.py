"""Move bytes from a tool to the consumer of its output, and from its inputs to the tool.

A pipe's end is final. A terminal's, EIO, is temporary: a process may reopen it. The owner closes
descriptors through `close` where a task may wait, which then gets `trio.ClosedResourceError`.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import select
import struct
import termios
from collections import deque
from collections.abc import Awaitable, Callable

import trio

from haftd.host.readiness import LateEvent
from haftd.host.tty.hangup import TerminalChanges, is_hung_up

CHUNK = 65_536
"""Bytes of one read: a pipe's default capacity (pipe(7))."""
_MIN_GATHERED = 1_024
"""Bytes of a read after which more may be there at once."""
_MAX_GATHERED = 16_384
"""Reads of a flood are joined to this size, as a terminal gives 4 KiB a read, unless the consumer
has not kept up."""
_READS_A_TURN = 8
_TURN_S = 0.001
"""A turn ends by reads or by time, so that one flood leaves the loop to other handles."""
_INT = struct.Struct("i")
_NO_ITEMS: deque[tuple[int, memoryview]] = deque()
"""An empty deque takes 0.7 KiB."""
_CLOSED = (errno.EPIPE, errno.EIO, errno.ECONNRESET, errno.EBADF)


class InputFull(Exception):
    """The input queue of a process that does not read is full; nothing was queued."""

    def __init__(self, waiting: int, limit: int) -> None:
        super().__init__(
            f"The program does not read its input: {waiting:,} bytes are queued; the limit is {limit:,}."
        )
        self.waiting = waiting
        self.limit = limit


class Closed(Exception):
    """The process or an earlier call has closed this input; nothing was queued."""


def close(fd: int) -> None:
    """Close a descriptor that a task may be waiting on."""
    try:
        trio.lowlevel.notify_closing(fd)
    except RuntimeError:
        pass  # no loop in this thread, so no task waits
    os.close(fd)


def _read(fd: int) -> bytes | None:
    """Return available data: empty at the end, None if there is none yet."""
    while True:
        try:
            return os.read(fd, CHUNK)
        except BlockingIOError:
            return None
        except InterruptedError:
            continue
        except OSError as error:
            if error.errno == errno.EIO:  # a terminal that no process has open
                return b""
            raise


def _gather(fd: int, data: bytes, until: float) -> tuple[bytes, int]:
    """Return `data` and the bytes that follow in `fd`, some `_MAX_GATHERED` until the time `until`;
    and the number of reads."""
    parts, size = [data], len(data)
    while size < _MAX_GATHERED - len(data) and trio.current_time() < until and (more := _read(fd)):
        parts.append(more)
        size += len(more)
    return (b"".join(parts) if len(parts) > 1 else data), len(parts)


class Reader:
    """Passes all data from `fd` to `emit`, a turn at a time, until the end. Closes nothing.

    `keep_up` returns an awaitable for a consumer that has to be waited for; `is_final` decides if a
    terminal's end is the last.
    """

    __slots__ = ("_emit", "_is_final", "_is_slow", "_keep_up", "at_end", "fd", "is_idle")

    def __init__(
        self,
        fd: int,
        emit: Callable[[bytes], None],
        keep_up: Callable[[], Awaitable[None] | None] = lambda: None,
        is_final: Callable[[], bool] = lambda: True,
    ) -> None:
        self.fd = fd
        self.at_end = False
        self.is_idle = False
        """True if the last turn has emptied the buffer: the next one waits for readability."""
        self._emit = emit
        self._keep_up = keep_up
        self._is_final = is_final
        self._is_slow = False

    def turn(self) -> Awaitable[None] | None:
        """Read some data; return the awaitable that precedes the next turn, if any."""
        self.is_idle = False
        reads, began = 0, -math.inf
        while True:
            data = _read(self.fd)
            if data is None:
                self.is_idle = True
                return None
            if not data:
                if self._is_final():
                    self.at_end = True
                    return None
                return self._wait_reopened()
            # The kernel gives all that it has, up to 4 KiB of a terminal: another read of little
            # output would find none.
            is_last = len(data) < _MIN_GATHERED
            count = 1
            if not is_last:
                began = trio.current_time() if began < 0 else began
                if len(data) < _MAX_GATHERED and not self._is_slow:
                    data, count = _gather(self.fd, data, began + _TURN_S)
            self._emit(data)
            reads += count
            rest = self._keep_up()
            self._is_slow = rest is not None
            if rest is not None:
                return rest
            if is_last:
                self.is_idle = True
                return None
            if reads >= _READS_A_TURN or trio.current_time() - began >= _TURN_S:
                return None

    async def _wait_reopened(self) -> None:
        with TerminalChanges(self.fd) as changes:
            while is_hung_up(self.fd) and not self._is_final():
                await changes.next()


async def pump(
    fd: int,
    emit: Callable[[bytes], None],
    keep_up: Callable[[], Awaitable[None] | None] = lambda: None,
    is_final: Callable[[], bool] = lambda: True,
) -> None:
    """Run a `Reader` to the end. Cancellation loses nothing: read data was emitted."""
    reader = Reader(fd, emit, keep_up, is_final)
    while True:
        rest = reader.turn()
        if reader.at_end:
            return
        if rest is not None:
            await rest
        elif reader.is_idle:
            await trio.lowlevel.wait_readable(fd)
        else:
            await trio.lowlevel.checkpoint()


def is_readable(fd: int) -> bool:
    """True if a read would not block; the poll delivers a terminal's data on its way."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    ready = poll.poll(0)
    return bool(ready) and bool(ready[0][1] & select.POLLIN)


def count_unread(fd: int) -> int:
    """Return the number of bytes in a pipe, from either end; raise OSError."""
    (count,) = _INT.unpack(fcntl.ioctl(fd, termios.FIONREAD, bytes(_INT.size)))
    return int(count)


def drain(fd: int, emit: Callable[[bytes], None], most: int = 1 << 20) -> bool:
    """Emit available data, some `most` bytes; return True at the end."""
    taken = 0
    while taken < most:
        data = _read(fd)
        if data is None:
            return False
        if not data:
            return True
        taken += len(data)
        emit(data)
    return False


class Writer:
    """Input queue of one process. The caller closes `fd`.

    `on_written(number)` reports a written or dropped item, possibly before `put` returns; numbers only grow.
    `on_end` closes the descriptor once `end` is reached. `on_waiting` is called with `run` when the
    first item has to wait and `run` has not begun.
    """

    __slots__ = (
        "_closed",
        "_ending",
        "_fd",
        "_held",
        "_is_running",
        "_last",
        "_on_end",
        "_on_waiting",
        "_on_written",
        "_queue",
        "_wake",
        "limit",
    )

    def __init__(
        self,
        fd: int,
        on_written: Callable[[int], None] = lambda _: None,
        on_end: Callable[[], None] = lambda: None,
        limit: int = 1 << 20,
        on_waiting: Callable[[Callable[[], Awaitable[None]]], None] = lambda _: None,
    ) -> None:
        self.limit = limit
        self._on_waiting = on_waiting
        self._is_running = False
        self._fd = fd
        self._on_written = on_written
        self._on_end = on_end
        self._queue = _NO_ITEMS
        self._held = 0
        self._last = 0
        self._closed = False
        self._ending = False
        self._wake = LateEvent()

    @property
    def closed(self) -> bool:
        """True if the process closed its end, or `end` was called."""
        return self._closed or self._ending

    @property
    def last(self) -> int:
        """Number of the last queued item; 0 before the first."""
        return self._last

    @property
    def waiting(self) -> int:
        """Bytes that are queued and not written."""
        return self._held

    def put(self, data: bytes) -> int:
        """Write `data` at once, as far as the descriptor takes it, and queue the rest; return the item's
        number. Raises InputFull, Closed.

        An item may exceed the limit of an empty queue.
        """
        if self.closed:
            raise Closed("The program does not read any more input.")
        if self._held and self._held + len(data) > self.limit:
            raise InputFull(self._held, self.limit)
        self._last += 1
        if not self._queue:
            count = self._write_now(data)
            if count == len(data):
                self._on_written(self._last)
                return self._last
            rest = memoryview(data)[count:]
        else:
            rest = memoryview(data)
        if self._queue is _NO_ITEMS:
            self._queue = deque()
        self._queue.append((self._last, rest))
        self._held += len(rest)
        if len(self._queue) == 1:
            self._write()
        if self._queue:
            self._wake.set()
            if not self._is_running:
                self._is_running = True
                self._on_waiting(self.run)
        return self._last

    def end(self) -> None:
        """End the input after the queued items, then call `on_end`."""
        if self.closed:
            return
        self._ending = True
        if not self._queue:
            self._finish()
        self._wake.set()

    async def run(self) -> None:
        """Write the queued data; return when the input is closed, by the process or after `end`."""
        self._is_running = True
        while not self._closed:
            if self._queue:
                try:
                    await self._wait_room()
                except trio.ClosedResourceError:
                    self._drop()
                    return
                except OSError as error:
                    if error.errno not in _CLOSED:
                        raise
                    self._drop()
                    return
                self._write()
            else:
                self._wake = LateEvent()
                await self._wake.wait()

    async def _wait_room(self) -> None:
        if not is_hung_up(self._fd, select.POLLOUT):
            await trio.lowlevel.wait_writable(self._fd)
            return
        with TerminalChanges(self._fd) as changes:
            while is_hung_up(self._fd, select.POLLOUT):
                await changes.next()

    def _write_now(self, data: bytes) -> int:
        """Write the first item without the queue; return the number of bytes, 0 on any error."""
        try:
            return os.write(self._fd, data) if data else 0
        except OSError:
            return 0  # `_write` meets the error again

    def _write(self) -> None:
        while self._queue:
            number, data = self._queue[0]
            try:
                count = os.write(self._fd, data) if data else 0
            except BlockingIOError:
                return
            except InterruptedError:
                continue
            except OSError as error:
                if error.errno not in _CLOSED:
                    raise
                self._drop()
                return
            self._held -= count
            if count < len(data):
                self._queue[0] = (number, data[count:])
                continue
            self._queue.popleft()
            self._on_written(number)
        if self._ending:
            self._finish()

    def _drop(self) -> None:
        self._queue.clear()
        self._held = 0
        self._closed = True
        self._wake.set()
        if self._last:
            self._on_written(self._last)

    def _finish(self) -> None:
        self._closed = True
        self._on_end()
