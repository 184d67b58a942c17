"""One MCP server as a JSON-RPC peer: its requests and ours, paired with their replies.

Rules: synchronous; a transport moves the bytes. A reply to no request of ours, a second reply and a reply that comes
after a cancellation are passed over. Progress counts only while its request is open, and only when it rises. Once the
peer is lost, every open request ends with the reason, and none is made any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import structlog
import trio
from msgspec import Raw, UnsetType

from haft_protocol.mcp import (
    CANCELLED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Message,
)

from .shapes import ErrorObject, Id, Progress, convert

log = structlog.get_logger("haftd.mcp")

_MAX_STARTS = 8
"""Places in a line of stderr_tail at which a message is looked for."""
_MESSAGE = msgspec.json.Decoder(Message)


class ServerError(Exception):
    """The server answered with an error."""

    def __init__(self, error: ErrorObject) -> None:
        super().__init__(error.message)
        self.code = error.code
        self.message = error.message or f"error {error.code}"
        self.data = error.data


class Disconnected(Exception):
    """The server is gone, or cannot be reached; the message is a sentence about the server. `lines` are the last that
    it wrote to standard error. Not `was_done`: the server has surely done nothing for the request."""

    def __init__(self, message: str, lines: tuple[str, ...] = (), *, was_done: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.lines = lines
        self.was_done = was_done


class Pending:
    """A request that waits for its reply. `owner` is what it is made for: a call of a tool, or None."""

    __slots__ = ("_failure", "_last", "_result", "id", "method", "on_progress", "owner", "settled")

    def __init__(
        self,
        id: int,
        method: str,
        owner: object = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.id = id
        self.method = method
        self.owner = owner
        self.on_progress = on_progress
        self.settled = trio.Event()
        self._result = Raw(b"null")
        self._failure: Exception | None = None
        self._last = float("-inf")

    def succeed(self, result: Raw) -> None:
        """Take the result."""
        if not self.settled.is_set():
            self._result = result
            self.settled.set()

    def fail(self, failure: Exception) -> None:
        """Take the failure."""
        if not self.settled.is_set():
            self._failure = failure
            self.settled.set()

    def advance(self, progress: Progress) -> None:
        """Report progress that has risen."""
        if self.on_progress is not None and progress.progress > self._last:
            self._last = progress.progress
            self.on_progress(progress)

    def result(self) -> Raw:
        """Return the result. Raises `ServerError`, `Disconnected`."""
        if self._failure is not None:
            raise self._failure
        return self._result


class Transport(Protocol):
    """The way to a server. Nothing here blocks."""

    def send(self, message: bytes, pending: Pending | None = None) -> None:
        """Send a message without a newline; `pending` if it is a request. Raises `Disconnected`."""

    def cancel(self, pending: Pending) -> bool:
        """Give up a request; false where the server is still to be told by a notification."""


RequestHandler = Callable[[Id, str, Raw, object], None]
"""Takes a request of the server's: id, method, params, and the owner of the exchange that it came with, if that is
known."""


def ignore(method: str, params: Raw) -> None:
    """Take a notification, and do nothing."""


class Peer:
    """The open requests of one connection."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._pending: dict[int, Pending] = {}
        self._count = 0
        self.lost: Disconnected | None = None
        self.on_request: RequestHandler = lambda id, method, params, owner: self.refuse(
            id, METHOD_NOT_FOUND, f"haft does not serve {method}"
        )
        self.on_notification: Callable[[str, Raw], None] = ignore
        self.on_lost: Callable[[Disconnected, list[object]], None] = lambda reason, owners: None
        """Called once with the reason and with what the open requests are made for."""

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        owner: object = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Raw:
        """Make a request and return its result. Raises `ServerError`, `Disconnected`; cancelled, the server is told.

        With `on_progress` the request asks for progress."""
        pending = self.begin(method, params, owner=owner, on_progress=on_progress)
        try:
            await pending.settled.wait()
        finally:
            self.end(pending)
        return pending.result()

    def begin(
        self,
        method: str,
        params: dict[str, Any],
        *,
        owner: object = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Pending:
        """Make a request, to be followed by `end` whatever comes. Raises `Disconnected`."""
        if self.lost is not None:
            raise self.lost
        self._count += 1
        pending = Pending(self._count, method, owner, on_progress)
        if on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": pending.id}}
        message = {"jsonrpc": "2.0", "id": pending.id, "method": method, "params": params}
        self._pending[pending.id] = pending
        try:
            self._transport.send(msgspec.json.encode(message), pending)
        except BaseException:
            del self._pending[pending.id]
            raise
        return pending

    def end(self, pending: Pending) -> None:
        """Wait for a request no more; the server is told where it has not answered."""
        del self._pending[pending.id]
        if not pending.settled.is_set() and self.lost is None:
            self._give_up(pending)

    def _give_up(self, pending: Pending) -> None:
        try:
            # The specification exempts `initialize`, which has no call that could be cancelled.
            if not self._transport.cancel(pending) and pending.method != "initialize":
                self.notify(CANCELLED, {"requestId": pending.id, "reason": "no longer wanted"})
        except Disconnected:
            pass

    def send(self, method: str, params: dict[str, Any]) -> None:
        """Send a request whose reply does not matter."""
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        with contextlib.suppress(Disconnected):
            self._transport.send(msgspec.json.encode(message), Pending(self._count, method))

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification. Raises `Disconnected`."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self._transport.send(msgspec.json.encode(message))

    def answer(self, id: Id, result: object) -> None:
        """Answer a request of the server's."""
        self._reply({"jsonrpc": "2.0", "id": id, "result": result})

    def refuse(self, id: Id, code: int, message: str) -> None:
        """Answer a request of the server's with an error."""
        self._reply({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    def _reply(self, message: dict[str, Any]) -> None:
        try:
            self._transport.send(msgspec.json.encode(message))
        except Disconnected:
            pass

    def lose(self, reason: Disconnected) -> None:
        """End every open request with the reason; the first reason counts."""
        if self.lost is None:
            self.lost = reason
            self.on_lost(reason, self.owners())
            for pending in list(self._pending.values()):
                pending.fail(reason)

    def owners(self) -> list[object]:
        """Return what the open requests are made for, oldest first."""
        found = dict.fromkeys(
            one.owner
            for one in self._pending.values()
            if one.owner is not None and not one.settled.is_set()
        )
        return list(found)

    def receive(self, line: bytes, owner: object = None) -> bool:
        """Take one message of the server's; false where the line holds none. `owner`: whose exchange it came with."""
        message = _read(line)
        if message is None:
            return False
        if not isinstance(message.method, UnsetType):
            if message.id is None or isinstance(message.id, UnsetType):
                self._notified(message.method, message.params)
            else:
                self.on_request(message.id, message.method, message.params, owner)
        elif isinstance(message.id, int) and (pending := self._pending.get(message.id)) is not None:
            self._replied(pending, message)
        return True

    def _replied(self, pending: Pending, message: Message) -> None:
        if not message.error:
            pending.succeed(message.result or Raw(b"null"))
            return
        try:
            error = convert(message.error, ErrorObject)
        except msgspec.MsgspecError:
            error = ErrorObject(INVALID_PARAMS, "the server's error has no `code` and `message`")
        pending.fail(ServerError(error))

    def _notified(self, method: str, params: Raw) -> None:
        if method != "notifications/progress":
            self.on_notification(method, params)
            return
        try:
            progress = convert(params, Progress)
        except msgspec.MsgspecError:
            return
        token = progress.progress_token
        pending = self._pending.get(token) if isinstance(token, int) else None
        if pending is not None and not pending.settled.is_set():
            pending.advance(progress)


def _read(line: bytes) -> Message | None:
    """Return the message of a line. A careless server may have printed something before it."""
    start = 0 if line.startswith(b"{") else line.find(b"{")
    for _ in range(_MAX_STARTS):
        if start < 0:
            break
        try:
            message = _MESSAGE.decode(line[start:])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        else:
            if message.jsonrpc == "2.0":
                return message
        start = line.find(b"{", start + 1)
    return None
