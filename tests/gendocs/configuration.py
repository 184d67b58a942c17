"""docs/configuration.md, generated from the settings. Sections, keys, defaults and bounds come
from `haftd.config`, meanings from `MEANINGS`; an unmatched key or meaning fails the page's
test. The text above the mark is written by hand and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from haftd.config.inquiry_settings import COMMAND, LLM, InquiryCommand, LlmSettings
from haftd.config.mcp_settings import MCP, McpServer
from haftd.config.settings import KEYS, Settings, WebSocketSettings
from haftd.config.values import Reader

CONFIGURATION = Path(__file__).parents[2] / "docs" / "configuration.md"
BEGIN = "<!-- From here on: made by `python -m tests.gendocs`. -->"

MEANINGS: dict[str, str] = {
    "daemon.max_message": "longest message; a longer one is refused and its connection closed",
    "daemon.max_nesting": "levels of arrays and objects in a message",
    "daemon.max_values": "values in a message",
    "daemon.max_batch": "requests in one batch",
    "daemon.max_connections": "connections at a time",
    "daemon.max_in_flight": "requests of a connection that wait for their reply",
    "daemon.max_handles_session": "live handles of a session",
    "daemon.max_handles": "live handles of all sessions",
    "daemon.max_queued": "bytes that wait for a client to read; a client that leaves more is disconnected",
    "daemon.retain_stopped_s": "how long a stopped handle can be read again once its end was read",
    "daemon.retain_stopped_max": "stopped handles that a session keeps; past it the oldest go, read ones first",
    "daemon.abort_grace_ms": "time between SIGTERM and SIGKILL when a handle is ended",
    "daemon.approval_timeout_s": "how long an approval or a review waits for a decision; then the call fails",
    "daemon.question_timeout_s": "how long a tool's question waits for its answer; then the tool stops with an error."
    " `questions.<id>.timeout_s` of a definition replaces it for one question",
    "daemon.secret_env": "names of environment variables, with `*`, that no tool gets and no reply shows",
    "daemon.cgroup": "`auto`: a cgroup for each handle where systemd delegates one, and without a service manager the"
    " controller `pids` of version 1 for handles with `limits.processes`; `off`; or the absolute path of a delegated cgroup",
    "spool.memory": "newest output of a handle that is kept in memory",
    "spool.disk": "older output of a handle that is kept on disk; past it the oldest is dropped and counted",
    "spool.total": "output of all handles on disk",
    "websocket.port": "TCP port; 0 takes a free one, which `daemon/status` shows",
    "websocket.host": "loopback address that it listens on",
    "websocket.origins": "values of `Origin` that may connect; a browser sends one, other clients none",
    "websocket.hosts": "values of `Host` that may connect; `name:port` for the port of a proxy",
    "inquiry.backends": "backends to ask, in this order; see [Answers](inquiries.md)",
    "inquiry.command.argv": "program and arguments of the backend `command`",
    "inquiry.command.timeout_s": "how long one run of it may take; then it has declined",
    "inquiry.llm.provider": "the API that is spoken",
    "inquiry.llm.model": "the model, as the provider calls it",
    "inquiry.llm.url": "where the API is; by default the provider's own",
    "inquiry.llm.key_env": "environment variable of the daemon with the key; by default the provider's usual one, with"
    " another `url` none",
    "inquiry.llm.key_file": "absolute path of a file with the key, mode 0600 or less; instead of `key_env`",
    "inquiry.llm.timeout_s": "how long one request may take",
    "inquiry.llm.gather_ms": "how long a question waits for others of the same conversation, to be asked in one request; 0: each is"
    " asked alone",
    "inquiry.llm.attempts": "how often one request is sent at most",
    "inquiry.llm.max_tokens": "longest answer; by default Anthropic's 4,096, else the provider's own bound",
    "inquiry.llm.system": "system message where the context of the call has none",
    "inquiry.static.<tool>.<question>": "the answer of the backend `static` to this question of this tool",
    "toolpack.enable": "tools that come with haft and are offered",
    "mcp.<name>.command": "program of the server, with its arguments; a string is split into words as by a shell",
    "mcp.<name>.args": "more arguments, as other hosts write them",
    "mcp.<name>.env": "environment variables for the server; `true` hands on the daemon's, also a secret one",
    "mcp.<name>.cwd": "folder of the server; by default the home folder",
    "mcp.<name>.url": "address of the server (streamable HTTP), instead of `command`",
    "mcp.<name>.headers": "headers of every request to `url`; `${NAME}` stands for a variable of the daemon's",
    "mcp.<name>.tools": "tools that are offered without a definition of their own",
    "mcp.<name>.start": "whether it is started with the daemon or when it is needed",
    "mcp.<name>.era": "revisions of the protocol: `modern` is 2026-07-28, `legacy` all before; `auto` asks",
    "mcp.<name>.startup_s": "how long it may take until its tools are listed",
    "mcp.<name>.call_s": "how long a call may take without progress; without it there is no bound",
}

SECTIONS: dict[str, str] = {
    "daemon": "",
    "spool": 'Sizes are bytes, or a string with a unit: `"64 MiB"`.',
    "websocket": "Off without a `port`. A wrong value keeps it off.",
    "inquiry": "",
    "inquiry.command": "",
    "inquiry.llm": "",
    "inquiry.static": "",
    "toolpack": "",
    "mcp.<name>": "A server of the Model Context Protocol whose tools are tools of haft: see [MCP servers](mcp-servers.md). A wrong value leaves the server out.",
}

FORMS: dict[str, str] = {
    "daemon.cgroup": "`auto`, `off` or a path",
    "websocket.hosts": "array of strings",
    "inquiry.llm.provider": "`openai`, `anthropic`, `google` or `ollama`",
    "inquiry.static.<tool>.<question>": "a string, a number, `true` or `false`",
    "mcp.<name>.command": "a string, or an array of strings",
    "mcp.<name>.args": "array of strings",
    "mcp.<name>.env": "table of strings and `true`",
    "mcp.<name>.cwd": "an absolute path, or `~/…`",
    "mcp.<name>.url": "`https://…`; `http://` on this machine",
    "mcp.<name>.headers": "table of strings",
    "mcp.<name>.tools": "`all`, or an array of strings",
}
"""Of the keys whose values are checked by more than a bound."""

UNITS = {"_s": "seconds", "_ms": "milliseconds"}
_BYTES = {"daemon.max_message", "daemon.max_queued", "spool.memory", "spool.disk", "spool.total"}


def configuration(text: str) -> str:
    """Return the page with its generated part renewed."""
    return f"{text.partition(BEGIN)[0]}{BEGIN}\n\n" + "\n".join(_lines())


def undescribed() -> set[str]:
    """The keys without a meaning, and the meanings without a key."""
    return {f"{section}.{key}" for section, keys in _sections() for key, *_ in keys} ^ set(MEANINGS)


_Key = tuple[str, Reader | None, Any]


def _sections() -> Iterator[tuple[str, list[_Key]]]:
    """Yield each section with its keys: name, decoder, default."""
    settings = Settings()
    shown = {"websocket": WebSocketSettings(port=0)}
    for section, readers in KEYS.items():
        values = shown.get(section) or getattr(settings, section)
        own: list[_Key] = [
            (key, reader, None if key == "port" else getattr(values, key))
            for key, reader in readers.items()
            if section != "inquiry" or key == "backends"
        ]
        yield section, own
        if section == "inquiry":
            yield "inquiry.command", _keys(COMMAND, InquiryCommand)
            yield "inquiry.llm", _keys(LLM, LlmSettings)
            yield "inquiry.static", [("<tool>.<question>", None, None)]
    yield "mcp.<name>", _keys(MCP, McpServer)


def _keys(readers: Mapping[str, Reader | None], kind: type[msgspec.Struct]) -> list[_Key]:
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    return [(key, reader, defaults[key]) for key, reader in readers.items()]


def _lines() -> Iterator[str]:
    for section, keys in _sections():
        yield f"## `[{section}]`\n"
        if SECTIONS[section]:
            yield f"{SECTIONS[section]}\n"
        yield "| key | value | default | meaning |"
        yield "| --- | --- | --- | --- |"
        for key, reader, default in keys:
            name = f"{section}.{key}"
            row = (f"`{key}`", _form(name, reader), _default(name, default), MEANINGS.get(name, ""))
            yield f"| {' | '.join(row)} |"
        yield ""


def _form(name: str, reader: Reader | None) -> str:
    """Return the form of a value, with unit and bounds."""
    form = FORMS.get(name) or getattr(reader, "form", "")
    unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
    return f"{unit}, {form}" if unit and form else form or unit or "string"


def _default(name: str, default: Any) -> str:
    if default is None or default is msgspec.NODEFAULT or default in ("", {}):
        return ""
    if name in _BYTES:
        mib, gib = default >> 20, default >> 30
        return f'`"{gib} GiB"`' if gib else f'`"{mib} MiB"`'
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return f"`{msgspec.json.encode(default).decode().replace(',', ', ')}`"
