"""The chat completions of OpenAI, and of all that speak as it does.

After https://platform.openai.com/docs/api-reference/chat/create and
https://platform.openai.com/docs/guides/structured-outputs (`response_format`, `refusal`). A message is
`{role, content}` and is never changed. The tools stay, as they are part of what is cached, and
`tool_choice` forbids their use. Elsewhere than at OpenAI's the bound of an answer is `max_tokens`: not
all others know the newer name, and OpenAI's newer models refuse the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from haftd.config.inquiry_settings import LlmSettings

from .conversation import Message, OpenCall
from .provider import Cut, Exchange, Provider, Refused, Reply, Request, Said, dig, items, word

_TOLD = ("system", "developer")


class OpenAI(Provider):
    """The provider `openai`."""

    dialect = "openai"

    def open_calls(self, messages: Sequence[Message]) -> list[OpenCall]:
        """See `provider`."""
        answered = set()
        for message in reversed(messages):
            if message.get("role") == "tool":
                answered.add(word(message.get("tool_call_id")))
                continue
            return [
                OpenCall(call["id"], str(_name(call)))
                for call in items(message.get("tool_calls"))
                if isinstance(dig(call, "id"), str) and call["id"] not in answered
            ]
        return []

    def request(self, settings: LlmSettings, key: str | None, exchange: Exchange) -> Request:
        """See `provider`."""
        said = exchange.conversation
        messages = [
            *self._told(settings, exchange),
            *said.messages,
            *(
                {"role": "tool", "tool_call_id": c.id, "content": text}
                for c, text in exchange.replies
            ),
            *({"role": turn.role, "content": turn.text} for turn in exchange.turns),
        ]
        wanted = {"name": "answer", "strict": True, "schema": exchange.schema}
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": messages,
            "response_format": {"type": "json_schema", "json_schema": wanted},
        }
        if said.tools:
            body |= {"tools": list(said.tools), "tool_choice": "none"}
        if settings.max_tokens is not None:
            bound = "max_completion_tokens" if settings.is_default_url else "max_tokens"
            body[bound] = settings.max_tokens
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return Request("/chat/completions", headers, body)

    def _told(self, settings: LlmSettings, exchange: Exchange) -> list[Message]:
        said = exchange.conversation
        first = said.messages[0].get("role") if said.messages else None
        system = said.system or ("" if first in _TOLD else settings.system)
        return [{"role": "system", "content": system}] if system else []

    def read(self, body: Any) -> Reply | None:
        """See `provider`."""
        message = dig(body, "choices", 0, "message")
        if not isinstance(message, dict):
            return None
        reason = dig(body, "choices", 0, "finish_reason")
        if message.get("refusal") or reason == "content_filter":
            return Refused()
        if reason == "length":
            return Cut()
        text = message.get("content")
        return Said(text if isinstance(text, str) else "")


def _name(call: Any) -> Any:
    return dig(call, "function", "name") or dig(call, "custom", "name") or ""
