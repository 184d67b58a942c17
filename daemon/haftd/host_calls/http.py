"""HTTP requests for mediated tools, each over its own connection to a checked address.

The name is resolved once for a request, and each redirect is a request that is decided on separately. Headers with a variable, and
credentials, stay with their origin. No proxy, no cookies, and no compression, which could hide a
variable's value.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urljoin

import h11
import msgspec
import trio

from haft_protocol.errors import shown
from haft_protocol.network_errors import first_reason
from haftd.http_exchange import Headers, HttpExchange, TooLong, secure

from .addresses import resolve_addresses
from .decisions import Destination, HostAccess, fill_headers, require_address, require_url
from .files import Encoding, decode, encode
from .messages import HostCallError
from .redaction import Redaction

MAX_BODY = 4 << 20
"""Bytes of a reply's body."""
MAX_REDIRECTS = 5
MAX_S = 120.0
"""Longest `timeout_s`, of a request with its redirects."""
_CONNECT_S = 10.0
"""For each address, after which the next one is tried."""
_MAX_ADDRESSES = 4
"""Addresses of a name that are tried."""
_CREDENTIALS = frozenset(["authorization", "cookie"])

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
Connector = Callable[[str, int], Awaitable[trio.abc.Stream]]


class Get(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    headers: Mapping[str, str] = {}
    max_bytes: int = MAX_BODY
    timeout_s: float = 30.0


class Post(Get, forbid_unknown_fields=True):
    body: str | None = None
    """Text, or data in Base64."""
    encoding: Encoding = "utf-8"
    json: Any = msgspec.UNSET
    """Any value, instead of `body`."""


class _Reply(msgspec.Struct):
    status: int
    headers: Headers
    body: bytes
    location: str = ""


async def connect(address: str, port: int) -> trio.abc.Stream:
    """Connect to an address without resolving; raises OSError."""
    family = trio.socket.AF_INET6 if ":" in address else trio.socket.AF_INET
    connection = trio.socket.socket(family, trio.socket.SOCK_STREAM)
    try:
        await connection.connect((address, port))
    except BaseException:
        connection.close()
        raise
    return trio.SocketStream(connection)


class Http:
    """Requests of one process. Results are as in docs/mediated-tools.md; each request raises
    `HostCallError`."""

    def __init__(
        self,
        access: HostAccess,
        redaction: Redaction,
        resolve: Resolver = resolve_addresses,
        connect: Connector = connect,
    ) -> None:
        self._access = access
        self._redaction = redaction
        self._resolve = resolve
        self._connect = connect
        self._tls: ssl.SSLContext | None = None

    async def get(self, params: Get) -> dict[str, Any]:
        return await self._send("GET", params, b"")

    async def post(self, params: Post) -> dict[str, Any]:
        headers = dict(params.headers)
        if params.json is not msgspec.UNSET:
            if params.body is not None:
                raise HostCallError("invalid", "A request can have `body` or `json`, not both.")
            if not any(name.lower() == "content-type" for name in headers):
                headers["Content-Type"] = "application/json"
            body = msgspec.json.encode(params.json)
        else:
            body = decode(params.body or "", params.encoding)
        params.headers = headers
        return await self._send("POST", params, body)

    async def _send(self, method: str, params: Get, body: bytes) -> dict[str, Any]:
        if not 0 < params.timeout_s <= MAX_S:
            raise HostCallError("invalid", f"`timeout_s` is more than 0 and at most {MAX_S:g}.")
        if not 0 <= params.max_bytes <= MAX_BODY:
            raise HostCallError("invalid", f"`max_bytes` is a number from 0 to {MAX_BODY}.")
        # The decision comes first: an answer about headers reveals no variables.
        require_url(self._access, params.url)
        headers, secret = fill_headers(self._access, params.headers)
        self._redaction.use(
            name for name in self._access.variables if _uses(params.headers.values(), name)
        )
        with trio.move_on_after(params.timeout_s):
            return await self._follow(method, params, headers, secret, body)
        raise HostCallError(
            "timeout", f"There was no complete response within {params.timeout_s:g} s."
        )

    async def _follow(
        self,
        method: str,
        params: Get,
        headers: Headers,
        secret: frozenset[str],
        body: bytes,
    ) -> dict[str, Any]:
        url = params.url
        for _ in range(MAX_REDIRECTS + 1):
            to = require_url(self._access, url)
            reply = await self._exchange(method, to, headers, body, params.max_bytes)
            if not reply.location:
                return self._make_result(to, reply)
            try:
                url = urljoin(to.url, reply.location).partition("#")[0]
            except ValueError:
                raise HostCallError("invalid", f"{to.host} redirects to a malformed URL.") from None
            after = require_url(self._access, url)
            if after.origin != to.origin:
                private = secret | _CREDENTIALS
                headers = [item for item in headers if item[0].lower() not in private]
            if reply.status == 303 or (method == "POST" and reply.status in (301, 302)):
                method, body = "GET", b""
                headers = [item for item in headers if item[0].lower() != "content-type"]
        raise HostCallError("network", f"{to.host} redirects more than {MAX_REDIRECTS} times.")

    def _make_result(self, to: Destination, reply: _Reply) -> dict[str, Any]:
        body = self._redaction.redact_bytes(reply.body)
        encoding: Literal["utf-8", "base64"] = "utf-8"
        try:
            text = encode(body, "utf-8", "")
        except HostCallError:
            encoding = "base64"
            text = encode(body, "base64", "")
        headers: dict[str, str] = {}
        for name, value in reply.headers:
            value = self._redaction.redact_text(value)
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return {
            "status": reply.status,
            "url": self._redaction.redact_text(to.url),
            "headers": headers,
            "body": text,
            "encoding": encoding,
        }

    async def _exchange(
        self,
        method: str,
        to: Destination,
        headers: Headers,
        body: bytes,
        max_bytes: int,
    ) -> _Reply:
        try:
            stream = await self._open(to)
            try:
                return await _exchange(stream, method, to, headers, body, max_bytes)
            finally:
                await trio.aclose_forcefully(stream)
        except h11.RemoteProtocolError:
            raise HostCallError("network", f"{to.host} does not speak HTTP/1.1.") from None
        except h11.LocalProtocolError:
            raise HostCallError("invalid", "The request's headers are not valid in HTTP.") from None
        except (OSError, trio.BrokenResourceError) as error:
            raise _unreachable(to, error) from None

    async def _open(self, to: Destination) -> trio.abc.Stream:
        try:
            addresses = await self._resolve(to.host, to.port)
        except OSError as error:
            raise _unreachable(to, error) from None
        for address in addresses:
            require_address(self._access, to, address)
        if to.scheme != "http" and self._tls is None:
            self._tls = await trio.to_thread.run_sync(ssl.create_default_context)
        failure: Exception = OSError("it has no address")
        for address in addresses[:_MAX_ADDRESSES]:
            with trio.move_on_after(_CONNECT_S):
                try:
                    stream = await self._connect(address, to.port)
                except OSError as error:
                    failure = error
                    continue
                if self._tls is None or to.scheme == "http":
                    return stream
                return await secure(stream, self._tls, to.host)
            failure = TimeoutError()
        raise _unreachable(to, failure)


def _uses(values: Any, name: str) -> bool:
    return any(f"${{{name}}}" in value for value in values)


async def _exchange(
    stream: trio.abc.Stream,
    method: str,
    to: Destination,
    headers: Headers,
    body: bytes,
    max_bytes: int,
) -> _Reply:
    http = HttpExchange(stream)
    own = [("Host", to.authority), ("Connection", "close"), ("Accept-Encoding", "identity")]
    names = {name.lower() for name, _ in headers}
    own += [
        item for item in (("User-Agent", "haft"), ("Accept", "*/*")) if item[0].lower() not in names
    ]
    await http.request(method, to.target, [*own, *headers], body)
    location = http.header("location")
    if http.status in (301, 302, 303, 307, 308) and location:
        return _Reply(http.status, http.headers, b"", location)
    if http.header("content-encoding").strip().lower() not in ("identity", ""):
        raise HostCallError(
            "network", f"{to.host} sent a compressed response, which was not requested."
        )
    try:
        return _Reply(http.status, http.headers, await http.body(max_bytes))
    except TooLong:
        raise HostCallError(
            "too_large", f"The body of the answer has more than {max_bytes:,} bytes."
        ) from None


def _unreachable(to: Destination, error: BaseException) -> HostCallError:
    if isinstance(error, TimeoutError):
        why = "no answer in time"
    else:
        why = first_reason(error) or "no connection"
    return HostCallError("network", f"{shown(to.host)} cannot be reached: {why}.")
