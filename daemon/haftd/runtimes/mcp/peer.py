"""An MCP server as JSON-RPC peer: pairs requests and replies of both sides."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import structlog
import trio
from msgspec import Raw, UnsetType

from haft_protocol.mcp import CANCELLED, INVALID_PARAMS, METHOD_NOT_FOUND, Message

from .shapes import ErrorObject, Id, Progress, convert

log = structlog.get_logger("haftd.mcp")

_MAX_STARTS = 8
"""Positions in a line at which a message may begin."""
_MESSAGE = msgspec.json.Decoder(Message)


class ServerError(Exception):
    def __init__(self, error: ErrorObject) -> None:
        super().__init__(error.message)
        self.code = error.code
        self.message = error.message or f"error {error.code}"
        self.data = error.data


class Disconnected(Exception):
    """Lost or unreachable server; the message is a clause. `lines` end its standard error. Without
    `was_done` the server has not begun the request."""

    def __init__(self, message: str, lines: tuple[str, ...] = (), *, was_done: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.lines = lines
        self.was_done = was_done


class Pending:
    """Request without a reply; `owner` is its call, or None."""

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
        if not self.settled.is_set():
            self._result = result
            self.settled.set()

    def fail(self, failure: Exception) -> None:
        if not self.settled.is_set():
            self._failure = failure
            self.settled.set()

    def advance(self, progress: Progress) -> None:
        if self.on_progress is not None and progress.progress > self._last:
            self._last = progress.progress
            self.on_progress(progress)

    def result(self) -> Raw:
        """Return the result. Raises `ServerError`, `Disconnected`."""
        if self._failure is not None:
            raise self._failure
        return self._result


class Transport(Protocol):
    """Connection to a server; never blocks."""

    def send(self, message: bytes, pending: Pending | None = None) -> None:
        """Send a message, a request with `pending`. Raises `Disconnected`."""

    def cancel(self, pending: Pending) -> bool:
        """Cancel a request; return False if the server needs a notification."""


RequestHandler = Callable[[Id, str, Raw, object], None]
"""Handler of a server's request: id, method, params, and the owner of its exchange, if known."""


def ignore(method: str, params: Raw) -> None:
    pass


class Peer:
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
        """Called once, with the reason and the owners of open requests."""

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        owner: object = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Raw:
        """Return the result of a request. Raises `ServerError`, `Disconnected`."""
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
        """Send a request, to be followed by `end`. Raises `Disconnected`."""
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
        """Stop waiting; cancel the request if unanswered."""
        del self._pending[pending.id]
        if not pending.settled.is_set() and self.lost is None:
            with contextlib.suppress(Disconnected):
                # The specification forbids to cancel `initialize`.
                if not self._transport.cancel(pending) and pending.method != "initialize":
                    self.notify(CANCELLED, {"requestId": pending.id, "reason": "no longer wanted"})

    def send(self, method: str, params: dict[str, Any]) -> None:
        """Send a request; ignore the reply."""
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
        self._reply({"jsonrpc": "2.0", "id": id, "result": result})

    def refuse(self, id: Id, code: int, message: str) -> None:
        self._reply({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    def _reply(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(Disconnected):
            self._transport.send(msgspec.json.encode(message))

    def lose(self, reason: Disconnected) -> None:
        """End every open request; the first reason counts."""
        if self.lost is None:
            self.lost = reason
            self.on_lost(reason, self.owners())
            for pending in list(self._pending.values()):
                pending.fail(reason)

    def owners(self) -> list[object]:
        """Owners of the open requests, oldest first."""
        owners = dict.fromkeys(
            pending.owner
            for pending in self._pending.values()
            if pending.owner is not None and not pending.settled.is_set()
        )
        return list(owners)

    def receive(self, line: bytes, owner: object = None) -> bool:
        """Process one message; return False if the line holds none. `owner` is that of its
        exchange. Unknown or cancelled requests' replies are ignored."""
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
    """Return the message in a line, also after a careless server's print."""
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
