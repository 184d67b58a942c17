"""The proxy on 127.0.0.1: each connection shows a running tool's credential, and is held to that
tool's rules.

The daemon resolves names, and the address counts as well as the name. A connection carries one
request or one tunnel, and ends with the tool.
"""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence

import structlog
import trio

from haftd.host_calls.addresses import is_public, resolve_addresses
from haftd.lazy_pattern import lazy_pattern
from haftd.tools.definitions.access import AccessPolicy, canonicalize_host

from .heads import MAX_HEAD, BadRequest, Head, is_field, parse_head, reply
from .schemes import KINDS, Kind, find_kind, find_permitted_kinds

log = structlog.get_logger("haftd.proxy")

HOST = "127.0.0.1"
MAX_CONNECTIONS = 128
"""Connections of one tool at a time."""
_BACKLOG = 1024
"""Connections that wait for `accept`: a tool may open many at once."""
_HEAD_S = 30.0
"""Seconds for a head, as a peer without a credential holds a descriptor."""
MAX_UNCOUNTED = 128
"""Connections of no tool, before the credential or after the reply; beyond these the oldest ends."""
_LINGER_S = 2.0
"""Longest wait for the peer's end, so that it can read the reply."""
_CHUNK = 65_536
"""Bytes of one read."""
_SIZE = lazy_pattern(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n")
_NOT_PUBLIC = ", an address of this machine or a private network, which needs its own rule"
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class _Client:
    """A running tool."""

    def __init__(self, tool: str, policy: AccessPolicy, credential: str) -> None:
        self.tool = tool
        self.policy = policy
        self.credential = credential
        self.scopes: set[trio.CancelScope] = set()
        self.refused = ""


class Proxy:
    """Proxy for the daemon's tools; `nursery` runs its connections."""

    def __init__(self, nursery: trio.Nursery, resolve: Resolve | None = None) -> None:
        self._nursery = nursery
        self._resolve = resolve or resolve_addresses
        self._clients: dict[str, _Client] = {}
        self._uncounted: dict[trio.CancelScope, None] = {}
        """Connections that count for no tool, oldest first."""
        self._port = 0

    def admit(self, mark: str, tool: str, policy: AccessPolicy) -> str:
        """Begin or change a tool's access; return the proxy's URL for the processes with the tag `mark`.
        The first call opens the listener, and raises OSError if that fails."""
        if not self._port:
            self._port = self._listen()
        client = self._clients.get(mark)
        if client is None:
            client = self._clients[mark] = _Client(tool, policy, secrets.token_urlsafe(24))
        client.policy = policy
        return f"http://haft:{client.credential}@{HOST}:{self._port}"

    @property
    def port(self) -> int:
        """Port of the listener; 0 before the first tool."""
        return self._port

    def revoke(self, mark: str) -> None:
        """End the connections of the tool with the tag `mark`, and accept no more of them."""
        client = self._clients.pop(mark, None)
        if client is not None:
            for scope in client.scopes:
                scope.cancel()

    def find_refused(self, mark: str) -> str:
        """Return the last destination refused to the tool with the tag `mark`, or an empty string."""
        client = self._clients.get(mark)
        return "" if client is None else client.refused

    def _listen(self) -> int:
        sock = socket.socket()
        try:
            sock.bind((HOST, 0))
            sock.listen(_BACKLOG)
            sock.setblocking(False)
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        except BaseException:
            sock.close()
            raise
        self._nursery.start_soon(self._serve, listener)
        port: int = sock.getsockname()[1]
        return port

    async def _serve(self, listener: trio.SocketListener) -> None:
        await trio.serve_listeners(self._handle, [listener], handler_nursery=self._nursery)

    async def _handle(self, stream: trio.SocketStream) -> None:
        async with stream:
            with trio.CancelScope() as scope:
                self._make_room(scope)
                try:
                    await self._serve_one(stream, scope)
                finally:
                    self._uncounted.pop(scope, None)

    def _make_room(self, scope: trio.CancelScope) -> None:
        self._uncounted[scope] = None
        if len(self._uncounted) > MAX_UNCOUNTED:
            oldest = next(iter(self._uncounted))
            del self._uncounted[oldest]
            oldest.cancel()

    async def _serve_one(self, stream: trio.SocketStream, scope: trio.CancelScope) -> None:
        try:
            await self._answer(stream, scope)
        except BadRequest as bad:
            await _send(stream, reply("400 Bad Request", str(bad)))
        except _GONE:
            return
        except Exception as error:  # a connection's fault ends no other
            log.error("a connection of the proxy failed", error=repr(error))
        await _drain_input(stream)

    async def _answer(self, stream: trio.SocketStream, uncounted: trio.CancelScope) -> None:
        data = b""
        with trio.move_on_after(_HEAD_S):
            data = await _read_head(stream)
        if not data:
            return
        end = data.index(b"\r\n\r\n") + 4
        head, rest = parse_head(data[:end]), data[end:]
        client = self._find_client(head.credential)
        if client is None:
            why = "this proxy serves only sandboxed tools, which have the credential in HTTP_PROXY"
            fields = 'Proxy-Authenticate: Basic realm="haft"'
            await _send(stream, reply("407 Proxy Authentication Required", why, fields))
            return
        if len(client.scopes) >= MAX_CONNECTIONS:
            why = f"the tool has {MAX_CONNECTIONS} connections, which is the limit"
            await _send(stream, reply("503 Service Unavailable", why))
            return
        self._uncounted.pop(uncounted, None)
        with trio.CancelScope() as scope:
            client.scopes.add(scope)
            try:
                await self._pass(stream, client, head, rest)
            finally:
                client.scopes.discard(scope)
                self._make_room(uncounted)

    def _find_client(self, credential: str) -> _Client | None:
        """Return the tool with this credential, compared in constant time; None if there is none."""
        shown = credential.encode()
        match = None
        for client in self._clients.values():
            if secrets.compare_digest(client.credential.encode(), shown):
                match = client
        return match

    async def _pass(
        self, stream: trio.SocketStream, client: _Client, head: Head, rest: bytes
    ) -> None:
        place = f"[{head.host}]:{head.port}" if ":" in head.host else f"{head.host}:{head.port}"
        if not _may_be_permitted(client.policy, head):
            await self._refuse(stream, client, place)
            return
        try:
            addresses = await self._resolve(canonicalize_host(head.host), head.port)
        except OSError as error:
            why = f"the name {head.host} has no address: {error.strerror}"
            await _send(stream, reply("502 Bad Gateway", why))
            return
        permitted = [
            (address, kinds)
            for address in addresses
            if (kinds := _find_kinds(client.policy, head, address))
        ]
        if not permitted:
            at = "" if head.host in addresses else f" at {', '.join(addresses)}"
            hint = "" if all(map(is_public, addresses)) else _NOT_PUBLIC
            await self._refuse(stream, client, f"{place}{at}", hint)
            return
        try:
            server, kinds = await _connect(permitted, head.port)
        except OSError as error:
            why = f"{place} cannot be connected to: {error.strerror or 'no answer'}"
            await _send(stream, reply("502 Bad Gateway", why))
            return
        async with server:
            if not head.is_tunnel:
                length = head.body
                await server.send_all(head.encode_for_server())
                await _exchange(stream, server, length, rest)
                return
            await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if len(kinds) < len(KINDS):
                while (kind := find_kind(rest)) is None:
                    data = await stream.receive_some(_CHUNK)
                    if not data:
                        return
                    rest += data
                if kind not in kinds:
                    client.refused = f"{place}, by a scheme that no rule allows"
                    return
            await server.send_all(rest)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_relay, stream, server, nursery.cancel_scope)
                nursery.start_soon(_relay, server, stream, nursery.cancel_scope)

    async def _refuse(
        self, stream: trio.SocketStream, client: _Client, place: str, hint: str = ""
    ) -> None:
        client.refused = place
        why = (
            f"the access rules of {client.tool} do not let it connect to {place}{hint}; "
            f"`haft access {client.tool}` shows what it may do"
        )
        await _send(stream, reply("403 Forbidden", why))


def _may_be_permitted(policy: AccessPolicy, head: Head) -> bool:
    """Return False if no rule permits the name at any address: it is not even resolved then."""
    if head.is_tunnel:
        schemes = ("https", "wss", "http", "ws", None)
        return any(policy.may_connect(head.host, head.port, scheme) for scheme in schemes)
    return policy.may_connect(head.host, head.port, "http", head.path)


def _find_kinds(policy: AccessPolicy, head: Head, address: str) -> frozenset[Kind]:
    if head.is_tunnel:
        return find_permitted_kinds(policy, head.host, address, head.port)
    may = policy.may_reach(
        head.host, address, head.port, "http", head.path, is_public=is_public(address)
    )
    return frozenset({"http"} if may else ())


async def _connect(
    permitted: Sequence[tuple[str, frozenset[Kind]]], port: int
) -> tuple[trio.SocketStream, frozenset[Kind]]:
    """Connect to the first address that answers; return the stream and its permitted kinds. Raises the
    last OSError."""
    failure = OSError(errno.EHOSTUNREACH, "no address")
    for address, kinds in permitted:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            sock = trio.socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            failure = error
            continue
        try:
            await sock.connect((address, port))
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return trio.SocketStream(sock), kinds
    raise failure


async def _read_head(stream: trio.SocketStream) -> bytes:
    """Return all data up to the empty line, and what came with it; empty if the peer ends before. Raises
    `BadRequest`."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0 or end > MAX_HEAD:
        if len(data) > MAX_HEAD:
            raise BadRequest(f"the head of the request has more than {MAX_HEAD} bytes")
        part = await stream.receive_some(_CHUNK)
        if not part:
            return b""
        data += part
    return data


async def _exchange(
    stream: trio.SocketStream, server: trio.SocketStream, length: int | None, rest: bytes
) -> None:
    async with trio.open_nursery() as nursery:

        async def send_body() -> None:
            try:
                if length is None:
                    await _send_chunks(stream, server, rest)
                else:
                    await _send_length(stream, server, rest, length)
            except _GONE:
                pass  # a server may reply before it has read the body

        nursery.start_soon(send_body)
        await _relay(server, stream, nursery.cancel_scope)
        nursery.cancel_scope.cancel()


async def _send_length(
    stream: trio.SocketStream, server: trio.SocketStream, rest: bytes, length: int
) -> None:
    data = rest[:length]
    while length > 0 and (data or (data := bytes(await stream.receive_some(min(length, _CHUNK))))):
        await server.send_all(data)
        length, data = length - len(data), b""


async def _send_chunks(stream: trio.SocketStream, server: trio.SocketStream, data: bytes) -> None:
    """Pass chunks on, up to the last one and its trailer (RFC 9112, 7.1); ends at anything else."""

    async def line() -> bytes:
        nonlocal data
        while b"\r\n" not in data:
            part = await stream.receive_some(_CHUNK)
            if not part or len(data) > MAX_HEAD:
                return b""
            data += part
        text, _, data = data.partition(b"\r\n")
        return text + b"\r\n"

    while size := await line():
        match = _SIZE.match(size)
        if match is None:
            return
        await server.send_all(size)
        length = int(match[1], 16)
        if not length:
            break
        await _send_length(stream, server, data, length + 2)
        data = data[length + 2 :]
    while trailer := await line():
        if trailer != b"\r\n" and not is_field(trailer[:-2]):
            return  # a server that takes other line ends could see a further request
        await server.send_all(trailer)
        if trailer == b"\r\n":
            return


async def _relay(
    source: trio.SocketStream, target: trio.SocketStream, both: trio.CancelScope
) -> None:
    """Pass bytes and their end on; cancel `both` directions if a connection breaks."""
    try:
        while data := await source.receive_some(_CHUNK):
            await target.send_all(data)
        await target.send_eof()
    except _GONE:
        both.cancel()


async def _drain_input(stream: trio.SocketStream) -> None:
    """Read on for a moment: a close with unread bytes would take back the reply."""
    with trio.move_on_after(_LINGER_S):
        try:
            await stream.send_eof()
            while await stream.receive_some(_CHUNK):
                pass
        except _GONE:
            pass


async def _send(stream: trio.SocketStream, data: bytes) -> None:
    try:
        await stream.send_all(data)
    except _GONE:
        pass
