"""The client's messages as bytes: numbered requests, and replies matched by number
(docs/protocol.md, "Requests").

Replies may come in any order. A reply to a forgotten request is dropped; a reply without an id is a
fault of the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from haft_protocol.sessions import PROTOCOL

from .errors import NotUnicode, ProtocolFault, RemoteError, VersionMismatch

Id = int | str | None
"""Id of a request of the daemon."""

Answer = Raw | RemoteError
"""Result as JSON, or the error."""


class _Error(msgspec.Struct):
    code: int
    message: str = ""
    data: Any = None


class _Message(msgspec.Struct):
    id: int | str | UnsetType | None = UNSET
    result: Raw | UnsetType = UNSET
    error: _Error | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


_MESSAGE = msgspec.json.Decoder(_Message)
_BATCH = msgspec.json.Decoder(list[_Message])
_ENCODER = msgspec.json.Encoder()


class Conversation:
    """Requests and replies of one connection. `hear` is called with each notification of the
    daemon."""

    def __init__(self, hear: Callable[[str, Raw], None] | None = None) -> None:
        self.hear = hear
        self.take_request: Callable[[Id, str, Raw], bool] | None = None
        """Called with each request of the daemon; returns False without a handler."""
        self._last = 0
        self._greeting: int | None = None
        self._mismatch: VersionMismatch | None = None
        self._partial = bytearray()
        self._scanned = 0
        self._expected: set[int] = set()
        self._answers: dict[int, Answer] = {}
        self.fault: RemoteError | None = None
        self.to_send = bytearray()
        """Pending output; the owner takes bytes from the front."""

    def request(self, method: str, params: object) -> int:
        """Queue a request, a struct or a mapping, and return the number."""
        number, message = self._numbered(method, params)
        self.to_send += _line(message)
        return number

    def greet(self, params: Mapping[str, object]) -> int:
        """Queue `initialize`. After a reply of another version, `take` always raises
        `VersionMismatch`."""
        self._greeting = self.request("initialize", params)
        return self._greeting

    def batch(self, calls: Iterable[tuple[str, object]]) -> list[int]:
        """Queue one batch and return the numbers, in order."""
        numbered = [self._numbered(method, params) for method, params in calls]
        if numbered:
            self.to_send += _line([message for _, message in numbered])
        return [number for number, _ in numbered]

    def answer(self, request: Id, result: object) -> None:
        self.to_send += _line({"jsonrpc": "2.0", "id": request, "result": result})

    def refuse(self, request: Id, code: int, message: str) -> None:
        """Queue an error as the answer to a request of the daemon."""
        error = {"code": code, "message": message}
        self.to_send += _line({"jsonrpc": "2.0", "id": request, "error": error})

    def forget(self, number: int) -> None:
        """Stop waiting for a reply and cancel the request at the daemon."""
        if number in self._expected:
            self._expected.discard(number)
            self.to_send += _line(
                {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}
            )
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
        # One deletion per feed: removing each line from the front would move the rest every time.
        del self._partial[:begin]
        self._scanned = len(self._partial)
        return arrived

    def take(self, number: int) -> Answer | None:
        """Return the reply to a request once, or None. Raises `VersionMismatch`."""
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

    def _read(self, line: bytes, arrived: list[int]) -> None:
        try:
            messages = _BATCH.decode(line) if line.startswith(b"[") else [_MESSAGE.decode(line)]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            raise ProtocolFault("what answers at the socket does not speak JSON-RPC") from fault
        for message in messages:
            self._sort(message, arrived)

    def _sort(self, message: _Message, arrived: list[int]) -> None:
        if not isinstance(message.method, UnsetType):
            params = Raw(b"{}") if isinstance(message.params, UnsetType) else message.params.copy()
            if isinstance(message.id, UnsetType):
                if self.hear is not None:
                    self.hear(message.method, params)
            elif self.take_request is None or not self.take_request(
                message.id, message.method, params
            ):
                self.refuse(message.id, -32601, f"This client does not serve {message.method!r}.")
            return
        if isinstance(message.error, UnsetType):
            answer: Answer = (
                Raw(b"null") if isinstance(message.result, UnsetType) else message.result
            )
        else:
            answer = _remote(message.error)
        if message.id is not None and message.id == self._greeting:
            self._mismatch = _mismatch(answer)
        if message.id in self._expected:
            assert isinstance(message.id, int)
            self._answers[message.id] = answer
            arrived.append(message.id)
        elif message.id is None and isinstance(answer, RemoteError):
            self.fault = answer


class _Version(msgspec.Struct, frozen=True):
    version: str | None = None


class _Greeted(msgspec.Struct, frozen=True):
    protocol: int
    server: _Version = _Version()
    pid: int | None = None


def _mismatch(answer: Answer) -> VersionMismatch | None:
    try:
        if not isinstance(answer, RemoteError):
            greeted = msgspec.json.decode(answer, type=_Greeted)
            if greeted.protocol == PROTOCOL:
                return None
            return VersionMismatch(PROTOCOL, greeted.protocol, greeted.server.version, greeted.pid)
        data = answer.data if isinstance(answer.data, dict) else {}
        if data.get("field") != "protocol":
            return None
        greeted = msgspec.convert({"protocol": 0, **data}, _Greeted)
    except msgspec.MsgspecError:
        return VersionMismatch(PROTOCOL, None, None, None)
    version = data.get("version")
    return VersionMismatch(
        PROTOCOL,
        greeted.protocol or None,
        version if isinstance(version, str) else None,
        greeted.pid,
    )


def result_of(answer: Answer) -> Raw:
    if isinstance(answer, RemoteError):
        raise answer
    return answer


def _line(message: object) -> bytes:
    try:
        return _ENCODER.encode(message) + b"\n"
    except UnicodeEncodeError as fault:
        field = next(_not_unicode(msgspec.to_builtins(message), ""), ("?", ""))
        raise NotUnicode(*field) from fault


def _not_unicode(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield each text that cannot be encoded, key or value, with its path."""
    if isinstance(value, str):
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            yield path, value
    elif isinstance(value, dict):
        for name, member in value.items():
            below = path if name == "params" and not path else f"{path}.{name}".lstrip(".")
            yield from _not_unicode(name, path or below)
            yield from _not_unicode(member, below)
    elif isinstance(value, list):
        for member in value:
            yield from _not_unicode(member, path)


def _remote(error: _Error) -> RemoteError:
    data: Mapping[str, Any] = error.data if isinstance(error.data, dict) else {}
    kind = data.get("kind")
    return RemoteError(error.code, kind if isinstance(kind, str) else "", error.message, error.data)
