"""Transport of streamable HTTP, both eras: a POST and a connection for each message.

No redirect is followed, no proxy variable read: headers may hold a credential. The variables' values
in headers are replaced by the names in all that the server sends.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import h11
import msgspec
import structlog
import trio

from haft_protocol.ellipsis import shorten
from haft_protocol.mcp import INVALID_REQUEST, META_PREFIX
from haft_protocol.network_errors import first_reason
from haftd import __version__
from haftd.config.mcp_settings import McpServer
from haftd.host_calls.redaction import Redaction
from haftd.http_exchange import Headers, HttpExchange, TooLong, secure
from haftd.lazy_pattern import lazy_pattern
from haftd.tools.definitions.server_tools import ServedTool

from ..base import StartFailed
from .event_stream import EventParser
from .header_marks import HeaderMarks, InvalidMark, argument_headers, encoded_value, read_marks
from .peer import Disconnected, Peer, Pending, ServerError
from .shapes import ErrorObject

log = structlog.get_logger("haftd.mcp")

MAX_BODY = 64 << 20
_MAX_ERROR = 65_536
_CONNECT_S = 30.0
_RETRY_S = 3.0
_MAX_RESUMED = 20
_FOLLOW_S = 3.0
"""Seconds to wait for a legacy server's GET stream, once per connection."""
_VARIABLE = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ESCAPED = lazy_pattern(rb"(?<!\\)((?:\\\\)*)\\(?:u00([2-7][0-9A-Fa-f])|/)")
"""Escape of `/` or of another character of ASCII, behind complete pairs of backslashes (RFC 8259, section 7)."""
_STREAM = "text/event-stream"
_SUBJECTS = ("name", "uri", "taskId")
"""Params that a modern request repeats in a header: the first present."""


class _Refused(Exception):
    """Reply outside the protocol: status, and start of the body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body


class Endpoint:
    """Connection, in the protocol's sense, to an address. Requests carry the session of a legacy
    server until the server forgets it."""

    def __init__(self, settings: McpServer, environ: Mapping[str, str]) -> None:
        self.peer = Peer(self)
        self.unconfirmed: tuple[int, ...] = ()
        self._settings = settings
        self._environ = environ
        self._url = urlsplit(settings.url)
        self._headers: Headers = []
        self._redaction = Redaction({})
        self._nursery: trio.Nursery | None = None
        self._requests: dict[int, trio.CancelScope] = {}
        self._scope = trio.CancelScope()
        self._tls: ssl.SSLContext | None = None
        self._session = ""
        self._version = ""
        self._is_followed = trio.Event()
        """Set when the server's GET stream is open, or will not be opened."""
        self._header_marks: dict[str, HeaderMarks] = {}

    async def start(self) -> None:
        """Read the headers. Raises `StartFailed` for a missing variable."""
        secrets: dict[str, str] = {}
        for name, value in self._settings.headers.items():
            for variable in _VARIABLE.findall(value):
                if variable not in self._environ:
                    raise StartFailed(
                        f"its header {name} needs the variable {variable}, which haftd does not have.",
                        "server",
                    )
                secrets[variable] = self._environ[variable]
            filled = _VARIABLE.sub(lambda match: self._environ[match[1]], value)
            if not filled.isprintable():
                raise StartFailed(f"its header {name} would have more than one line.", "server")
            self._headers.append((name, filled))
        # Values of fewer than 8 characters stay: one could be a word of the protocol.
        self._redaction = Redaction(secrets)
        if self._url.scheme == "https":
            self._tls = await trio.to_thread.run_sync(ssl.create_default_context)

    async def run(self) -> None:
        with self._scope:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                await trio.sleep_forever()

    def stop(self, reason: str) -> None:
        self.peer.lose(Disconnected(reason))
        self._scope.cancel()

    def admit(self, tools: tuple[ServedTool, ...]) -> tuple[ServedTool, ...]:
        """Return the callable tools; note the arguments that calls repeat in headers."""
        if self._version:
            return tools
        kept = []
        self._header_marks = {}
        for tool in tools:
            try:
                self._header_marks[tool.name] = read_marks(tool.schema)
            except InvalidMark as error:
                log.warning("a tool of an MCP server is not used", tool=tool.name, why=str(error))
            else:
                kept.append(tool)
        return tuple(kept)

    def send(self, message: bytes, pending: Pending | None = None) -> None:
        if self._nursery is None or self.peer.lost is not None:
            raise self.peer.lost or Disconnected("is not connected")
        self._nursery.start_soon(self._post, message, pending)

    def cancel(self, pending: Pending) -> bool:
        """Close the request's connection, which notifies a modern server."""
        scope = self._requests.get(pending.id)
        if scope is not None:
            scope.cancel()
        return not self._version

    async def _post(self, message: bytes, pending: Pending | None) -> None:
        scope = trio.CancelScope()
        if pending is not None:
            self._requests[pending.id] = scope
        try:
            with scope:
                await self._exchange(message, pending)
        except Exception as error:
            self._fail(pending, error)
        finally:
            if pending is not None:
                del self._requests[pending.id]
                pending.fail(Disconnected("closed the connection without an answer"))

    def _fail(self, pending: Pending | None, error: Exception) -> None:
        if isinstance(error, _Refused) and self._session and error.status in (400, 404):
            # The server may have restarted; nothing was done for the request.
            gone = Disconnected("no longer knows the session", was_done=False)
            if pending is not None:
                pending.fail(gone)
            self.stop(gone.message)
            return
        failure: Exception
        match error:
            case _Refused(status=status):
                failure = ServerError(
                    ErrorObject(INVALID_REQUEST, _status_text(status, error.body))
                )
            case TooLong():
                failure = Disconnected(f"sent a message of more than {MAX_BODY >> 20} MiB")
            case h11.RemoteProtocolError():
                why = self._redaction.redact_text(str(error))
                failure = Disconnected(f"does not speak valid HTTP ({why})")
            case _ if _is_network(error):
                failure = Disconnected(f"could not be reached ({_reason(error)})")
            case _:
                log.exception("a request to an MCP server failed")
                failure = Disconnected("could not be asked: haftd failed; its log has the reason")
        if pending is None:
            log.info("a message did not reach an MCP server", why=str(failure))
        else:
            pending.fail(failure)

    # -- one request

    async def _exchange(self, message: bytes, pending: Pending | None) -> None:
        request: dict[str, Any] = msgspec.json.decode(message)
        method = request.get("method")
        if method == "tools/call" and self._version:
            with trio.move_on_after(_FOLLOW_S):
                await self._is_followed.wait()
            self._is_followed.set()
        accept = ("Accept", f"application/json, {_STREAM}")
        headers = [accept, ("Content-Type", "application/json"), *self._request_headers(request)]
        stream = await self._open()
        async with stream:
            reply = HttpExchange(stream)
            await reply.request("POST", self._target(), self._all(headers), message)
            if method == "initialize":
                self._session = reply.header("mcp-session-id")
            resumed = await self._read(reply, pending)
        if method == "initialize" and pending is not None:
            self._note_version(pending)
        elif method == "notifications/initialized" and self._nursery is not None:
            self._nursery.start_soon(self._follow)
        if resumed is not None and pending is not None:
            await self._resume(resumed, pending)

    async def _read(self, reply: HttpExchange, pending: Pending | None) -> tuple[str, float] | None:
        """Read the reply; return where and when to resume a broken legacy stream."""
        kind = reply.header("content-type").partition(";")[0].strip().lower()
        if reply.status == 200 and kind == _STREAM:
            return await self._read_stream(reply, pending)
        body = self._redact(await reply.body(MAX_BODY if reply.status == 200 else _MAX_ERROR))
        if pending is None:
            if reply.status >= 400:
                raise _Refused(reply.status, body)
        elif not self.peer.receive(body, pending.owner) or not pending.settled.is_set():
            # The id of an error may be null if the server could not read the request.
            raise _Refused(reply.status, body)
        return None

    def _redact(self, data: bytes) -> bytes:
        """Replace the secret values in a message. A server may write any character as an escape."""
        if not self._redaction.is_needed:
            return data
        return self._redaction.redact_bytes(_ESCAPED.sub(_unescape, data))

    async def _read_stream(
        self, reply: HttpExchange, pending: Pending | None
    ) -> tuple[str, float] | None:
        parser = EventParser(MAX_BODY)
        last = ""
        while (chunk := await reply.chunk()) is not None:
            for event in parser.feed(chunk):
                last = event.id or last
                if event.data:
                    owner = None if pending is None else pending.owner
                    self.peer.receive(self._redact(event.data), owner)
            if pending is not None and pending.settled.is_set():
                return None
        if not last or not self._version:
            return None
        return last, _RETRY_S if parser.retry_s is None else parser.retry_s

    async def _resume(self, place: tuple[str, float], pending: Pending) -> None:
        for _ in range(_MAX_RESUMED):
            last, pause = place
            await trio.sleep(pause)
            again = await self._get(last, pending)
            if again is None or pending.settled.is_set():
                return
            place = again

    async def _follow(self) -> None:
        """Read a legacy server's announcements, if it has a stream for them."""
        last, pause = "", _RETRY_S
        with suppress(Exception):
            while True:
                place = await self._get(last, None)
                if place is not None:
                    last, pause = place
                await trio.sleep(pause)
        self._is_followed.set()

    async def _get(self, last: str, pending: Pending | None) -> tuple[str, float] | None:
        headers = [("Accept", _STREAM), *([("Last-Event-ID", last)] if last else [])]
        stream = await self._open()
        async with stream:
            reply = HttpExchange(stream)
            await reply.request("GET", self._target(), self._all(headers), b"")
            if reply.status != 200:
                raise _Refused(reply.status, b"")
            if pending is None:
                self._is_followed.set()
            return await self._read_stream(reply, pending)

    def _note_version(self, pending: Pending) -> None:
        with suppress(ServerError, Disconnected, msgspec.MsgspecError):
            result = msgspec.json.decode(pending.result(), type=dict[str, Any])
            self._version = str(result.get("protocolVersion", ""))

    def _request_headers(self, request: Mapping[str, Any]) -> Headers:
        params = request.get("params") or {}
        version = params.get("_meta", {}).get(f"{META_PREFIX}protocolVersion")
        if version is None:
            return []
        headers = [("MCP-Protocol-Version", version), ("Mcp-Method", request["method"])]
        subject = next((params[key] for key in _SUBJECTS if isinstance(params.get(key), str)), None)
        if subject is not None:
            headers.append(("Mcp-Name", encoded_value(subject)))
        if request["method"] == "tools/call":
            headers += argument_headers(
                self._header_marks.get(params["name"], {}), params.get("arguments", {})
            )
        return headers

    def _all(self, headers: Headers) -> Headers:
        own = [("User-Agent", f"haftd/{__version__}"), ("Connection", "close")]
        if self._version:
            own.append(("MCP-Protocol-Version", self._version))
        if self._session:
            own.append(("Mcp-Session-Id", self._session))
        return [("Host", self._url.netloc), *own, *headers, *self._headers]

    def _target(self) -> str:
        return (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")

    async def _open(self) -> trio.abc.Stream:
        host = self._url.hostname or ""
        port = self._url.port or (443 if self._tls else 80)
        with trio.fail_after(_CONNECT_S):
            stream = await trio.open_tcp_stream(host, port)
            if self._tls is None:
                return stream
            return await secure(stream, self._tls, host)


def _unescape(match: re.Match[bytes]) -> bytes:
    """Return the character itself, unless JSON needs its escape."""
    character = bytes.fromhex(match[2].decode()) if match[2] else b"/"
    return match[0] if character in (b'"', b"\\", b"\x7f") else match[1] + character


def _status_text(status: int, body: bytes) -> str:
    text = body.decode(errors="replace").strip()
    try:
        reply = msgspec.json.decode(body)
        text = str(reply["error"]["message"])
    except (msgspec.MsgspecError, KeyError, TypeError, RecursionError, UnicodeDecodeError):
        text = text.partition("\n")[0] if len(text) < 500 and "<" not in text else ""
    more = f": {shorten(text, 300)}" if text else ""
    advice = "; give a credential in `headers`" if status in (401, 403) else ""
    return f"the HTTP status {status}{more}{advice}"


def _is_network(error: BaseException) -> bool:
    return isinstance(error, OSError | trio.BrokenResourceError | trio.TooSlowError)


def _reason(error: BaseException) -> str:
    if (reason := first_reason(error)) is not None:
        return reason
    return "no answer in time" if isinstance(error, trio.TooSlowError) else "no connection"
