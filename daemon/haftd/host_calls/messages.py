"""JSON-RPC messages of host calls, a line each."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

Kind = Literal[
    "invalid",
    "unknown_method",
    "denied",
    "not_found",
    "exists",
    "not_a_file",
    "not_a_folder",
    "not_empty",
    "not_text",
    "too_large",
    "timeout",
    "network",
    "failed",
]
_CODES: dict[str, int] = {"unknown_method": -32601, "invalid": -32602}
_OTHER = -32000  # the first of JSON-RPC's server errors


class HostCallError(Exception):
    """Host call without a result; the message is a sentence."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message


class Request(msgspec.Struct, frozen=True):
    id: int | str
    method: str
    params: Raw = Raw(b"{}")


class _Message(msgspec.Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: str
    params: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Message).decode


def read_request(line: bytes) -> Request | None:
    """Return the request in a line of a tool's output; None for any other line.

    >>> read_request(b'{"jsonrpc": "2.0", "id": 1, "method": "fs.read"}').method
    'fs.read'
    >>> read_request(b'{"type": "running"}') is None
    True
    """
    if b'"method"' not in line:
        return None
    try:
        message = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    params = Raw(b"{}") if isinstance(message.params, UnsetType) else message.params
    return Request(message.id, message.method, params)


def encode_result(id: int | str, result: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": result}) + b"\n"


def encode_error(id: int | str, error: HostCallError) -> bytes:
    body = {
        "code": _CODES.get(error.kind, _OTHER),
        "message": error.message,
        "data": {"kind": error.kind},
    }
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": body}) + b"\n"
