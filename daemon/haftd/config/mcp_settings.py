"""`[mcp.<name>]`: MCP servers, each a program or an address.

A wrong value drops the server: another environment makes another program. `haft mcp` is refused:
the daemon would be its own client. Credentials appear in no `repr`.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from haft_protocol.errors import shown
from haftd.lazy_pattern import lazy_pattern
from haftd.tools.definitions.parameters import InvalidField

from .values import Reader, is_loopback, number, read_table, strings

NAME = lazy_pattern(r"[^\s.\"'`\x00-\x1f][^.\"'`\x00-\x1f]{0,47}")
_VARIABLE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = lazy_pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = lazy_pattern(r"[\t\x20-\x7e\x80-\xff]*")
_OURS = ("HAFT_HANDLE", "HAFT_OUTER", "HAFT_CALL", "HAFT_SOCKET")


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """`[mcp.<name>]`."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str | bool] = {}
    """True passes the daemon's variable."""
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    tools: Literal["all"] | tuple[str, ...] = "all"
    start: Literal["lazy", "eager"] = "lazy"
    era: Literal["auto", "legacy", "modern"] = "auto"
    startup_s: float = 30.0
    call_s: float | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        return (*self.command, *self.args)

    def __repr__(self) -> str:
        return f"McpServer(command={self.command[:1]!r}, url={_shorten_url(self.url)!r}, …)"


def _shorten_url(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}" if url else ""


def _read_command(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise InvalidField((), f"it cannot be split into words: {error}") from None
    words: tuple[str, ...] = strings()(value)
    if not words:
        raise InvalidField((), "it does not name a program")
    return words


def _read_args(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise InvalidField((), "it must be an array of strings")


def _read_env(value: object) -> Mapping[str, str | bool]:
    if not isinstance(value, dict):
        raise InvalidField((), "it must be a table of strings")
    for name, item in value.items():
        if not _VARIABLE.fullmatch(name) or name in _OURS:
            raise InvalidField((name,), "this name cannot be set")
        if item is not True and not isinstance(item, str):
            raise InvalidField(
                (name,), "it must be a string, or true to pass on the daemon's variable"
            )
    return value


def _read_cwd(value: object) -> str:
    if isinstance(value, str) and (value.startswith(("/", "~/")) or value == "~"):
        return str(PurePosixPath(value))
    raise InvalidField((), "it must be an absolute path, or one that begins with `~/`")


def _read_url(value: object) -> str:
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise InvalidField(
            (), "it must be an address that begins with `https://` or `http://`, without a user"
        )
    if parts.scheme == "http" and not (
        parts.hostname == "localhost" or is_loopback(parts.hostname)
    ):
        raise InvalidField((), "`http://` is for this machine only; use `https://`")
    return str(value)


def _read_headers(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise InvalidField((), "it must be a table of strings")
    for name, item in value.items():
        if not _HEADER.fullmatch(name):
            raise InvalidField((name,), "it is not the name of a header")
        if not isinstance(item, str) or not _HEADER_VALUE.fullmatch(item):
            raise InvalidField((name,), "it must be a string of one line")
    return value


def _read_tools(value: object) -> Literal["all"] | tuple[str, ...]:
    return "all" if value == "all" else _read_args(value)


def _make_choice_reader(*allowed: str) -> Reader:
    def read(value: object) -> Any:
        if value in allowed:
            return value
        raise InvalidField((), f"it is {shown(value)}; it must be one of {', '.join(allowed)}")

    read.form = " or ".join(f"`{choice}`" for choice in allowed)  # type: ignore[attr-defined]
    return read


MCP: dict[str, Reader] = {
    "command": _read_command,
    "args": _read_args,
    "env": _read_env,
    "cwd": _read_cwd,
    "url": _read_url,
    "headers": _read_headers,
    "tools": _read_tools,
    "start": _make_choice_reader("lazy", "eager"),
    "era": _make_choice_reader("auto", "legacy", "modern"),
    "startup_s": number(0.1, 3600, whole=False),
    "call_s": number(0.1, 31_536_000, whole=False),
}
_OF_PROGRAMS = ("args", "env", "cwd")


def read_server(name: str, value: object) -> McpServer:
    """Parse a server; raises `InvalidField`."""
    if not NAME.fullmatch(name):
        raise InvalidField(
            (),
            f"{shown(name)} is not a name for a server: up to 48 characters, no dot and no quote",
        )
    if not isinstance(value, dict):
        raise InvalidField((), "it must be a table")
    server = McpServer(**read_table(value, MCP))
    if bool(server.command) == bool(server.url):
        raise InvalidField((), "give either `command` or `url`")
    if server.url and (stray := [key for key in _OF_PROGRAMS if key in value]):
        raise InvalidField((stray[0],), "it needs `command` and cannot be combined with `url`")
    if server.command and "headers" in value:
        raise InvalidField(("headers",), "it needs `url` and cannot be combined with `command`")
    if _is_haft(server.argv):
        raise InvalidField(
            ("command",), "it is haft itself, whose tools are available already; remove the server"
        )
    return server


def _is_haft(argv: tuple[str, ...]) -> bool:
    """True for an argv of `haft mcp`; see `runtimes.mcp.connection`."""
    names = [PurePosixPath(word).name for word in argv]
    return any(pair == ("haft", "mcp") for pair in itertools.pairwise(names))
