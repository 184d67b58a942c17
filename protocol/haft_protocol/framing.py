"""Framing without I/O: JSON lines or `Content-Length` blocks (docs/protocol.md, "Framing on a
stream").

A connection's first non-blank byte decides. The buffer exceeds its limit by one read at most.
Messages complete before a fault are returned.
"""

from __future__ import annotations

from typing import Literal

from .errors import RpcError, limit_exceeded, parse_error, shown

__all__ = ["Framer", "encode_headers", "encode_lines"]

_BLANK = b" \t\r\n"
_LINE_END = 0x0A
"""An integer: Python finds an integer's byte seven times as fast as a `bytes` of length 1."""
_MAX_HEADER_BYTES = 4096
_MAX_DIGITS = 18
_USUAL = b"Content-Length: "


def encode_lines(message: bytes, *more: bytes) -> bytes:
    """Frame one message, which may be in parts, as a line; line ends inside become spaces."""
    if more:
        return b"".join((*map(_on_one_line, (message, *more)), b"\n"))
    return (_on_one_line(message) if _LINE_END in message else message) + b"\n"


def _on_one_line(part: bytes) -> bytes:
    return part.replace(b"\n", b" ") if _LINE_END in part else part


def encode_headers(message: bytes, *more: bytes) -> bytes:
    size = len(message) + sum(map(len, more))
    return b"".join((b"Content-Length: %d\r\n\r\n" % size, message, *more))


class Framer:
    r"""Framing state of one side of one connection.

    `fault` is the error to send before closing, once the stream breaks the framing or exceeds a
    limit.

    >>> framer = Framer(max_message=1024)
    >>> framer.feed(b'{"id":1}\n{"id"')
    [b'{"id":1}']
    >>> framer.partial
    True
    >>> framer.feed(b':2}\n')
    [b'{"id":2}']
    """

    __slots__ = ("_buffer", "_max", "_missing", "fault", "kind")

    def __init__(self, max_message: int) -> None:
        self._max = max_message
        self._buffer = bytearray()
        self._missing = -1
        """Length of the body being read; -1 between blocks."""
        self.kind: Literal["unknown", "lines", "headers"] = "unknown"
        self.fault: RpcError | None = None

    @property
    def partial(self) -> bool:
        """True while an incomplete message is buffered."""
        return bool(self._buffer) or self._missing >= 0

    def frame(self, message: bytes, *more: bytes) -> bytes:
        """Frame one message, which may be in parts, as the peer does; as a line until that is known."""
        if self.kind == "headers":
            return encode_headers(message, *more)
        return encode_lines(message, *more) if more else encode_lines(message)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Take received bytes; return the completed messages."""
        if self.fault is not None:
            return []
        if not isinstance(data, bytes):
            data = bytes(data)
        if self.kind == "unknown":
            data = data.lstrip(_BLANK)
            if not data:
                return []
            self._detect(data[0])
        if self.kind == "lines":
            return self._lines(data)
        if self.kind == "headers":
            return self._headers(data)
        return []

    def finish(self) -> list[bytes]:
        """Take the end of the stream; return a last line without newline.

        Sets `fault` within a `Content-Length` block.
        """
        if self.fault is not None or not self.partial:
            return []
        if self.kind == "headers":
            self._buffer.clear()
            self._missing = -1
            self.fault = parse_error("the stream ends within a `Content-Length` block")
            return []
        line = bytes(self._buffer)
        self._buffer.clear()
        return [] if line.isspace() else [line]

    def _detect(self, first: int) -> None:
        if first in b"{[":
            self.kind = "lines"
        elif first in b"Cc":
            self.kind = "headers"
        else:
            self.fault = parse_error(
                f"the stream begins with byte 0x{first:02x}; send JSON lines, "
                "or blocks that begin with `Content-Length`"
            )

    def _lines(self, data: bytes) -> list[bytes]:
        buffer = self._buffer
        lines = data.split(b"\n")
        if buffer or len(lines) == 1:
            # The end of a begun line, or another piece.
            if len(buffer) + len(lines[0]) > self._max:
                return self._too_long("A line")
            buffer += lines[0]
            if len(lines) == 1:
                if len(buffer) == len(data) and data.isspace():
                    buffer.clear()
                return []
            lines[0] = bytes(buffer)
            buffer.clear()
        rest = lines.pop()
        messages: list[bytes] = []
        for line in lines:
            if len(line) > self._max:
                self._too_long("A line")
                return messages
            if line and not line.isspace():
                messages.append(line)
        if len(rest) > self._max:
            self._too_long("A line")
        elif rest and not rest.isspace():
            buffer += rest
        return messages

    def _headers(self, data: bytes) -> list[bytes]:
        messages: list[bytes] = []
        buffer = self._buffer
        at = 0
        while True:
            if self._missing < 0:
                if not buffer:
                    if data[at : at + 1].isspace():
                        at = len(data) - len(data[at:].lstrip(_BLANK))
                    if at == len(data):
                        return messages
                at = self._head(data, at)
                if self._missing < 0:
                    return messages
            need = self._missing - len(buffer)
            if len(data) - at < need:
                buffer += data[at:] if at else data
                return messages
            if buffer:
                buffer += data[at : at + need]
                messages.append(bytes(buffer))
                buffer.clear()
            else:
                messages.append(data[at : at + need])
            at += need
            self._missing = -1

    def _head(self, data: bytes, at: int) -> int:
        """Read all or part of a header block from `data[at:]`; return the end's offset.

        Sets `_missing` once the block is complete and valid.
        """
        buffer = self._buffer
        seam = min(len(buffer), 3)  # the blank line may span two reads
        piece = data[at : at + _MAX_HEADER_BYTES]
        if seam:
            piece = bytes(buffer[-seam:]) + piece
        end = piece.find(b"\r\n\r\n")
        if end >= 0:
            stop = at + end + 4 - seam
            block = bytes(buffer) + data[at:stop] if seam else data[at:stop]
            buffer.clear()
            self._missing = self._length(block)
            return stop
        if len(buffer) + len(data) - at > _MAX_HEADER_BYTES:
            self.fault = parse_error(
                f"the header block does not end within {_MAX_HEADER_BYTES} bytes"
            )
        elif b"\n\n" in piece:
            self.fault = parse_error("header lines must end in CR LF")
        if self.fault is not None:
            buffer.clear()
            return len(data)
        buffer += data[at:]
        return len(data)

    def _length(self, block: bytes) -> int:
        """Return the body's length, or -1 with `fault` set."""
        if len(block) > _MAX_HEADER_BYTES:
            self.fault = parse_error(
                f"the header block does not end within {_MAX_HEADER_BYTES} bytes"
            )
            return -1
        digits: bytes | None = None
        lines = block[:-4].split(b"\r\n")
        if len(lines) == 1 and lines[0].startswith(_USUAL) and lines[0][len(_USUAL) :].isdigit():
            digits, lines = lines[0][len(_USUAL) :], []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or b"\n" in line or not name.strip():
                self.fault = parse_error(f"{shown(line, 60)} is not a header line")
                return -1
            if name.strip().lower() != b"content-length":
                continue
            value = value.strip()
            if digits is not None or not value.isdigit():
                self.fault = parse_error(
                    f"`Content-Length` must be given once, in digits, not {shown(value, 40)}"
                )
                return -1
            digits = value
        if digits is None:
            self.fault = parse_error("the header block has no `Content-Length`")
            return -1
        digits = digits.lstrip(b"0") or b"0"
        if len(digits) > _MAX_DIGITS or int(digits) > self._max:
            self._too_long("A message")
            return -1
        return int(digits)

    def _too_long(self, subject: str) -> list[bytes]:
        self._buffer.clear()
        self.fault = limit_exceeded("max_message", self._max, f"{subject} is too long, in bytes")
        return []
