"""OpenAI's chat completions, and compatible servers:
https://platform.openai.com/docs/api-reference/chat/create and
https://platform.openai.com/docs/guides/structured-outputs.

OpenAI's newer models refuse `max_tokens`; some other servers know no `max_completion_tokens`. Tools
are sent, as part of the provider's cache key; `tool_choice` forbids their use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from haftd.config.inquiry_settings import LlmSettings

from .provider import (
    Exchange,
    Message,
    ModelText,
    OpenCall,
    Provider,
    Refused,
    Reply,
    Request,
    Truncated,
    list_or_empty,
    text_or_none,
    value_at,
)

_SYSTEM_ROLES = ("system", "developer")


class OpenAI(Provider):
    dialect = "openai"

    def find_open_calls(self, messages: Sequence[Message]) -> list[OpenCall]:
        answered = set()
        for message in reversed(messages):
            if message.get("role") == "tool":
                answered.add(text_or_none(message.get("tool_call_id")))
                continue
            return [
                OpenCall(call["id"], str(_find_name(call)))
                for call in list_or_empty(message.get("tool_calls"))
                if isinstance(value_at(call, "id"), str) and call["id"] not in answered
            ]
        return []

    def make_request(self, settings: LlmSettings, key: str | None, exchange: Exchange) -> Request:
        conversation = exchange.conversation
        messages = [
            *self._make_system(settings, exchange),
            *conversation.messages,
            *(
                {"role": "tool", "tool_call_id": c.id, "content": text}
                for c, text in exchange.replies
            ),
            *({"role": turn.role, "content": turn.text} for turn in exchange.turns),
        ]
        schema = {"name": "answer", "strict": True, "schema": exchange.schema}
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": messages,
            "response_format": {"type": "json_schema", "json_schema": schema},
        }
        if conversation.tools:
            body |= {"tools": list(conversation.tools), "tool_choice": "none"}
        if settings.max_tokens is not None:
            bound = "max_completion_tokens" if settings.is_default_url else "max_tokens"
            body[bound] = settings.max_tokens
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return Request("/chat/completions", headers, body)

    def _make_system(self, settings: LlmSettings, exchange: Exchange) -> list[Message]:
        conversation = exchange.conversation
        first = conversation.messages[0].get("role") if conversation.messages else None
        system = conversation.system or ("" if first in _SYSTEM_ROLES else settings.system)
        return [{"role": "system", "content": system}] if system else []

    def read(self, body: Any) -> Reply | None:
        message = value_at(body, "choices", 0, "message")
        if not isinstance(message, dict):
            return None
        reason = value_at(body, "choices", 0, "finish_reason")
        if message.get("refusal") or reason == "content_filter":
            return Refused()
        if reason == "length":
            return Truncated()
        text = message.get("content")
        return ModelText(text if isinstance(text, str) else "")


def _find_name(call: Any) -> Any:
    return value_at(call, "function", "name") or value_at(call, "custom", "name") or ""
