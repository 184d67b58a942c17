"""Numbered requests, and replies in any order (docs/protocol.md, "Requests").

A reply to a forgotten request is dropped; one without an id is a fault of the connection.
Subclasses encode and decode: `wire` with the types of the protocol, `json_exchange` without.
"""

from __future__ import annotations

from haft_protocol.constants import PROTOCOL

from .errors import NotUnicode, RemoteError, VersionMismatch

TYPE_CHECKING = False  # `typing` takes 3 ms
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

Answer = bytes | RemoteError
"""A result as JSON, or the error."""

Id = int | str | None

_MAX_UNCHECKED = 65_536
"""Bytes of a message above which it is kept back until the daemon has reported its limit."""


class Exchange:
    def __init__(self) -> None:
        self._last = 0
        self._greeting: int | None = None
        self._is_greeting = False
        """True until the daemon has answered the greeting."""
        self._mismatch: VersionMismatch | None = None
        self._partial = bytearray()
        self._scanned = 0
        self._kept_back: list[tuple[bytes, list[int]]] = []
        """Lines with the numbers of their requests, from the first long one on."""
        self._expected: set[int] = set()
        self._answers: dict[int, Answer] = {}
        self.fault: RemoteError | None = None
        self.max_message: int | None = None
        """Bytes of a message that the daemon takes; None until it has reported that."""
        self.to_send = bytearray()
        """Output buffer; the owner takes bytes from the front."""

    def request(self, method: str, params: object) -> int:
        """Queue a request, a struct or a mapping, and return the number.

        Raises `RemoteError` (limit_exceeded) for one over `max_message`, for which the daemon would
        close the connection.
        """
        number, message = self._numbered(method, params)
        self._send_requests(self._line(message), [number])
        return number

    def greet(self, params: Mapping[str, object]) -> int:
        """Queue `initialize`; `take` raises `VersionMismatch` after a reply of another version."""
        self._greeting = self.request("initialize", params)
        self._is_greeting = True
        return self._greeting

    def batch(self, calls: Iterable[tuple[str, object]]) -> list[int]:
        """Queue one batch and return the numbers, in order."""
        numbered = [self._numbered(method, params) for method, params in calls]
        numbers = [number for number, _ in numbered]
        if numbered:
            self._send_requests(self._line([message for _, message in numbered]), numbers)
        return numbers

    def _send_requests(self, line: bytes, numbers: list[int]) -> None:
        if (refusal := self._refusal(line)) is not None:
            self._expected.difference_update(numbers)
            raise refusal
        self._put(line, numbers)

    def _put(self, line: bytes, numbers: list[int]) -> None:
        is_early = self._is_greeting and len(line) > _MAX_UNCHECKED
        if is_early or self._kept_back:
            self._kept_back.append((line, numbers))
        else:
            self.to_send += line

    def _release(self, arrived: list[int]) -> None:
        """Send the lines that were kept back, or keep the refusal as the reply to their requests."""
        kept_back, self._kept_back = self._kept_back, []
        for line, numbers in kept_back:
            if (refusal := self._refusal(line)) is None:
                self.to_send += line
                continue
            for number in self._expected.intersection(numbers):
                self._answers[number] = refusal
                arrived.append(number)

    def _refusal(self, line: bytes) -> RemoteError | None:
        """Return the error for a line that the daemon would not take."""
        size, limit = len(line) - 1, self.max_message
        if limit is None or size <= limit:
            return None
        text = f"A message of {size} bytes is too long: the limit `max_message` is {limit}."
        data = {"kind": "limit_exceeded", "limit": "max_message", "value": limit}
        return remote_error(-32009, text, data)

    def answer(self, request: Id, result: object) -> None:
        line = self._line({"jsonrpc": "2.0", "id": request, "result": result})
        if (refusal := self._refusal(line)) is not None:
            self.refuse(request, refusal.code, str(refusal))
        else:
            self._put(line, [])

    def refuse(self, request: Id, code: int, message: str) -> None:
        """Queue an error reply to a request of the daemon."""
        error = {"code": code, "message": message}
        self._put(self._line({"jsonrpc": "2.0", "id": request, "error": error}), [])

    def forget(self, number: int) -> None:
        """Drop the later reply and cancel the request at the daemon."""
        if number in self._expected:
            self._expected.discard(number)
            cancel = {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}
            self._put(self._line(cancel), [])
        self._answers.pop(number, None)

    def feed(self, data: bytes | bytearray | memoryview) -> list[int]:
        """Take received bytes; return the numbers of completed replies."""
        self._partial += data
        arrived: list[int] = []
        begin = 0
        while (end := self._partial.find(b"\n", max(begin, self._scanned))) >= 0:
            line = bytes(memoryview(self._partial)[begin:end]).strip()
            begin = end + 1
            if line:
                self._read(line, arrived)
        # Removing each line from the front would move the buffer every time.
        del self._partial[:begin]
        self._scanned = len(self._partial)
        return arrived

    def take(self, number: int) -> Answer | None:
        """Return the reply to a request once, or None; raise `VersionMismatch`."""
        if self._mismatch is not None:
            raise self._mismatch
        answer = self._answers.pop(number, None)
        if answer is not None:
            self._expected.discard(number)
        return answer

    def _numbered(self, method: str, params: object) -> tuple[int, dict[str, object]]:
        self._last += 1
        self._expected.add(self._last)
        return self._last, {
            "jsonrpc": "2.0",
            "id": self._last,
            "method": method,
            "params": params,
        }

    def _line(self, message: object) -> bytes:
        """Encode a message as a line; raise `NotUnicode`."""
        raise NotImplementedError

    def _read(self, line: bytes, arrived: list[int]) -> None:
        """Decode a line's messages and keep the replies; raise `ProtocolFault`."""
        raise NotImplementedError

    def _decoded(self, result: bytes) -> Any:
        raise NotImplementedError

    def _keep(self, number: Id, answer: Answer, arrived: list[int]) -> None:
        if number is not None and number == self._greeting:
            greeted = answer if isinstance(answer, RemoteError) else self._decoded(answer)
            self._mismatch = _mismatch(greeted)
            self.max_message = _max_message(greeted)
        if number in self._expected:
            assert isinstance(number, int)
            self._answers[number] = answer
            arrived.append(number)
            if number == self._greeting:
                self._is_greeting = False
                self._release(arrived)
        elif number is None and isinstance(answer, RemoteError):
            self.fault = answer


def _mismatch(greeted: Any) -> VersionMismatch | None:
    """Return the error for an `initialize` reply of another version."""
    if isinstance(greeted, RemoteError):
        if not isinstance(greeted.data, dict) or greeted.data.get("field") != "protocol":
            return None
        protocol, version, pid = (greeted.data.get(n) for n in ("protocol", "version", "pid"))
        return VersionMismatch(PROTOCOL, _number(protocol) or None, _text(version), _number(pid))
    fields = greeted if isinstance(greeted, dict) else {}
    if (protocol := _number(fields.get("protocol"))) == PROTOCOL:
        return None
    server = fields.get("server")
    version = server.get("version") if isinstance(server, dict) else None
    return VersionMismatch(PROTOCOL, protocol, _text(version), _number(fields.get("pid")))


def _max_message(greeted: Any) -> int | None:
    limits = greeted.get("limits") if isinstance(greeted, dict) else None
    return _number(limits.get("max_message")) if isinstance(limits, dict) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def remote_error(code: int, message: str, data: Any) -> RemoteError:
    kind = data.get("kind") if isinstance(data, dict) else None
    return RemoteError(code, _text(kind) or "", message, data)


def result_of(answer: Answer) -> bytes:
    if isinstance(answer, RemoteError):
        raise answer
    return answer


def _texts_not_unicode(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield each text that cannot be encoded, key or value, with its path."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            yield path, value
    elif isinstance(value, dict):
        for name, member in value.items():
            below = path if name == "params" and not path else f"{path}.{name}".lstrip(".")
            yield from _texts_not_unicode(name, path or below)
            yield from _texts_not_unicode(member, below)
    elif isinstance(value, list):
        for member in value:
            yield from _texts_not_unicode(member, path)


def not_unicode(message: object) -> NotUnicode:
    """Return the error that names the first text that cannot be encoded."""
    return NotUnicode(*next(_texts_not_unicode(message, ""), ("?", "")))
