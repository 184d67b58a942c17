"""Addresses of daemons: a Unix socket, a machine reached by ssh, a WebSocket.

No message repeats an address's password or token.
"""

from __future__ import annotations

import re
import sys

import msgspec

from .errors import InvalidAddress
from .local_address import Local

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_AUTHORITY = re.compile(
    r"(?:(?P<user>[^@/?#]*)@)?(?P<machine>\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[^@:/?#\[\]]*)(?::(?P<port>[^@/?#]*))?"
)
_MACHINE = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]*")
_USER = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.$\\-]*")
_PORTS = range(1, 65536)
_FORMS = "ssh://user@box, ws://box:port, wss://box:port or unix:///path/of/haftd.sock"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Ssh(msgspec.Struct, frozen=True):
    """A daemon that OpenSSH reaches."""

    machine: str
    user: str | None = None
    port: int | None = None
    socket: str | None = None
    """Path on that machine."""

    @property
    def name(self) -> str:
        machine = f"[{self.machine}]" if ":" in self.machine else self.machine
        user = "" if self.user is None else f"{self.user}@"
        return f"{user}{machine}{'' if self.port is None else f':{self.port}'}"

    @property
    def login(self) -> str:
        """Return the login command, for a person to type."""
        port = "" if self.port is None else f"-p {self.port} "
        return f"ssh {port}{'' if self.user is None else f'{self.user}@'}{self.machine}"


class WebSocket(msgspec.Struct, frozen=True):
    """A daemon at a WebSocket."""

    url: str
    machine: str

    @property
    def name(self) -> str:
        return self.url

    @property
    def is_loopback(self) -> bool:
        return self.machine in _LOOPBACK


Remote = Ssh | WebSocket
Address = Local | Remote


def parse_address(text: str, source: str = "--host") -> Address:
    """Read an address; raise `InvalidAddress`, which names `source`."""
    match = _SCHEME.match(text)
    if match is None or not text.isprintable():
        # Shown only without a sign of a password.
        shown = "" if "@" in text else f", not {text!a}"
        raise InvalidAddress(f"{source} needs an address: {_FORMS}{shown}")
    scheme, rest = match[1].lower(), text[match.end() :]
    if scheme == "unix":
        return Local(_path(rest, source) if rest else None)
    if scheme not in ("ssh", "ws", "wss"):
        raise InvalidAddress(f"{source} has an address with {scheme}://; haft accepts {_FORMS}")
    authority, _, path = rest.partition("/")
    parts = _AUTHORITY.fullmatch(authority)
    user = None if parts is None else parts["user"]
    if parts is None or (user is not None and ":" in user):
        reason = "is not an address" if parts is None else "has a password"
        raise InvalidAddress(f"{source} {reason}; write it as {_FORMS}, without a password")
    machine = parts["machine"].strip("[]")
    port = _port(parts["port"], source)
    if not _MACHINE.fullmatch(machine):
        raise InvalidAddress(f"{source} names no machine: {_FORMS}")
    if scheme == "ssh":
        if user is not None and not _USER.fullmatch(user):
            raise InvalidAddress(f"{source} has a user name that ssh does not accept")
        socket = _path(f"/{path}", source) if path else None
        return Ssh(machine, user, port, socket)
    if user is not None or "?" in path or "#" in path:
        raise InvalidAddress(
            f"{source} has a user name or a query, which other users could see; the "
            "token of a WebSocket is in the file that HAFT_TOKEN_FILE names"
        )
    return WebSocket(f"{scheme}://{authority}/{path}", machine)


def _port(text: str | None, source: str) -> int | None:
    if text is None:
        return None
    port = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    if port not in _PORTS:
        raise InvalidAddress(
            f"{source} has {text!a} after the colon, where a port from 1 to {_PORTS[-1]} must be"
        )
    return port


def _path(path: str, source: str) -> str:
    if "%" in path:
        from urllib.parse import unquote

        path = unquote(path, errors="surrogateescape")
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise InvalidAddress(f"{source} needs the absolute path of a socket, not {path!a}")
    return path


def relay_command(address: WebSocket) -> list[str]:
    """Return the command that connects its standard streams to the WebSocket."""
    return [sys.executable, "-P", "-m", "haft.websocket_relay", address.url]
