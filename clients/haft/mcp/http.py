"""`haft mcp --http`: streamable HTTP of both eras, on 127.0.0.1 alone.

Each request has a thread, a bridge and a connection to the daemon. The token is in the URL's path,
or in `Authorization`; `Host` and `Origin` must name this machine, against pages of other sites. A
closed response ends the wait of a modern request, and no handle.
"""

from __future__ import annotations

import hmac
import os
import queue
import secrets
import select
import socket
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from haft_protocol.mcp import (
    CANCELLED,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)

from ..errors import SetupFailed
from .bridge import Bridge
from .messages import cancelled_id, with_whole_characters
from .stdio import MAX_LINE, DaemonLink
from .steps import Host

MAX_SESSIONS = 256
MAX_DIGITS = 12
_SINGLE = ("Host", "Origin", "Content-Length", "Content-Type", "Authorization")
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})
_BAD = frozenset(
    {
        PARSE_ERROR,
        INVALID_REQUEST,
        INVALID_PARAMS,
        HEADER_MISMATCH,
        MISSING_CAPABILITY,
        UNSUPPORTED_VERSION,
    }
)
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class BridgeOf(Protocol):
    def __call__(self, link: DaemonLink, legacy: Host | None = None, name: str = "haft") -> Bridge:
        """Return a bridge over the link; `legacy` has sent `initialize` before."""


class _Params(msgspec.Struct):
    name: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = field(default=UNSET, name="_meta")


class _Posted(msgspec.Struct):
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")


class _Sent(msgspec.Struct):
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class _Running:
    """Request in progress, with a queue of lines from other requests of the session."""

    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.bell, self._rope = os.pipe()

    def give(self, line: bytes) -> None:
        self.lines.put(line)
        os.write(self._rope, b"x")

    def close(self) -> None:
        os.close(self.bell)
        os.close(self._rope)


class _Session:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.running: dict[int | str, _Running] = {}
        self.host_requests: dict[str, _Running] = {}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, port: int, token: str, new_link: Callable[[], DaemonLink], bridge_of: BridgeOf
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.token = token
        self.new_link = new_link
        self.bridge_of = bridge_of
        self.sessions: dict[str, _Session] = {}
        self.lock = threading.Lock()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that has gone; report other errors on stderr."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def serve_http(port: int, new_link: Callable[[], DaemonLink], bridge_of: BridgeOf) -> int:
    """Serve until interrupted; the first line on stdout is the URL, with the token. Raises
    `SetupFailed` if the port cannot be used."""
    token = os.environ.get("HAFT_MCP_TOKEN") or secrets.token_urlsafe(32)
    try:
        listening = _Server(port, token, new_link, bridge_of)
    except OSError as fault:
        raise SetupFailed(
            f"port {port} of 127.0.0.1 cannot be used: {fault.strerror}; --http alone takes a free one"
        ) from None
    with listening as server:
        print(f"http://127.0.0.1:{server.server_port}/{token}/mcp", flush=True)
        server.serve_forever()
    return 0


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the path has the token."""

    def do_GET(self) -> None:
        """Refuse: only requests have streams."""
        if self._is_allowed():
            self._refuse_method()

    do_HEAD = do_PUT = do_PATCH = do_OPTIONS = do_GET

    def do_DELETE(self) -> None:
        if not self._is_allowed():
            return
        with self.server.lock:
            ended = self.server.sessions.pop(self.headers.get("Mcp-Session-Id", ""), None)
        if ended is None:
            self._refuse_method()
        else:
            self._answer(200, b"")

    def do_POST(self) -> None:
        if not self._is_allowed():
            return
        if self.headers.get_content_type() != "application/json":
            self.close_connection = True
            self._refuse(415, "The Content-Type of a message is application/json.")
            return
        length = self.headers.get("Content-Length", "")
        is_length = (
            length.isascii() and length.isdigit() and "Transfer-Encoding" not in self.headers
        )
        # Python converts no number of thousands of digits.
        if not is_length or len(length) > MAX_DIGITS or int(length) > MAX_LINE:
            self.close_connection = True
            if is_length:
                self._refuse(413, f"A message may have {MAX_LINE >> 20} MiB at most.")
            else:
                self._refuse(411, "A message comes with its Content-Length, not in chunks.")
            return
        body = self.rfile.read(int(length)).replace(b"\r", b" ").replace(b"\n", b" ")
        if len(body) < int(length):
            self.close_connection = True
            self._refuse(400, "The body is shorter than its Content-Length.")
            return
        try:
            try:
                posted = msgspec.json.decode(body, type=_Posted)
            except msgspec.DecodeError:
                body = with_whole_characters(body) or body
                posted = msgspec.json.decode(body, type=_Posted)
            params = _params_of(posted.params)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # The bridge reports the error.
            posted, params = _Posted(id=0, method=""), _Params()
        meta = {} if isinstance(params.meta, UnsetType) else params.meta
        if "io.modelcontextprotocol/protocolVersion" in meta:
            self._serve_modern(body, posted, params, meta)
        else:
            self._serve_legacy(body, posted)

    def _is_allowed(self) -> bool:
        """Refuse a client without access; close, as the body stays unread."""
        if self._is_admitted():
            return True
        self.close_connection = True
        return False

    def _is_admitted(self) -> bool:
        # A proxy may have read the other one of two.
        if any(len(self.headers.get_all(name, ())) > 1 for name in _SINGLE):
            self._refuse(400, f"Each of the headers {', '.join(_SINGLE)} may come once.")
            return False
        origin = self.headers.get("Origin")
        for name, url in (("Host", f"//{self.headers.get('Host', '')}"), ("Origin", origin)):
            if url is not None and not _is_loopback(url):
                self._refuse(
                    403, f"The header {name} has to name this machine: localhost or 127.0.0.1."
                )
                return False
        token = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        path = self.path.partition("?")[0]
        if path.endswith("/mcp") and path != "/mcp":
            token = path.removesuffix("/mcp").removeprefix("/")
        elif path != "/mcp":
            self._refuse(404, _NO_PATH)
            return False
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(401, _NO_TOKEN, ("WWW-Authenticate", "Bearer"))
            return False
        return True

    def _serve_modern(
        self, body: bytes, posted: _Posted, params: _Params, meta: dict[str, Any]
    ) -> None:
        if isinstance(posted.id, UnsetType) or isinstance(posted.method, UnsetType):
            self._answer(202, b"")
            return
        if (wrong := self._mismatch(posted.method, params, meta)) is not None:
            self._fault(posted.id, HEADER_MISMATCH, wrong)
            return
        link = self.server.new_link()
        running = _Running()
        try:
            self._exchange(body, posted.id, self.server.bridge_of(link), link, running, None)
        finally:
            running.close()

    def _serve_legacy(self, body: bytes, posted: _Posted) -> None:
        name = self.headers.get("Mcp-Session-Id")
        with self.server.lock:
            session = None if name is None else self.server.sessions.get(name)
        if name is None and posted.method not in ("initialize", "ping", ""):
            self._fault(posted.id, INVALID_PARAMS, _NO_ERA)
            return
        if name is not None and session is None:
            self._refuse(404, "The session of Mcp-Session-Id has ended; send `initialize` again.")
            return
        if isinstance(posted.method, UnsetType) or isinstance(posted.id, UnsetType):
            self._pass_on(body, posted, session)
            self._answer(202, b"")
            return
        link = self.server.new_link()
        running = _Running()
        legacy = None if session is None else session.host
        bridge = self.server.bridge_of(link, legacy, f"haft.{secrets.token_hex(4)}")
        if session is not None and posted.id is not None:
            session.running[posted.id] = running
        try:
            self._exchange(body, posted.id, bridge, link, running, session)
        finally:
            if session is not None and posted.id is not None:
                session.running.pop(posted.id, None)
            running.close()

    def _pass_on(self, body: bytes, posted: _Posted, session: _Session | None) -> None:
        if session is None:
            return
        running: _Running | None = None
        if isinstance(posted.method, UnsetType):
            running = session.host_requests.pop(str(posted.id), None)
        elif posted.method == CANCELLED:
            request_id = cancelled_id(posted.params)
            running = None if request_id is None else session.running.get(request_id)
        if running is not None:
            running.give(body)

    def _mismatch(self, method: str, params: _Params, meta: dict[str, Any]) -> str | None:
        expected: dict[str, Any] = {
            "MCP-Protocol-Version": meta.get("io.modelcontextprotocol/protocolVersion"),
            "Mcp-Method": method,
        }
        if method in _NAMED:
            expected["Mcp-Name"] = getattr(params, _NAMED[method])
        for header, value in expected.items():
            text = self.headers.get(header)
            if text is None:
                return f"The header {header} is missing."
            if _plain(text.strip()) != value:
                return f"The header {header} contradicts the body."
        return None

    def _exchange(
        self,
        body: bytes,
        id: int | str | None,
        bridge: Bridge,
        link: DaemonLink,
        running: _Running,
        session: _Session | None,
    ) -> None:
        is_stream = False
        try:
            bridge.receive(body, time.monotonic())
            while True:
                for line in _lines(bridge):
                    sent = msgspec.json.decode(line, type=_Sent)
                    is_last = isinstance(sent.method, UnsetType)
                    if session is not None and not is_last and isinstance(sent.id, str):
                        session.host_requests[sent.id] = running
                    if is_last and not is_stream:
                        self._reply(line, sent, bridge, session)
                        return
                    if not is_stream:
                        is_stream = True
                        self._begin_stream()
                    self.wfile.write(b"event: message\ndata: " + line + b"\n\n")
                    if is_last:
                        return
                if not self._wait(bridge, link, running):
                    return
        finally:
            link.close()

    def _wait(self, bridge: Bridge, link: DaemonLink, running: _Running) -> bool:
        """Wait for the daemon, for lines of other requests, or for the time; return False once the
        client has gone."""
        link.send()
        poll = select.poll()
        link.register(poll)
        poll.register(running.bell, select.POLLIN)
        poll.register(self.connection, select.POLLIN)
        due = bridge.next_due()
        left_ms = None if due is None else max(0.0, due - time.monotonic()) * 1000
        ready = dict(poll.poll(left_ms))
        if ready.get(self.connection.fileno()) and self._has_gone():
            return False
        if ready.get(running.bell):
            os.read(running.bell, 1)
            bridge.receive(running.lines.get(), time.monotonic())
            if not bridge.is_busy:
                self.close_connection = True
                return False
        link.receive_ready(ready, bridge)
        bridge.tick(time.monotonic())
        return True

    def _has_gone(self) -> bool:
        self.close_connection = True
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _reply(self, line: bytes, sent: _Sent, bridge: Bridge, session: _Session | None) -> None:
        status = 200
        if not isinstance(sent.error, UnsetType):
            code = sent.error["code"]
            status = 404 if code == METHOD_NOT_FOUND else 400 if code in _BAD else 200
        more: tuple[tuple[str, str], ...] = ()
        if session is None and bridge.legacy is not None and status == 200:
            name = secrets.token_urlsafe(24)
            with self.server.lock:
                if len(self.server.sessions) >= MAX_SESSIONS:
                    self.server.sessions.pop(next(iter(self.server.sessions)))
                self.server.sessions[name] = _Session(bridge.legacy)
            more = (("Mcp-Session-Id", name),)
        elif session is not None:
            status = 200
        self._answer(status, line, *more)

    def _begin_stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, message: str, *headers: tuple[str, str]) -> None:
        """Answer with an error that belongs to no request."""
        error = {"code": INVALID_REQUEST, "message": message}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
        self._answer(status, body, *headers)

    def _refuse_method(self) -> None:
        self._refuse(405, "Messages are sent by POST.", ("Allow", "POST"))

    def _fault(self, id: int | str | UnsetType | None, code: int, message: str) -> None:
        number = None if isinstance(id, UnsetType) else id
        error = {"code": code, "message": message}
        self._answer(400, msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": error}))


_NO_PATH = "The path is /TOKEN/mcp, or /mcp with the token in `Authorization: Bearer TOKEN`."
_NO_TOKEN = (
    "The token is missing or wrong: it is part of the URL that `haft mcp --http` prints, or comes in"
    " `Authorization: Bearer TOKEN`."
)
_NO_ERA = "`_meta` has no `io.modelcontextprotocol/protocolVersion`, and there is no `Mcp-Session-Id` of an `initialize`."


def _is_loopback(url: str) -> bool:
    try:
        return urlsplit(url).hostname in _LOOPBACK
    except ValueError:
        return False


def _params_of(params: Raw) -> _Params:
    try:
        return msgspec.json.decode(params, type=_Params)
    except msgspec.ValidationError:
        return _Params()


def _lines(bridge: Bridge) -> list[bytes]:
    lines = bytes(bridge.to_host).splitlines()
    bridge.to_host.clear()
    return lines


def _plain(value: str) -> str:
    if value.startswith("=?base64?") and value.endswith("?="):
        try:
            return b64decode(value[9:-2], validate=True).decode()
        except ValueError:
            return ""
    return value
