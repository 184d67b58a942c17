"""Line format of `handles.lock`: one process of a handle, `<crc32> <json>`, without arguments,
environment or secrets.

Lines with a wrong checksum are counted and ignored.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring_ascii

from haftd.host.process.identity import Identity
from haftd.lazy_pattern import lazy_pattern
from haftd.named_tuple import NamedTuple

VERSION = 1
"""Older versions are read, a newer file is put aside."""

_MAX_READ = 2 << 20  # bytes at either end; a journal of haftd is shorter than the sum
_LINE = lazy_pattern(rb"([0-9a-f]{8}) (\{[^\n]{2,65536}\})\n")
_END = b'{"t":"end","mark":"'
_CUT = lazy_pattern(rb"[0-9a-f]{1,8}(?: (?:\{[ -~]*)?)?")


class Record(NamedTuple):
    """A handle's process, for the next daemon's kill and report."""

    n: int
    """Number of the handle within one daemon."""
    pid: int
    ticks: int
    inode: int
    boot: str
    ns: int
    sid: int
    """The kernel's session id."""
    uid: int
    mark: str
    """Process tag."""
    cgroup: str = ""
    session: str = ""
    """A client's session."""
    id: str = ""
    tool: str = ""
    generation: int = 1
    command: str = ""
    at: float = 0.0
    """Start, in seconds since the epoch."""
    others: tuple[Identity, ...] = ()
    """Later processes outside the leader's group."""
    is_stopped: bool = False
    """Only processes left behind may still run."""

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.ticks, self.inode, self.boot, self.ns)


_TEXT = frozenset({"boot", "mark", "cgroup", "session", "id", "tool", "command"})
_NUMBERS = frozenset({"n", "pid", "ticks", "inode", "ns", "sid", "uid", "generation"})
_OWN_LINES = frozenset({"others", "is_stopped"})
_OF_START = tuple(name for name in Record._fields if name not in _OWN_LINES)
_START = '{"t":"start",' + ",".join(f'"{name}":%s' for name in _OF_START) + "}"
_NEEDED = frozenset({"n", "pid", "ticks", "inode", "boot", "ns", "mark"})


_to_json = json.JSONEncoder(separators=(",", ":")).encode


def _encode(form: dict[str, object]) -> bytes:
    body = _to_json(form).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def head_line() -> bytes:
    return _encode({"t": "head", "v": VERSION})


def end_line(mark: str) -> bytes:
    return _of_mark("end", mark)


def start_line(record: Record) -> bytes:
    # By hand in half the time of the encoder: it precedes each start.
    values = [
        encode_basestring_ascii(value) if type(value) is str else repr(value)
        for value in record[: len(_OF_START)]
    ]
    body = (_START % tuple(values)).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(body), body)


def stopped_line(mark: str) -> bytes:
    return _of_mark("stopped", mark)


def _of_mark(kind: str, mark: str) -> bytes:
    body = b'{"t":"%s","mark":%s}' % (kind.encode(), encode_basestring_ascii(mark).encode())
    return b"%08x %s\n" % (zlib.crc32(body), body)


def others_line(mark: str, others: Iterable[Identity]) -> bytes:
    identities = [
        [process.pid, process.ticks, process.inode, process.boot, process.ns] for process in others
    ]
    return _encode({"t": "kin", "mark": mark, "who": identities})


def _read_record(form: dict[str, object]) -> Record | None:
    """Return the record of a start, with defaults for what older versions lack; None for an invalid one."""
    kept: dict[str, object] = {}
    for key, value in form.items():
        is_valid = (
            isinstance(value, str)
            if key in _TEXT
            else type(value) is int and 0 <= value < 1 << 64
            if key in _NUMBERS
            else type(value) in (int, float)
            if key == "at"
            else None
        )
        if is_valid is False:
            return None
        if is_valid:
            kept[key] = value
    if not kept.keys() >= _NEEDED:
        return None
    kept.setdefault("sid", kept["pid"])
    kept.setdefault("uid", os.getuid())
    return Record(**kept)  # type: ignore[arg-type]  # each was checked above


def _read_others(form: dict[str, object]) -> tuple[str, tuple[Identity, ...]] | None:
    mark, identities = form.get("mark"), form.get("who")
    if not isinstance(mark, str) or not isinstance(identities, list):
        return None
    others = []
    for entry in identities:
        match entry:
            case [int(pid), int(ticks), int(inode), str(boot), int(ns)]:
                others.append(Identity(pid, ticks, inode, boot, ns))
            case _:
                return None
    return mark, tuple(others)


class Records:
    def __init__(self) -> None:
        self.live: dict[str, Record] = {}
        self.problems: list[str] = []
        self.version: int | None = None
        self.torn = False
        """The last line is incomplete."""

    def take(self, body: bytes) -> bool:
        """Apply a line with a valid checksum; return False for an unknown kind."""
        if body.startswith(_END) and b"\\" not in body:
            # Most lines are of this kind, and this takes a tenth of the time.
            self.live.pop(body[len(_END) : -2].decode("ascii", "replace"), None)
            return True
        try:
            form = json.loads(body)
        except (ValueError, RecursionError):
            return False
        kind = form.get("t")
        if kind == "head" and type(form.get("v")) is int:
            self.version = max(form["v"], self.version or 0)
            return True
        if kind == "start" and (record := _read_record(form)) is not None:
            self.live[record.mark] = record
            return True
        if kind == "kin" and (others := _read_others(form)) is not None:
            if (record := self.live.get(others[0])) is not None:
                self.live[others[0]] = record._replace(others=(*record.others, *others[1]))
            return True
        if kind == "stopped" and isinstance(form.get("mark"), str):
            if (record := self.live.get(form["mark"])) is not None:
                self.live[form["mark"]] = record._replace(is_stopped=True)
            return True
        if kind == "end" and isinstance(form.get("mark"), str):
            self.live.pop(form["mark"], None)
            return True
        return False


def _pieces(fd: int, size: int) -> Iterator[bytes]:
    if size <= 2 * _MAX_READ:
        yield os.pread(fd, size, 0)
    else:
        yield os.pread(fd, _MAX_READ, 0)
        yield os.pread(fd, _MAX_READ, size - _MAX_READ)


def read(fd: int) -> Records:
    """Read the records, of a long file only those at either end. Raises OSError."""
    reading = Records()
    size = os.fstat(fd).st_size
    valid_bytes = 0
    piece = b""
    for piece in _pieces(fd, size):
        for match in _LINE.finditer(piece):
            if zlib.crc32(match[2]) == int(match[1], 16) and reading.take(match[2]):
                valid_bytes += match.end() - match.start()
    tail = piece[piece.rfind(b"\n") + 1 :]
    reading.torn = bool(tail)
    if size == 0:
        reading.problems.append("the file was empty")
    # A kill may cut the last line at a page boundary: that start had not begun.
    elif valid_bytes != size and not (
        valid_bytes + len(tail) == size and valid_bytes and _CUT.fullmatch(tail)
    ):
        reading.problems.append(f"{size - valid_bytes} of {size} bytes were not records")
    if size and reading.version is None:
        reading.problems.append("it has no version")
    if (reading.version or 0) > VERSION:
        reading.problems.append(
            f"it has version {reading.version}; this haftd knows version {VERSION}"
        )
        reading.live.clear()
    return reading
