"""Interface between a question to a model and a provider's API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from haftd.config.inquiry_settings import LlmSettings
from haftd.redacted import Redacted
from haftd.schemas import PROVIDERS, translate

from .conversation import Conversation, Message, OpenCall


class Turn(Redacted, frozen=True):
    """Text after the conversation: the question, a wrong answer, or its fault."""

    UNSHOWN: ClassVar[tuple[str, ...]] = ("text",)

    role: str
    """`user` or `assistant`."""
    text: str


class Exchange(msgspec.Struct, frozen=True):
    """Content of a request. `replies` covers all open calls, as no provider accepts open ones."""

    conversation: Conversation
    replies: tuple[tuple[OpenCall, str], ...]
    turns: tuple[Turn, ...]
    schema: dict[str, Any]
    """Schema of the answer, in the provider's dialect."""


class Request(Redacted, frozen=True):
    """POST under the provider's URL. A key is in a header, never in the path."""

    UNSHOWN: ClassVar[tuple[str, ...]] = (
        "headers",
        "body",
    )

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class ModelText(Redacted, frozen=True):
    """The model's text, perhaps empty."""

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

    def open_calls(self, messages: Sequence[Message]) -> list[OpenCall]:
        """Return the unanswered calls at the conversation's end."""

    def request(self, settings: LlmSettings, key: str | None, exchange: Exchange) -> Request: ...

    def read(self, body: Any) -> Reply | None:
        """Return the model's reply; None for a body outside this API."""


def fit(schema: dict[str, Any], dialect: str) -> dict[str, Any]:
    """Return an answer's schema in a provider's dialect. Raises `UnsupportedSchema`."""
    return translate("", schema, PROVIDERS[dialect]).parameters


def dig(value: Any, *path: str | int) -> Any:
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def word(value: Any) -> str | None:
    return value if isinstance(value, str) else None
