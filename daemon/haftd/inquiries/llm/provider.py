"""The seam between a question to a model and the API that a provider has for it.

Rules: a provider is pure. It says which calls are open, builds a request, and reads what came back; it
sends nothing and knows no file, no clock. What it cannot read in a reply is `None`, never an error.
The key is in a header, never in the URL, and in no `repr`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from haftd.config.inquiry_settings import LlmSettings
from haftd.schemas import PROVIDERS, translate

from .conversation import Conversation, Message, OpenCall


@dataclass(frozen=True, slots=True)
class Turn:
    """One text besides the conversation: the question, a wrong answer, what was wrong with it."""

    role: str
    """`user` or `assistant`."""
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a request is made of. `replies` are for the calls that are open, all of them: no provider
    takes a conversation that goes on without."""

    conversation: Conversation
    replies: tuple[tuple[OpenCall, str], ...]
    turns: tuple[Turn, ...]
    schema: dict[str, Any]
    """Of the answer, in the provider's words."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request: POST this to the provider's URL with this path behind it."""

    path: str
    headers: dict[str, str] = field(repr=False)
    body: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Said:
    """The model's text, perhaps none."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The model, or its provider, does not answer this."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The answer ended before it was whole: too many tokens."""


Reply = Said | Refused | Cut


class Provider(Protocol):
    """One API."""

    dialect: str
    """The name of its dialect among `haftd.schemas.PROVIDERS`."""

    def open_calls(self, messages: Sequence[Message]) -> list[OpenCall]:
        """The calls at the end of the conversation that nobody has replied to."""

    def request(self, settings: LlmSettings, key: str | None, exchange: Exchange) -> Request:
        """Put the exchange into one request."""

    def read(self, body: Any) -> Reply | None:
        """What the model said, or None where that is no reply of this API."""


def fit(schema: dict[str, Any], dialect: str) -> dict[str, Any]:
    """The schema of an answer in a provider's words; raises `UnsupportedSchema`. What `const` says is an
    `enum` of one value there, which every provider takes."""
    return translate("", schema, PROVIDERS[dialect]).parameters


def dig(value: Any, *path: str | int) -> Any:
    """What is at the path, or None where it leads nowhere."""
    for step in path:
        if isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        elif isinstance(step, int) and isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def items(value: Any) -> list[Any]:
    """The value where it is a list, else none."""
    return value if isinstance(value, list) else []


def word(value: Any) -> str | None:
    """The value where it is a text, else None."""
    return value if isinstance(value, str) else None
