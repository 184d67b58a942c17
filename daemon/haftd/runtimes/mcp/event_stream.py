"""Parser of server-sent events."""

from __future__ import annotations

import msgspec

from haftd.http_exchange import TooLong


class Event(msgspec.Struct, frozen=True):
    """Event; `data` may be empty."""

    data: bytes
    id: str | None = None


class EventParser:
    """Parser of a stream; lines end with LF, CR LF or CR. `retry_s` is the server's pause before a
    reconnection."""

    def __init__(self, limit: int) -> None:
        self.retry_s: float | None = None
        self._limit = limit
        self._rest = bytearray()
        self._size = 0
        self._data: list[bytes] = []
        self._id: str | None = None
        self._has_fields = False

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the completed events. Raises `TooLong`."""
        self._rest += chunk
        events: list[Event] = []
        if len(self._rest) + self._size > self._limit:
            raise TooLong
        while True:
            line = self._line()
            if line is None:
                return events
            if line:
                self._field(line)
            elif self._has_fields:
                events.append(Event(b"\n".join(self._data), self._id))
                self._data, self._has_fields, self._size = [], False, 0

    def _line(self) -> bytes | None:
        rest = self._rest
        ends = [at for at in (rest.find(b"\n"), rest.find(b"\r")) if at >= 0]
        if not ends:
            return None
        at = min(ends)
        if rest[at : at + 1] == b"\r" and at + 1 == len(rest):
            return None  # LF may follow
        size = 2 if rest[at : at + 2] == b"\r\n" else 1
        line = bytes(rest[:at])
        del rest[: at + size]
        return line

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value)
                self._has_fields = True
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
                self._has_fields = True
            case b"retry" if value.isdigit():
                self.retry_s = int(value[:9]) / 1000
