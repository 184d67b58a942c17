"""Heads of requests to the proxy (RFC 9110, 9112): parsed strictly, passed on without the proxy's fields."""

from __future__ import annotations

import base64
import binascii
import re

import msgspec

from haftd.lazy_pattern import lazy_pattern

MAX_HEAD = 65_536
"""Bytes of a request line with its fields."""

_LINE = lazy_pattern(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP/1\.[01]")
_FIELD = lazy_pattern(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00\r\n]*?)[ \t]*")
_AUTHORITY = lazy_pattern(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@?#]+)(?::([0-9]{1,5}))?")
_URL = lazy_pattern(r"http://([^/?#]*)(/[^?#]*)?(\?[^#]*)?", re.IGNORECASE)
_OF_PROXY = frozenset(
    b"connection keep-alive proxy-connection proxy-authorization proxy-authenticate te upgrade host".split()
)

_OF_BODY = frozenset(b"content-length transfer-encoding".split())
"""Without them the server would take the body for a further request."""


class BadRequest(Exception):
    """The proxy refuses the request; the message is for its sender."""


class Head(msgspec.Struct, frozen=True):
    method: str
    host: str
    port: int
    path: str
    """Path and query of a request for a URL; empty for a tunnel."""
    fields: tuple[tuple[bytes, bytes], ...]

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    def value(self, name: bytes) -> bytes | None:
        """Return the value of a field; None without it. Raises `BadRequest` if the field stands twice."""
        values = [value for key, value in self.fields if key.lower() == name]
        if len(values) > 1:
            raise BadRequest(f"the field {name.decode()} appears twice")
        return values[0] if values else None

    @property
    def credential(self) -> str:
        """Return the password of `Proxy-Authorization: Basic`, or an empty string; raises `BadRequest`."""
        scheme, _, encoded = (self.value(b"proxy-authorization") or b"").partition(b" ")
        if scheme.lower() != b"basic":
            return ""
        try:
            decoded = base64.b64decode(encoded, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return ""
        return decoded.partition(":")[2]

    @property
    def body(self) -> int | None:
        """Return the length of the body, None for one in chunks; raises `BadRequest`."""
        encoding, length = self.value(b"transfer-encoding"), self.value(b"content-length")
        if encoding is not None:
            if encoding.lower() != b"chunked" or length is not None:
                raise BadRequest("the length of the body is ambiguous")
            return None
        if length is None:
            return 0
        if not re.fullmatch(rb"[0-9]{1,18}", length):
            raise BadRequest("content-length is not a number")
        return int(length)

    def encode_for_server(self) -> bytes:
        """Return the head for the URL's server, which closes the connection after its reply."""
        named = (self.value(b"connection") or b"").lower().replace(b" ", b"").split(b",")
        kept = [
            b"%b: %b\r\n" % field
            for field in self.fields
            if field[0].lower() in _OF_BODY
            or (field[0].lower() not in _OF_PROXY and field[0].lower() not in named)
        ]
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == 80 else f":{self.port}"
        line = f"{self.method} {self.path} HTTP/1.1\r\nHost: {host}{port}\r\n".encode()
        return line + b"".join(kept) + b"Connection: close\r\n\r\n"


def parse_head(data: bytes) -> Head:
    """Parse a head with its empty line; raises `BadRequest`."""
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise BadRequest("this is not a request of HTTP/1.1")
    fields = []
    for text in lines:
        field = _FIELD.fullmatch(text)
        if field is None:
            raise BadRequest("a field of the request is wrong")
        fields.append((field[1], field[2]))
    method, target = line[1].decode(), line[2].decode()
    if method == "CONNECT":
        host, port = _read_authority(target, None)
        return Head(method, host, port, "", tuple(fields))
    url = _URL.fullmatch(target)
    if url is None:
        raise BadRequest("this proxy serves CONNECT, and requests for URLs that begin with http://")
    host, port = _read_authority(url[1], 80)
    return Head(method, host, port, (url[2] or "/") + (url[3] or ""), tuple(fields))


def is_field(line: bytes) -> bool:
    """True for a well-formed field without its line end."""
    return _FIELD.fullmatch(line) is not None


def _read_authority(text: str, default: int | None) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(text)
    if match is None or (match[2] is None and default is None):
        raise BadRequest(f"{text!r} is not a host with a port")
    port = default if match[2] is None else int(match[2])
    if port is None or not 0 < port < 65536:
        raise BadRequest(f"{text!r} has no port from 1 to 65535")
    return match[1].strip("[]"), port


def reply(status: str, message: str, *fields: str) -> bytes:
    """Return a response in plain text."""
    body = f"haft: {message}\n".encode()
    head = "".join(
        f"{line}\r\n"
        for line in (
            f"HTTP/1.1 {status}",
            "Content-Type: text/plain; charset=utf-8",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *fields,
            "",
        )
    )
    return head.encode() + body
