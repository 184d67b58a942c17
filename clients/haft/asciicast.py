"""Read and write recordings of terminals in the asciicast format, versions 2 and 3.

Source: https://docs.asciinema.org/manual/asciicast/v3/. A line is a JSON value: the header, then an
event `[time, code, data]`. A time is in seconds, in version 3 since the event before, in version 2
since the start.

```
>>> writer = Writer(Header(version=3, cols=80, rows=24))
>>> writer.header()
b'{"version":3,"term":{"cols":80,"rows":24}}\\n'
>>> writer.output(250, b"hi")
b'[0.25,"o","hi"]\\n'
```
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import msgspec

VERSIONS = (2, 3)
MAX_LINE = 16 << 20
_MAX_TIME_S = 1e9


class NotARecording(ValueError):
    """Malformed line; the message has the line's number."""


@dataclass(frozen=True, slots=True)
class Header:
    version: int
    cols: int
    rows: int
    timestamp: int | None = None
    """Start, in seconds since the epoch."""

    command: str | None = None
    title: str | None = None
    idle_limit_s: float | None = None
    """Longest pause that a player keeps, in seconds."""


class Event(NamedTuple):
    at_ms: int
    """Since the start."""

    code: str
    """`o` output, `i` input, `r` resize, `m` marker, `x` exit status; readers skip other events."""

    data: str


class Writer:
    """Encoder of one recording. Whole milliseconds keep rounding errors from adding up."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._last_ms = 0
        # Buffers the bytes of an incomplete character.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def header(self) -> bytes:
        header = self._header
        size: dict[str, Any] = {"cols": header.cols, "rows": header.rows}
        if header.version == 2:
            fields: dict[str, Any] = {"version": 2, "width": header.cols, "height": header.rows}
        else:
            fields = {"version": header.version, "term": size}
        optional = {
            "timestamp": header.timestamp,
            "idle_time_limit": header.idle_limit_s,
            "command": header.command,
            "title": header.title,
        }
        fields |= {name: value for name, value in optional.items() if value is not None}
        return msgspec.json.encode(fields) + b"\n"

    def output(self, at_ms: int, data: bytes) -> bytes:
        """Return the event for printed bytes; nothing while a character is incomplete."""
        text = self._decoder.decode(data)
        return self._event(at_ms, "o", text) if text else b""

    def resize(self, at_ms: int, cols: int, rows: int) -> bytes:
        return self._event(at_ms, "r", f"{cols}x{rows}")

    def end(self, at_ms: int, status: int | None = None) -> bytes:
        """Return the last events: an incomplete character, and in version 3 the exit status."""
        text = self._decoder.decode(b"", final=True)
        lines = self._event(at_ms, "o", text) if text else b""
        if status is not None and self._header.version >= 3:
            lines += self._event(at_ms, "x", str(status))
        return lines

    def _event(self, at_ms: int, code: str, data: str) -> bytes:
        at_ms = max(at_ms, self._last_ms)
        shown = at_ms if self._header.version == 2 else at_ms - self._last_ms
        self._last_ms = at_ms
        return msgspec.json.encode([shown / 1000, code, data]) + b"\n"


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; raise NotARecording for one too long to be an event."""
    number = 1
    while line := file.readline(MAX_LINE + 1):
        if len(line) > MAX_LINE:
            raise NotARecording(f"line {number} is longer than {MAX_LINE >> 20} MiB")
        yield line
        number += 1


def read(lines: Iterable[bytes]) -> tuple[Header, Iterator[Event]]:
    """Return the header and an iterator of the events, which reads the lines on demand.

    Raises NotARecording, for the first line immediately, for a later line from the iterator.
    """
    numbered = enumerate(lines, 1)
    _, first = next(numbered, (1, b""))
    header = _header(first)
    return header, _events(numbered, header)


def _header(line: bytes) -> Header:
    fields = _decode(line, 1, dict)
    version = fields.get("version")
    if version not in VERSIONS:
        raise NotARecording(f"line 1: it must be an asciicast of version 2 or 3, not {version!r}")
    size = fields if version == 2 else fields.get("term")
    names = ("width", "height") if version == 2 else ("cols", "rows")
    cols, rows = (size.get(name) if isinstance(size, dict) else None for name in names)
    if not isinstance(cols, int) or not isinstance(rows, int):
        raise NotARecording(f"line 1: the size of the terminal ({', '.join(names)}) is missing")
    limit = fields.get("idle_time_limit")
    return Header(
        version,
        cols,
        rows,
        timestamp=_of(fields, "timestamp", int),
        command=_of(fields, "command", str),
        title=_of(fields, "title", str),
        idle_limit_s=limit if isinstance(limit, int | float) else None,
    )


def _events(numbered: Iterator[tuple[int, bytes]], header: Header) -> Iterator[Event]:
    at = 0.0
    for number, line in numbered:
        if not line.strip() or line.startswith(b"#"):
            continue
        match _decode(line, number, list):
            case [int() | float() as time, str() as code, str() as data] if (
                0 <= time <= _MAX_TIME_S
            ):
                at = time if header.version == 2 else at + time
                yield Event(round(at * 1000), code, data)
            case _:
                raise NotARecording(f"line {number}: an event must be [seconds, code, text]")


def _decode(line: bytes, number: int, kind: type[Any]) -> Any:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise NotARecording(f"line {number} is not valid JSON: {fault}") from None
    if not isinstance(value, kind):
        wanted = "an object" if kind is dict else "an array"
        raise NotARecording(f"line {number}: it must be {wanted}")
    return value


def _of(fields: dict[str, Any], name: str, kind: type[Any]) -> Any:
    value = fields.get(name)
    return value if isinstance(value, kind) else None
