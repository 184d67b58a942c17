"""Output of one handle: a byte stream of which the head and the newest part are kept.

Offsets count from the handle's first byte. Memory holds the newest bytes, a ring in a file the
older bytes: byte `n` at `n % capacity`. The capacity shrinks only before the ring first wraps, so no
byte moves. A full or broken disk costs old output, never the handle.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from .long_strings import NO_STRINGS, LongStrings


class SpoolFolder(Protocol):
    """Anonymous spool files, and named files for their owner alone."""

    def open(self) -> int:
        """Open an anonymous file; raises OSError."""

    def link(self, fd: int, suffix: str = "") -> str:
        """Name an anonymous file with this ending; return the path; raises OSError."""

    def unlink(self, path: str) -> None:
        """Remove a named file; never raises."""


class SavedFile(msgspec.Struct, frozen=True):
    """Named file of an output."""

    folder: SpoolFolder
    path: str
    reserved: int
    """Bytes of the disk budget."""
    omitted: int = 0
    """Bytes that the file lacks."""


_BLOCK = 65_536
"""Bytes up to which small chunks are gathered, and into which chunks of more than two blocks are
split. A spool with little memory has smaller blocks."""

_MIN_LARGE_CHUNK = 4_096
"""Bytes from which on a chunk is kept as it came, not gathered."""

_MAX_HEAD = 32_768
"""Bytes of the beginning that outlive the ring: half of a default read."""

_DISK_STEP = 1_048_576
"""Step in which disk is taken from the budget."""

_NOT_SHOWN = (-1, None, 0)

_MAX_IDLE_MEMORY = 65_536
"""Bytes of a finished spool that may stay in memory."""


class Budget:
    """Disk of all spools, in bytes."""

    __slots__ = ("faults", "total", "used")

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self.faults = 0
        """Number of disk failures."""

    @property
    def free(self) -> int:
        return max(0, self.total - self.used)

    def take(self, wanted: int) -> int:
        """Take as much of `wanted` as is free; return the bytes taken."""
        granted = min(wanted, self.free)
        self.used += granted
        return granted

    def give(self, amount: int) -> None:
        self.used -= amount


class Spool:
    """Handle's output: about the newest `memory` bytes in memory, and older ones in a file of up to
    `disk` bytes; without `folder` in memory only."""

    __slots__ = (
        "_blocks",
        "_capacity",
        "_disk_start",
        "_fd",
        "_granted",
        "_memory",
        "_memory_start",
        "_piece",
        "_room",
        "_tail",
        "budget",
        "end",
        "extra_files",
        "folder",
        "head",
        "saved",
        "shown",
        "strings",
    )

    def __init__(self, memory: int, disk: int, folder: SpoolFolder | None, budget: Budget) -> None:
        self.end = 0
        """Offset after the newest byte: the size of all output."""
        self.head = b""
        """First bytes of the stream; empty while the kept part begins with them."""
        self.folder = folder
        self.saved: SavedFile | None = None
        """Named file of this output; removed with the spool."""
        self.extra_files: tuple[SavedFile, ...] = ()
        """Further named files; removed with the spool."""
        self.strings = NO_STRINGS
        """Control strings of more than `escapes.MAX_SEQUENCE` bytes."""
        self.shown: tuple[int, object, int] = _NOT_SHOWN
        """Cache of `text.shown_end`: end, rendering, offset."""
        self._memory = memory
        self._capacity = disk if folder is not None else 0
        self.budget = budget
        self._granted = 0
        self._fd = -1
        # [_disk_start, _memory_start) is in the file; [_memory_start, end) in memory, first
        # _blocks, then _tail, created on first use.
        self._disk_start = 0
        self._memory_start = 0
        self._blocks: deque[bytes] | None = None
        self._tail: bytearray | None = None
        self._room = min(_BLOCK, max(memory >> 2, 1))
        self._piece = max(self._room, _MIN_LARGE_CHUNK)

    @property
    def start(self) -> int:
        """Offset of the oldest kept byte, apart from the head."""
        return self._disk_start

    @property
    def on_disk(self) -> int:
        return self._memory_start - self._disk_start

    def append(self, data: bytes) -> None:
        """Append `data`; a disk failure is counted, never raised."""
        size = len(data)
        if size < _MIN_LARGE_CHUNK and size < self._room:
            tail = self._tail
            if tail is None:
                self._tail = bytearray(data)
            else:
                tail += data
                if len(tail) >= self._room:
                    self._flush_tail(tail)
            if self.strings is not NO_STRINGS or b"\x1b" in data:
                self._note_strings(data)
            self.end += size
        elif size <= 2 * self._piece:
            if self._tail is not None:
                self._flush_tail(self._tail)
            if self._blocks is None:
                self._blocks = deque()
            self._blocks.append(data if type(data) is bytes else bytes(data))
            if self.strings is not NO_STRINGS or b"\x1b" in data:
                self._note_strings(data)
            self.end += size
        else:
            view = memoryview(data)
            for at in range(0, size, self._piece):
                self.append(bytes(view[at : at + self._piece]))
            return
        if self.end - self._memory_start > self._memory:
            self._overflow()

    def _note_strings(self, data: bytes) -> None:
        if self.strings is NO_STRINGS:
            self.strings = LongStrings(_MAX_HEAD)
        self.strings.append(data, self.end, self._disk_start)

    def read(self, start: int, stop: int) -> bytes:
        """Return the kept bytes of [start, stop); a failing file moves `start` up."""
        start = max(start, self._disk_start)
        stop = min(stop, self.end)
        if start >= stop:
            return b""
        if start >= self._memory_start:
            return self._from_memory(start, stop)
        try:
            old = self._from_file(start, min(stop, self._memory_start))
        except OSError:
            self.budget.faults += 1
            self._abandon_file()
            return self.read(start, stop)
        return (
            old + self._from_memory(self._memory_start, stop) if stop > self._memory_start else old
        )

    def read_shown(self, start: int, stop: int) -> bytes:
        """Return the kept bytes of [start, stop) outside long control strings."""
        start, stop = max(start, self._disk_start), min(stop, self.end)
        parts = []
        for begin, end in self.strings.between(start, stop):
            parts.append(self.read(start, begin))
            start = end
        last = self.read(start, stop)
        return b"".join([*parts, last]) if parts else last

    def finish(self) -> None:
        """Expect no more output; move memory to the file if that drops no byte."""
        if (
            self.end - self._memory_start <= _MAX_IDLE_MEMORY
            or self.end - self._disk_start > self._capacity
        ):
            return
        wanted = min(self.end, self._capacity) - self._granted
        if wanted > self.budget.free:
            return
        if self._tail is not None:
            self._flush_tail(self._tail)
        try:
            self._open()
            self._granted += self.budget.take(max(0, wanted))
            while self._blocks:
                self._write(self._blocks[0], self._memory_start)
                self._memory_start += len(self._blocks.popleft())
        except OSError:
            self.budget.faults += 1
        else:
            self._blocks = None

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    @property
    def is_whole(self) -> bool:
        """True if the file has all output."""
        return self._fd >= 0 and self._disk_start == 0 and self._memory_start == self.end

    def link_file(self, link: Callable[[int], str]) -> str:
        """Name the open file by `link`, which gets its descriptor; return the path."""
        return link(self._fd)

    def transfer_disk(self) -> int:
        """Leave the granted bytes of disk to the file's new name; return the count."""
        granted, self._granted = self._granted, 0
        return granted

    def shrink(self) -> None:
        """Close a finished spool's file; keep in memory all of a short output, else head and newest
        part."""
        if self._fd < 0:
            return
        size = self.end - self._disk_start
        newest = self.read(self.end - (size if size <= _MAX_IDLE_MEMORY else _MAX_HEAD), self.end)
        if self._fd < 0:
            return  # The read failed, and the file is abandoned.
        start = self.end - len(newest)
        if start > self._disk_start:
            self._drop_before(start)
        self._blocks, self._tail = deque([newest]), None
        self._memory_start = start
        self._capacity = 0
        self._release()

    def close(self) -> None:
        """Drop all bytes and files; offsets stay."""
        self._capacity = 0
        self._blocks = self._tail = None
        self._disk_start = self._memory_start = self.end
        self.head = b""
        self._release()
        named = self.extra_files if self.saved is None else (*self.extra_files, self.saved)
        for file in named:
            file.folder.unlink(file.path)
            self.budget.give(file.reserved)
        self.extra_files, self.saved, self.folder = (), None, None

    # -- memory

    def _flush_tail(self, tail: bytearray) -> None:
        self._tail = None
        if not tail:
            return  # An empty block would be written to a file that is not open yet.
        if self._blocks is None:
            self._blocks = deque()
        self._blocks.append(bytes(tail))

    def _overflow(self) -> None:
        blocks = self._blocks
        if blocks is None:
            return
        while blocks and self.end - self._memory_start - len(blocks[0]) >= self._memory:
            if self._capacity > 0:
                self._to_disk(blocks[0])
            if self._capacity <= 0:
                self._drop_before(self._memory_start + len(blocks[0]))
            self._memory_start += len(blocks.popleft())

    def _from_memory(self, start: int, stop: int) -> bytes:
        # Most reads want the end: walk backwards.
        tail = self._tail
        at = self.end - (len(tail) if tail is not None else 0)
        if tail is not None and start >= at:
            return bytes(memoryview(tail)[start - at : stop - at])
        pieces: list[bytes | memoryview] = []
        if tail is not None and stop > at:
            pieces.append(memoryview(tail)[: stop - at])
        for block in reversed(self._blocks or ()):
            if at <= start:
                break
            at -= len(block)
            if at >= stop:
                continue
            if at >= start and at + len(block) <= stop:
                pieces.append(block)
            else:
                pieces.append(memoryview(block)[max(0, start - at) : stop - at])
        pieces.reverse()
        return b"".join(pieces)

    def _drop_before(self, offset: int) -> None:
        if self._disk_start == 0 and not self.head:
            wanted = min(_MAX_HEAD, self._memory, self.end)
            try:
                if self._memory_start > 0:
                    self.head = self._from_file(0, min(wanted, self._memory_start))
                self.head += self._from_memory(len(self.head), wanted)
            except OSError:
                self.budget.faults += 1
        self._disk_start = offset

    # --- the file ---------------------------------------------------------------------------

    def _to_disk(self, data: bytes) -> None:
        """Write the oldest block of memory, which the caller drops. Afterwards a capacity of 0 means
        that there is no file any more."""
        at = self._memory_start
        stop = at + len(data)
        if self._granted < self._capacity and stop > self._granted and not self._grow(stop):
            return
        wrapped = stop > self._capacity
        if stop - self._disk_start > self._capacity:
            self._drop_before(stop - self._capacity)
        skip = max(0, len(data) - self._capacity)
        try:
            self._write(data[skip:] if skip else data, at + skip)
        except OSError:
            self.budget.faults += 1
            if wrapped or at == 0:
                self._abandon_file()
                return
            # The file cannot grow, but be a ring of its present size.
            self.budget.give(self._granted - at)
            self._capacity = self._granted = at
            self._to_disk(data)

    def _grow(self, stop: int) -> bool:
        try:
            self._open()
        except OSError:
            self.budget.faults += 1
            self._abandon_file()
            return False
        wanted = min(max(stop, self._granted + _DISK_STEP), self._capacity)
        self._granted += self.budget.take(wanted - self._granted)
        if self._granted < min(stop, self._capacity):
            self._capacity = self._granted
            if not self._capacity:
                self._abandon_file()
                return False
        return True

    def _open(self) -> None:
        if self._fd < 0:
            assert self.folder is not None, "a spool without a folder tried to open a file"
            self._fd = self.folder.open()

    def _write(self, data: bytes, at: int) -> None:
        place = at % self._capacity
        done = 0
        if place + len(data) <= self._capacity:
            done = os.pwrite(self._fd, data, place)
            if done == len(data):
                return
        view = memoryview(data)[done:]
        at += done
        while view:
            place = at % self._capacity
            done = os.pwrite(self._fd, view[: self._capacity - place], place)
            if not done:
                raise OSError("a write to the spool's file wrote nothing")
            view = view[done:]
            at += done

    def _from_file(self, start: int, stop: int) -> bytes:
        pieces = []
        while start < stop:
            place = start % self._capacity
            piece = os.pread(self._fd, min(stop - start, self._capacity - place), place)
            if not piece:
                raise OSError("the file is shorter than it was")
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def _abandon_file(self) -> None:
        if self._memory_start > self._disk_start:
            self._drop_before(self._memory_start)
        self._capacity = 0
        self._release()

    def _release(self) -> None:
        self.budget.give(self._granted)
        self._granted = 0
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
