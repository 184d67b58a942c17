"""Settings from the configuration files (docs/configuration.md).

A wrong value or unknown key is reported with file, key and line. The default applies; the WebSocket, a
server and a section without a default are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from haft_protocol.errors import shown
from haft_protocol.methods import LimitsResult, Problem
from haftd.lazy_pattern import lazy_pattern
from haftd.tools.catalogue import TOOLPACK
from haftd.tools.definitions.document import (
    Document,
    MissingFile,
    UnreadableFile,
    list_definition_files,
    read,
)
from haftd.tools.definitions.parameters import InvalidField

from .inquiry_settings import INQUIRY, SECTIONS, InquirySettings, check_backends
from .mcp_settings import McpServer, read_server
from .options import ConfigError, Paths
from .values import Reader, explain_unknown, is_loopback, number, size, strings

_MIB = 1024 * 1024


class DaemonSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[daemon]`: sizes in bytes, times in the units of their names."""

    max_message: int = 8 * _MIB
    max_nesting: int = 64
    max_values: int = 100_000
    max_batch: int = 256
    max_connections: int = 256
    max_in_flight: int = 1024
    max_handles_session: int = 256
    max_handles: int = 2048
    max_queued: int = 8 * _MIB
    retain_stopped_s: float = 600.0
    retain_stopped_max: int = 256
    abort_grace_ms: int = 2000
    approval_timeout_s: float = 600.0
    question_timeout_s: float = 600.0
    secret_env: tuple[str, ...] = ("*_TOKEN", "*_KEY", "*_SECRET", "*PASSWORD*")
    cgroup: str = "auto"


class SpoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[spool]`, in bytes: newest output of a handle in memory, on disk, and the total."""

    memory: int = _MIB
    disk: int = 64 * _MIB
    total: int = 2048 * _MIB


class WebSocketSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[websocket]`: enabled by a port (0: any free one)."""

    port: int
    host: str = "127.0.0.1"
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost")


class ToolpackSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[toolpack]`: enabled tools."""

    enable: tuple[str, ...] = TOOLPACK


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration without definitions."""

    daemon: DaemonSettings = DaemonSettings()
    spool: SpoolSettings = SpoolSettings()
    websocket: WebSocketSettings | None = None
    mcp: Mapping[str, McpServer] = {}
    inquiry: InquirySettings = InquirySettings()
    toolpack: ToolpackSettings = ToolpackSettings()

    @property
    def limits(self) -> LimitsResult:
        return LimitsResult(
            **{name: getattr(self.daemon, name) for name in LimitsResult.__struct_fields__}
        )


_MEND = (
    "fix the file, then run `haft reload`, or `haft stop` if haftd has started without its settings"
)


def load_settings(paths: Paths, before: Settings | None = None) -> tuple[Settings, list[Problem]]:
    """Read all configuration files, later ones win. Raises `ConfigError` if a named file is absent.

    The catalogue reports unreadable files, as they define tools; here one is a problem for its
    settings. Beside one, sections and servers of `before` that no readable file has are kept.
    """
    problems: list[Problem] = []
    sections: dict[str, dict[str, Any]] = {}
    files, is_complete = _list_files(paths)
    for path in files:
        try:
            document = read(path)
        except UnreadableFile as error:
            is_config = str(path) == paths.config
            is_complete = is_complete and isinstance(error, MissingFile)
            if is_config and not isinstance(error, MissingFile):
                problems.append(
                    Problem(
                        file=str(path),
                        key="",
                        message=f"its settings are not read: {error.message}",
                        line=msgspec.UNSET if error.line is None else error.line,
                        advice=_MEND,
                    )
                )
            elif is_config and paths.is_config_named:
                raise ConfigError(
                    f"the configuration file {path} cannot be read: {error}"
                ) from None
            continue
        for section, values in _read_sections(document, problems):
            sections.setdefault(section, {}).update(values)
    settings = _make_settings(sections, paths.config, problems)
    if before is not None and not is_complete:
        settings = _complete(settings, sections, before)
    return settings, problems


def _complete(settings: Settings, read: Collection[str], before: Settings) -> Settings:
    kept = {name: getattr(before, name) for name in Settings.__struct_fields__ if name not in read}
    return structs.replace(settings, **{**kept, "mcp": {**before.mcp, **settings.mcp}})


def _list_files(paths: Paths) -> tuple[list[Path], bool]:
    """Return the files, and False if the folder of definitions cannot be read."""
    try:
        return [Path(paths.config), *list_definition_files(Path(paths.tools))], True
    except (OSError, UnreadableFile):
        return [Path(paths.config)], False


def _read_cgroup(value: object) -> str:
    if isinstance(value, str) and (value in ("auto", "off") or value.startswith("/")):
        return value
    raise InvalidField((), f'it is {shown(value)}; it must be "auto", "off" or an absolute path')


def _read_host(value: object) -> str:
    if isinstance(value, str) and (value == "localhost" or is_loopback(value)):
        return value
    raise InvalidField(
        (), f"it is {shown(value)}; the WebSocket listens on a loopback address only"
    )


_HOST_NAME = lazy_pattern(
    r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?|[0-9A-Fa-f:]+"
)


def _read_hosts(value: object) -> tuple[str, ...]:
    names = strings()(value)
    for name in names:
        if not _HOST_NAME.fullmatch(name):
            raise InvalidField((), f"{shown(name)} is not the name of a host")
    return names


_MAX_COUNT = 1_000_000
"""Greatest value of each count, so that a mistyped one is found."""
KEYS: dict[str, dict[str, Reader]] = {
    "daemon": {
        "max_message": size(1024, 1024 * _MIB),
        "max_nesting": number(4, 512),
        "max_values": number(100, 100_000_000),
        "max_batch": number(1, _MAX_COUNT),
        "max_connections": number(1, _MAX_COUNT),
        "max_in_flight": number(1, _MAX_COUNT),
        "max_handles_session": number(1, _MAX_COUNT),
        "max_handles": number(1, _MAX_COUNT),
        "max_queued": size(64 * 1024, 1024 * _MIB),
        "retain_stopped_s": number(0, 31_536_000, whole=False),
        "retain_stopped_max": number(0, _MAX_COUNT),
        "abort_grace_ms": number(0, 600_000),
        "approval_timeout_s": number(0, 31_536_000, whole=False),
        "question_timeout_s": number(0, 31_536_000, whole=False),
        "secret_env": strings(),
        "cgroup": _read_cgroup,
    },
    "spool": {
        "memory": size(4096, 1024 * _MIB),
        "disk": size(0, 2**50),
        "total": size(0, 2**60),
    },
    "websocket": {
        "port": number(0, 65535),
        "host": _read_host,
        "origins": strings(),
        "hosts": _read_hosts,
    },
    "inquiry": INQUIRY,
    "toolpack": {"enable": strings(*TOOLPACK)},
}
_OTHER_SECTIONS = ("tools", "conversation", "mcp")


def _read_sections(document: Document, problems: list[Problem]) -> list[tuple[str, dict[str, Any]]]:
    """Return a file's sections with their valid values; faults go to `problems`."""
    foreign = "conversation" in document.data
    sections = []
    for section, values in document.data.items():
        if section == "mcp":
            sections.append((section, _read_servers(document, values, problems)))
        elif section in KEYS:
            sections.append((section, _read_values(document, section, values, problems)))
        elif section not in _OTHER_SECTIONS and not foreign:
            problems.append(
                document.problem(
                    (section,), explain_unknown(section, (*KEYS, *_OTHER_SECTIONS), "section")
                )
            )
    return sections


def _read_values(
    document: Document, section: str, values: object, problems: list[Problem]
) -> dict[str, Any]:
    """Return the valid values of a section; a fault of `websocket` adds the key `off`."""
    if not isinstance(values, dict):
        problems.append(document.problem((section,), "it must be a table"))
        return {}
    readers = KEYS[section]
    settings: dict[str, Any] = {}
    for key, value in values.items():
        if key not in readers:
            problems.append(
                document.problem((section, key), explain_unknown(key, tuple(readers), "key"))
            )
            continue
        try:
            settings[key] = readers[key](value)
        except InvalidField as wrong:
            path = (section, key, *wrong.path)
            message = f"{wrong.message}; {_explain_fallback(section, key)}"
            problems.append(document.problem(path, message))
            if section == "websocket":
                settings["off"] = True
    return settings


def _explain_fallback(section: str, key: str) -> str:
    if section == "websocket":  # never listen at an unintended address or for unintended origins
        return "the WebSocket stays off"
    if section == "inquiry" and key in SECTIONS:
        return "the section is not used"
    return "the default is used"


def _read_servers(document: Document, values: object, problems: list[Problem]) -> dict[str, Any]:
    if not isinstance(values, dict):
        problems.append(document.problem(("mcp",), "it must be a table of servers"))
        return {}
    servers: dict[str, Any] = {}
    for name, form in values.items():
        try:
            servers[name] = read_server(name, form)
        except InvalidField as wrong:
            message = f"{wrong.message}; the server is not used"
            problems.append(document.problem(("mcp", name, *wrong.path), message))
    return servers


def _make_settings(
    sections: dict[str, dict[str, Any]], file: str, problems: list[Problem]
) -> Settings:
    websocket = dict(sections.get("websocket", {}))
    off = websocket.pop("off", False)
    return Settings(
        daemon=DaemonSettings(**sections.get("daemon", {})),
        spool=SpoolSettings(**sections.get("spool", {})),
        websocket=WebSocketSettings(**websocket) if "port" in websocket and not off else None,
        mcp=sections.get("mcp", {}),
        inquiry=check_backends(InquirySettings(**sections.get("inquiry", {})), file, problems),
        toolpack=ToolpackSettings(**sections.get("toolpack", {})),
    )
