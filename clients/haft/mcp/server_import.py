"""Servers of a host's configuration as `[mcp.<name>]` tables, appended to haft's.

A server that no table can express is skipped with the reason. Values of variables and headers are
written, not shown. A host's question to the user (VS Code's `inputs`) is a placeholder in the table until
`fill`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from haft_protocol.paths import config_file

from ..errors import SetupFailed
from .hosts import HOSTS, NAME, replace_file
from .jsonc import Malformed, decode

_SECTIONS = tuple(dict.fromkeys(about.section for about in HOSTS.values()))
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME = 48
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_REFERENCE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_WORD = re.compile(r"(?i)token|key|secret|passw|auth|credential")
_INPUT = re.compile(r"\$\{input:([^}\x80\x81]+)\}")
_PLACEHOLDER = re.compile("\x80([^\x81]*)\x81")
"""An input in a table, between characters that a header may have and no host writes."""
_HIDDEN = "…"

Table = dict[str, Any]


class Input(NamedTuple):
    """Value that a host asks a person for."""

    text: str
    is_secret: bool
    default: str


class _Inexpressible(ValueError):
    """No table of haft can express the server; the message completes "is skipped: "."""


class ServerImport:
    """Servers of one file, as tables new to haft's configuration.

    `folder` is the project's, for the servers that Claude Code keeps beside the user's; with
    `can_ask` the host's inputs may be asked for. Raises `SetupFailed` for an unreadable file.
    """

    def __init__(
        self, source: str, env: Mapping[str, str], *, folder: str = "", can_ask: bool = False
    ) -> None:
        self.config = Path(config_file(env))
        self.tables: dict[str, Table] = {}
        self.left_out: dict[str, str] = {}
        """Reason, by the server's name."""
        self.inputs: dict[str, Input] = {}
        """Inputs that the tables need, by id, for `fill`."""
        self._before = _text_of(self.config) if self.config.exists() else ""
        present = _decoded(self._before, self.config).get("mcp", {})
        if not isinstance(present, dict):
            raise SetupFailed(
                f"{self.config} is not understood: its `mcp` is not a table of servers"
            )
        document = _decoded(_text_of(Path(source)), Path(source))
        inputs = _inputs(document)
        for name, server in _servers(document, source, folder).items():
            try:
                table = _table(name, _with_placeholders(server, inputs))
                needed = _PLACEHOLDER.findall(json.dumps(table, ensure_ascii=False))
                if needed and not can_ask:
                    raise _Inexpressible(
                        f"it asks for {needed[0]!r}; import it in a terminal, without --yes"
                    )
                own_name = _own_name(name)
                if own_name in present or own_name in self.tables:
                    raise _Inexpressible(f"there is a server {own_name!r} already")
                self.tables[own_name] = table
                self.inputs |= {id: inputs[id] for id in needed}
            except _Inexpressible as reason:
                self.left_out[name] = str(reason)

    def shown(self) -> str:
        """Return the tables without values of variables and headers, and without likely secrets
        elsewhere."""
        hidden = {name: _without_secrets(table) for name, table in self.tables.items()}
        tables = _replaced(hidden, lambda match: f"${{input:{match[1]}}}")
        return "\n".join(_toml(name, table) for name, table in tables.items())

    def fill(self, values: Mapping[str, str]) -> None:
        self.tables = _replaced(self.tables, lambda match: values[match[1]])
        self.inputs = {}

    def write(self) -> None:
        """Append the tables to haft's configuration. Raises `SetupFailed`, without a change."""
        tables = "\n".join(_toml(name, table) for name, table in self.tables.items())
        blank = f"{self._before.rstrip()}\n\n" if self._before.strip() else ""
        after = blank + tables
        before = _decoded(self._before, self.config)
        expected = {**before, "mcp": {**before.get("mcp", {}), **self.tables}}
        try:
            written = tomllib.loads(after)
        except tomllib.TOMLDecodeError:
            written = {}
        if written != expected:
            raise SetupFailed(
                f"{self.config} was not changed: its `mcp` is written in a form to which no table can be added; "
                f"write `[mcp.<name>]` tables instead"
            )
        has_values = any("env" in table or "headers" in table for table in self.tables.values())
        try:
            replace_file(
                Path(os.path.realpath(self.config)),
                after,
                keep_backup=self.config.exists(),
                is_private=has_values,
            )
        except (OSError, UnicodeError) as fault:
            raise SetupFailed(f"{self.config} cannot be written: {fault}") from None


def _text_of(path: Path) -> str:
    try:
        # `read_text` would turn CRLF into LF.
        return path.read_bytes().decode()
    except OSError as fault:
        raise SetupFailed(f"{path} cannot be read: {fault.strerror}") from None
    except UnicodeDecodeError:
        raise SetupFailed(f"{path} cannot be read: it is not UTF-8") from None


def _decoded(text: str, path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(text) if path.suffix == ".toml" else decode(text)
    except (Malformed, tomllib.TOMLDecodeError) as fault:
        raise SetupFailed(f"{path} is not understood: {fault}") from None
    if not isinstance(document, dict):
        raise SetupFailed(f"{path} is not understood: it is not a JSON object")
    return document


def _servers(document: Mapping[str, Any], source: str, folder: str) -> dict[str, Any]:
    """Return the servers of the user and, in preference, of the project in `folder`."""
    projects = document.get("projects")
    project = projects.get(folder) if isinstance(projects, dict) else None
    servers: dict[str, Any] | None = None
    for table in (document, project):
        sections = (table.get(section) for section in _SECTIONS) if isinstance(table, dict) else ()
        own = next((section for section in sections if isinstance(section, dict)), None)
        if own is not None:
            servers = {**(servers or {}), **own}
    if servers is None:
        raise SetupFailed(f"{source} names no servers: it has none of {', '.join(_SECTIONS)}")
    off = project.get("disabledMcpServers") if isinstance(project, dict) else None
    for name in off if isinstance(off, list) else ():
        if isinstance(name, str) and isinstance(servers.get(name), dict):
            servers[name] = {**servers[name], "disabled": True}
    return servers


def _inputs(document: Mapping[str, Any]) -> dict[str, Input]:
    listed = document.get("inputs")
    inputs: dict[str, Input] = {}
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, dict) or entry.get("type") not in ("promptString", "pickString"):
            continue  # A command of an extension cannot be asked for.
        if isinstance(id := entry.get("id"), str):
            text, default = entry.get("description"), entry.get("default")
            inputs[id] = Input(
                text if isinstance(text, str) and text else id,
                entry.get("password") is True,
                default if isinstance(default, str) else "",
            )
    return inputs


def _with_placeholders(server: object, inputs: Mapping[str, Input]) -> object:
    """Replace the known inputs in arguments, variables and headers by placeholders."""
    if not isinstance(server, dict):
        return server
    fields = {key: server[key] for key in ("args", "env", "headers") if key in server}

    def placeholder(input: re.Match[str]) -> str:
        return f"\x80{input[1]}\x81" if input[1] in inputs else input[0]

    return {**server, **_replaced(fields, placeholder, _INPUT)}


def _replaced(
    value: Any, by: Callable[[re.Match[str]], str], pattern: re.Pattern[str] = _PLACEHOLDER
) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, by, pattern) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, by, pattern) for item in value]
    return pattern.sub(by, value) if isinstance(value, str) else value


def _table(name: str, server: object) -> Table:
    if not isinstance(server, dict):
        raise _Inexpressible("it is not a table")
    if server.get("disabled") is True or server.get("enabled") is False:
        raise _Inexpressible("the host has it switched off")
    if isinstance(nested := server.get("command"), dict):  # An older form of Zed's.
        server = {**server, **nested, "command": nested.get("path")}
    command = server.get("command")
    if isinstance(command, str) and command:
        table = _program(name, command, server)
    else:
        table = _address(server)
    table |= _limits(server)
    return table


def _own_name(name: str) -> str:
    """Return the name in the characters that every provider takes."""
    own_name = _NOT_IN_NAMES.sub("_", name).strip("_")[:_MAX_NAME]
    if not own_name:
        raise _Inexpressible("its name has no letter and no digit of ASCII")
    return own_name


def _program(name: str, command: str, server: Mapping[str, Any]) -> Table:
    args = _texts(server, "args")
    names = [PurePosixPath(word).name for word in (command, *args)]
    if name == NAME or (NAME, "mcp") in itertools.pairwise(names):
        raise _Inexpressible("it is haft itself")
    # A text would be split into words.
    table: Table = {"command": [command]}
    if args:
        table["args"] = args
    if (cwd := server.get("cwd")) is not None:
        if not isinstance(cwd, str) or not cwd.startswith(("/", "~/")):
            raise _Inexpressible("its `cwd` is not an absolute path")
        table["cwd"] = cwd
    for word in (command, *args, table.get("cwd", "")):
        if "${" in word:
            raise _Inexpressible("its command or folder has a variable of the host's, `${…}`")
    env: dict[str, str | bool] = dict.fromkeys(_texts(server, "env_vars"), True)
    for variable, value in _text_table(server, "env").items():
        reference = _REFERENCE.fullmatch(value)
        if reference and reference[1] == variable:
            env[variable] = True
        elif "${" in value:
            raise _Inexpressible(f"its `env.{variable}` has a variable of the host's, `${{…}}`")
        else:
            env[variable] = value
    for variable in env:
        if not _VARIABLE.fullmatch(variable) or variable.startswith("HAFT_"):
            raise _Inexpressible(f"its `env` sets {variable!r}")
    return {**table, "env": env} if env else table


def _address(server: Mapping[str, Any]) -> Table:
    keys = ("httpUrl", "url", "serverUrl")
    url = next((server[key] for key in keys if isinstance(server.get(key), str)), None)
    if url is None:
        raise _Inexpressible("it has neither a `command` nor a `url`")
    if server.get("type") == "sse":
        raise _Inexpressible("it speaks HTTP+SSE, which haft does not")
    try:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1")
        is_whole = parts.scheme in ("http", "https") and parts.hostname and not parts.username
    except ValueError:
        is_safe = is_whole = False
    if "${" in url or not is_whole or not is_safe:
        raise _Inexpressible("its address is not one of `https://`, or of this machine")
    headers = {**_text_table(server, "headers"), **_text_table(server, "http_headers")}
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise _Inexpressible(f"{name!r} is not a header of one line")
        if "${" in _REFERENCE.sub("", value):
            raise _Inexpressible(f"its header {name!r} has a variable of the host's, `${{…}}`")
        headers[name] = _REFERENCE.sub(r"${\1}", value)
    if isinstance(variable := server.get("bearer_token_env_var"), str):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    return {"url": url, "headers": headers} if headers else {"url": url}


def _limits(server: Mapping[str, Any]) -> Table:
    table: Table = {}
    for key, own in (("startup_timeout_sec", "startup_s"), ("tool_timeout_sec", "call_s")):
        value = server.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 1:
            table[own] = value
    for key in ("enabled_tools", "includeTools"):
        if tools := _texts(server, key):
            table["tools"] = tools
    return table


def _texts(server: Mapping[str, Any], key: str) -> list[str]:
    value = server.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _Inexpressible(f"its `{key}` is not an array of strings")
    return value


def _text_table(server: Mapping[str, Any], key: str) -> dict[str, str]:
    value = server.get(key) or {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise _Inexpressible(f"its `{key}` is not a table of strings")
    return value


def _without_secrets(table: Table) -> Table:
    shown = dict(table)
    for key in ("env", "headers"):
        if key in shown:
            shown[key] = {
                name: value if value is True else _HIDDEN for name, value in shown[key].items()
            }
    if "args" in shown:
        before = ["", *shown["args"]]
        shown["args"] = [_argument(*pair) for pair in itertools.pairwise(before)]
    if "url" in shown:
        parts = urlsplit(shown["url"])
        shown["url"] = parts._replace(query=_HIDDEN if parts.query else "").geturl()
    return shown


def _argument(before: str, word: str) -> str:
    name, equals, _ = word.partition("=")
    if equals and _SECRET_WORD.search(name):
        return f"{name}={_HIDDEN}"
    if before.startswith("-") and "=" not in before and _SECRET_WORD.search(before):
        return _HIDDEN
    return word


def _toml(name: str, table: Table) -> str:
    lines = [f"[mcp.{_key(name)}]"]
    lines += [f"{key} = {_value(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, which allows no DEL either.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)
