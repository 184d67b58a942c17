"""Envelope of the Model Context Protocol: revisions, error codes, one message.

In the "modern" era (2026-07-28), each request names its revision and the client's capabilities in
`_meta`; "legacy" revisions are opened by `initialize`.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

__all__ = [
    "CANCELLED",
    "HEADER_MISMATCH",
    "INTERNAL",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "LEGACY",
    "META_PREFIX",
    "METHOD_NOT_FOUND",
    "MISSING_CAPABILITY",
    "MODERN",
    "PARSE_ERROR",
    "SERVER_NAME",
    "UNSUPPORTED_VERSION",
    "Message",
]

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Newest first."""

SERVER_NAME = "haft"
"""Name of `haft mcp` as a server; the daemon refuses to be its own client."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
CANCELLED = "notifications/cancelled"
META_PREFIX = "io.modelcontextprotocol/"


class Message(msgspec.Struct, frozen=True):
    """A request, a notification, or a reply."""

    jsonrpc: str = ""
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"{}")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")
