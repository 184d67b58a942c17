"""Interface between a question to a model and a provider's API; the conversation in the `context`
of a `tools/call`, passed unchanged for the provider's cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec import UNSET

from haftd.config.inquiry_settings import LlmSettings
from haftd.redaction import Redacted
from haftd.schemas import PROVIDERS, expose_names, translate

Message = dict[str, Any]

_MESSAGES = ("messages", "contents")
_SYSTEM = ("system", "systemInstruction", "system_instruction")


class NoConversation(ValueError):
    """The context is not a conversation; the argument describes the fault."""


class Conversation(Redacted, frozen=True):
    UNSHOWN: ClassVar[tuple[str, ...]] = ("messages", "system", "tools")
    messages: tuple[Message, ...] = ()
    system: Any = None
    tools: tuple[Any, ...] = ()


class OpenCall(msgspec.Struct, frozen=True):
    """Call of the model's last turn without a reply; some providers give no id."""

    id: str | None
    name: str


def has_no_conversation(context: object) -> bool:
    """True if the context is absent, or has only `vars`, which are for the tool."""
    has_only_vars = isinstance(context, dict) and context.keys() == {"vars"}
    return context is UNSET or context is None or has_only_vars


def read_context(context: object) -> Conversation:
    """Return the conversation: of a list of messages, or of a request body with `messages` or
    `contents`, system prompt and `tools`; empty without a context. Raises `NoConversation`."""
    if has_no_conversation(context):
        return Conversation()
    if isinstance(context, list):
        return Conversation(_read_messages(context))
    if not isinstance(context, dict) or not any(key in context for key in _MESSAGES):
        raise NoConversation("the call's context is not an array of messages and has no `messages`")
    tools = context.get("tools") or ()
    if not isinstance(tools, Sequence) or isinstance(tools, str):
        raise NoConversation("`tools` of the call's context is not an array")
    return Conversation(
        _read_messages(_find_first(context, _MESSAGES)), _find_first(context, _SYSTEM), tuple(tools)
    )


def _find_first(context: dict[str, Any], keys: Iterable[str]) -> Any:
    """Return the first value of these keys that is not empty; None if all are."""
    return next((context[key] for key in keys if context.get(key)), None)


def _read_messages(value: object) -> tuple[Message, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise NoConversation("the messages of the call's context are not an array of objects")
    return tuple(value)


def find_paused(calls: Sequence[OpenCall], call_id: str, tool: str) -> OpenCall | None:
    """Return the open call that asks: the one with this id, else the first of this tool, else the
    only one; None if there are several others."""
    for call in calls:
        if call.id == call_id:
            return call
    names = {tool, *expose_names([tool]).values()}
    named = [call for call in calls if call.name in names]
    if named:
        return named[0]
    return calls[0] if len(calls) == 1 else None


class Turn(Redacted, frozen=True):
    """Text after the conversation: the question, a wrong answer, or its fault."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("text",)

    role: str
    """`user` or `assistant`."""
    text: str


class Exchange(msgspec.Struct, frozen=True):
    """Content of a request."""

    conversation: Conversation
    replies: tuple[tuple[OpenCall, str], ...]
    """One for each open call, as no provider accepts open calls."""
    turns: tuple[Turn, ...]
    schema: dict[str, Any]
    """Schema of the answer, in the provider's dialect."""


class Request(Redacted, frozen=True):
    """POST under the provider's URL. A key is in a header, never in the path."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("headers", "body")

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ModelText(Redacted, frozen=True):
    """The model's text; may be empty."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("text",)

    text: str


class Refused(msgspec.Struct, frozen=True):
    """Refusal by the model or its provider."""


class Truncated(msgspec.Struct, frozen=True):
    """The token limit truncated the answer."""


Reply = ModelText | Refused | Truncated


class Provider(Protocol):
    """A provider's API, without I/O."""

    dialect: str

    def find_open_calls(self, messages: Sequence[Message]) -> list[OpenCall]:
        """Return the calls of the model's last turn that no result follows."""

    def make_request(
        self, settings: LlmSettings, key: str | None, exchange: Exchange
    ) -> Request: ...

    def read(self, body: Any) -> Reply | None:
        """Return the model's reply; None for a body outside this API."""


def fit(schema: dict[str, Any], dialect: str) -> dict[str, Any]:
    """Return an answer's schema in a provider's dialect. Raises `UnsupportedSchema`."""
    return translate("", schema, PROVIDERS[dialect]).parameters


def value_at(value: Any, *path: str | int) -> Any:
    """Return the value at a path of keys and indices in decoded JSON; None if there is none."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
