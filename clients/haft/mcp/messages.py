"""Messages of the Model Context Protocol; for eras see `haft_protocol.mcp`.

A message is decoded once, its params by the method.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from haft_protocol.mcp import INVALID_PARAMS, INVALID_REQUEST, META_PREFIX, PARSE_ERROR, Message

Id = int | str


class Fault(Exception):
    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Elicitation(msgspec.Struct, frozen=True):
    """A client's modes of elicitation; neither means forms."""

    form: dict[str, Any] | UnsetType = UNSET
    url: dict[str, Any] | UnsetType = UNSET


class Capabilities(msgspec.Struct, frozen=True):
    elicitation: Elicitation | UnsetType | None = UNSET
    roots: dict[str, Any] | UnsetType | None = UNSET

    @property
    def takes_forms(self) -> bool:
        """True if the client can show its user a form."""
        if not isinstance(self.elicitation, Elicitation):
            return False
        return self.elicitation.form is not UNSET or self.elicitation.url is UNSET


class Meta(msgspec.Struct, frozen=True):
    version: str | UnsetType = field(default=UNSET, name=f"{META_PREFIX}protocolVersion")
    capabilities: Capabilities | UnsetType = field(
        default=UNSET, name=f"{META_PREFIX}clientCapabilities"
    )
    progress_token: int | str | UnsetType = field(default=UNSET, name="progressToken")


class ListParams(msgspec.Struct, frozen=True):
    meta: Meta = field(default=Meta(), name="_meta")
    cursor: str | UnsetType | None = UNSET


class ElicitResult(msgspec.Struct, frozen=True):
    action: str = ""
    content: dict[str, Any] | UnsetType | None = UNSET


class CallParams(msgspec.Struct, frozen=True):
    name: str
    meta: Meta = field(default=Meta(), name="_meta")
    arguments: dict[str, Any] | str | None = None
    responses: dict[str, ElicitResult] | UnsetType = field(default=UNSET, name="inputResponses")
    state: str | UnsetType = field(default=UNSET, name="requestState")


class ReadParams(msgspec.Struct, frozen=True):
    """Params of `resources/read`, `resources/subscribe` and `resources/unsubscribe`."""

    uri: str
    meta: Meta = field(default=Meta(), name="_meta")


class Listened(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    tools_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()


class ListenParams(msgspec.Struct, frozen=True):
    notifications: Listened
    meta: Meta = field(default=Meta(), name="_meta")


class InitializeParams(msgspec.Struct, frozen=True, rename="camel"):
    protocol_version: str = ""
    capabilities: Capabilities = Capabilities()


class _CancelledParams(msgspec.Struct, frozen=True, rename="camel"):
    request_id: int | str | UnsetType = UNSET


class _WithMeta(msgspec.Struct, frozen=True):
    meta: Meta | UnsetType = field(default=UNSET, name="_meta")


_CANCELLED = msgspec.json.Decoder(_CancelledParams)
_MESSAGE = msgspec.json.Decoder(Message)
_META = msgspec.json.Decoder(_WithMeta)
_ENCODER = msgspec.json.Encoder()


def read(line: bytes) -> tuple[Message, Meta | UnsetType]:
    """Decode a line and the `_meta` of its params; raise `Fault`."""
    try:
        message = _MESSAGE.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        is_json = isinstance(fault, msgspec.ValidationError)
        raise Fault(
            INVALID_REQUEST if is_json else PARSE_ERROR,
            "This is not a JSON-RPC message." if is_json else "This line is not valid JSON.",
        ) from None
    if message.jsonrpc != "2.0" or (message.id is None and isinstance(message.method, str)):
        raise Fault(INVALID_REQUEST, "This is not a JSON-RPC 2.0 message.")
    if isinstance(message.method, UnsetType):
        return message, UNSET
    return message, read_params(message.params, _META).meta


_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def with_whole_characters(line: bytes) -> bytes | None:
    """Replace each half of a surrogate pair by `?`: hosts in JavaScript write one for a cut emoji.
    None for a line with another fault."""
    if not _HALF.search(line):
        return None
    import json

    try:
        text = json.dumps(json.loads(line), ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    whole = text.encode("utf-8", "replace")
    return None if _HALF.search(whole) else whole


def read_params(params: Raw, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise Fault(INVALID_PARAMS, f"The params are wrong: {fault}.") from None


def cancelled_id(params: Raw) -> Id | None:
    """Return the id of a notification's cancelled request."""
    try:
        id: int | str | UnsetType = read_params(params, _CANCELLED).request_id
    except Fault:
        return None
    return None if isinstance(id, UnsetType) else id


def encode(message: object) -> bytes:
    return _ENCODER.encode(message) + b"\n"
