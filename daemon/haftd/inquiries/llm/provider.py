"""Interface between a question to a model and a provider's API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from haftd.config.inquiry_settings import LlmSettings
from haftd.schemas import PROVIDERS, translate

from .conversation import Conversation, Message, OpenCall


@dataclass(frozen=True, slots=True)
class Turn:
    """A text after the conversation: the question, a wrong answer, or its fault."""

    role: str
    """`user` or `assistant`."""
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The content of a request. `replies` covers all open calls, as no provider accepts open ones."""

    conversation: Conversation
    replies: tuple[tuple[OpenCall, str], ...]
    turns: tuple[Turn, ...]
    schema: dict[str, Any]
    """Schema of the answer, in the provider's dialect."""


@dataclass(frozen=True, slots=True)
class Request:
    """A POST under the provider's URL. A key is in a header, never in the path."""

    path: str
    headers: dict[str, str] = field(repr=False)
    body: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ModelText:
    """The model's text, perhaps empty."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The model or its provider refuses to answer."""


@dataclass(frozen=True, slots=True)
class Truncated:
    """The token limit truncated the answer."""


Reply = ModelText | Refused | Truncated


class Provider(Protocol):
    """A provider's API, without I/O."""

    dialect: str
    """Key in `haftd.schemas.PROVIDERS`."""

    def open_calls(self, messages: Sequence[Message]) -> list[OpenCall]:
        """Return the calls at the end of the conversation without a reply."""

    def request(self, settings: LlmSettings, key: str | None, exchange: Exchange) -> Request:
        """Build the request of an exchange."""

    def read(self, body: Any) -> Reply | None:
        """Return the model's reply; None for a body that this API does not have."""


def fit(schema: dict[str, Any], dialect: str) -> dict[str, Any]:
    """Return the schema of an answer in a provider's dialect. Raises `UnsupportedSchema`."""
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
