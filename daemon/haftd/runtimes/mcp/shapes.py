"""Params and results of MCP, read leniently: missing fields have defaults, unknown fields
are ignored, a malformed tool or block is skipped."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from haft_protocol.mcp import META_PREFIX

Id = int | str


def convert(data: Raw | bytes, kind: type[Any]) -> Any:
    """Decode a part of a message; raises `msgspec.MsgspecError`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from None


class ErrorObject(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""
    data: Any = None


class ServerInfo(msgspec.Struct, frozen=True):
    name: str = ""
    version: str = ""


class ToolsCapability(msgspec.Struct, frozen=True, rename="camel"):
    list_changed: bool | None = None


class ServerCapabilities(msgspec.Struct, frozen=True):
    tools: ToolsCapability | UnsetType | None = UNSET


class _ServerMeta(msgspec.Struct, frozen=True):
    info: ServerInfo = field(default=ServerInfo(), name=f"{META_PREFIX}serverInfo")


class Discovery(msgspec.Struct, frozen=True, rename="camel"):
    """Result of `server/discover`."""

    supported_versions: tuple[str, ...]
    capabilities: ServerCapabilities = ServerCapabilities()
    meta: _ServerMeta = field(default=_ServerMeta(), name="_meta")


class Initialized(msgspec.Struct, frozen=True, rename="camel"):
    """Result of a legacy `initialize`."""

    protocol_version: str
    capabilities: ServerCapabilities = ServerCapabilities()
    server_info: ServerInfo = ServerInfo()


class Annotations(msgspec.Struct, frozen=True, rename="camel"):
    """Hints of a tool; None is the careful default."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class Execution(msgspec.Struct, frozen=True, rename="camel"):
    """Task support of a tool of 2025-11-25."""

    task_support: Literal["forbidden", "optional", "required"] = "forbidden"


class ServerTool(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    title: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] = {}
    annotations: Annotations | None = None
    execution: Execution | None = None


class ToolsPage(msgspec.Struct, frozen=True, rename="camel"):
    """Result of `tools/list`."""

    tools: list[Raw]
    next_cursor: str | None = None


class Resource(msgspec.Struct, frozen=True, rename="camel"):
    uri: str = ""
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class Block(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    name: str = ""
    description: str | None = None
    resource: Resource | None = None


class Elicitation(msgspec.Struct, frozen=True, rename="camel"):
    """Params of `elicitation/create`."""

    message: str = ""
    mode: str = "form"
    requested_schema: dict[str, Any] = {}
    url: str = ""


class InputRequest(msgspec.Struct, frozen=True):
    """Request in an `input_required` result or a task."""

    method: str
    params: Raw = Raw(b"{}")


class LegacyTask(msgspec.Struct, frozen=True, rename="camel"):
    """A task of 2025-11-25."""

    task_id: str
    status: str = "working"
    status_message: str | None = None


class Task(msgspec.Struct, frozen=True, rename="camel"):
    """Task of the tasks extension, in replies to a call and `tasks/get`."""

    task_id: str = ""
    status: str = "working"
    status_message: str | None = None
    poll_interval_ms: float | None = None
    input_requests: dict[str, InputRequest] | None = None
    result: Raw = Raw(b"")
    error: ErrorObject | None = None


class CallResult(msgspec.Struct, frozen=True, rename="camel"):
    """Result of `tools/call`: complete, a question, or a task."""

    content: list[Raw] | None = None
    structured_content: Raw = Raw(b"")
    is_error: bool = False
    result_type: str = "complete"
    input_requests: dict[str, InputRequest] | None = None
    request_state: str | UnsetType | None = UNSET
    task: LegacyTask | UnsetType | None = UNSET


class _Url(msgspec.Struct, frozen=True):
    mode: str = "url"
    message: str = ""
    url: str = ""


class UrlsRequired(msgspec.Struct, frozen=True):
    """Data of the legacy error -32042: addresses to open."""

    elicitations: tuple[_Url, ...] = ()


class Progress(msgspec.Struct, frozen=True, rename="camel"):
    """Params of `notifications/progress`."""

    progress_token: Id
    progress: float = 0
    total: float | None = None
    message: str | None = None
