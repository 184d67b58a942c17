"""Ollama's `/api/chat`: https://docs.ollama.com/api/chat and
https://docs.ollama.com/capabilities/structured-outputs.

Tools are left out: a model may call one instead of keeping to `format`, and the API cannot forbid
that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from haftd.config.inquiry_settings import LlmSettings

from .provider import (
    Exchange,
    Message,
    ModelText,
    OpenCall,
    Provider,
    Reply,
    Request,
    Truncated,
    list_or_empty,
    text_or_none,
    value_at,
)


class Ollama(Provider):
    dialect = "ollama"

    def find_open_calls(self, messages: Sequence[Message]) -> list[OpenCall]:
        answered: Counter[str | None] = Counter()
        for message in reversed(messages):
            if message.get("role") == "tool":
                answered[
                    text_or_none(message.get("tool_call_id"))
                    or text_or_none(message.get("tool_name"))
                ] += 1
                continue
            return [call for call in _list_calls(message) if not _is_answered(call, answered)]
        return []

    def make_request(self, settings: LlmSettings, key: str | None, exchange: Exchange) -> Request:
        conversation = exchange.conversation
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": [
                *_make_system(settings, exchange),
                *conversation.messages,
                *(_make_reply(call, text) for call, text in exchange.replies),
                *({"role": turn.role, "content": turn.text} for turn in exchange.turns),
            ],
            "format": exchange.schema,
            "stream": False,
        }
        if settings.max_tokens is not None:
            body["options"] = {"num_predict": settings.max_tokens}
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        return Request("/api/chat", headers, body)

    def read(self, body: Any) -> Reply | None:
        message = value_at(body, "message")
        if not isinstance(message, dict):
            return None
        if value_at(body, "done_reason") == "length":
            return Truncated()
        text = message.get("content")
        return ModelText(text if isinstance(text, str) else "")


def _list_calls(message: Message) -> list[OpenCall]:
    calls = []
    for call in list_or_empty(message.get("tool_calls")):
        name = text_or_none(value_at(call, "function", "name"))
        if name is not None:
            calls.append(OpenCall(text_or_none(value_at(call, "id")), name))
    return calls


def _is_answered(call: OpenCall, answered: Counter[str | None]) -> bool:
    for key in (call.id, call.name):
        if key is not None and answered[key] > 0:
            answered[key] -= 1
            return True
    return False


def _make_reply(call: OpenCall, text: str) -> Message:
    reply = {"role": "tool", "tool_name": call.name, "content": text}
    return reply if call.id is None else {**reply, "tool_call_id": call.id}


def _make_system(settings: LlmSettings, exchange: Exchange) -> list[Message]:
    conversation = exchange.conversation
    has_own = bool(conversation.messages) and conversation.messages[0].get("role") == "system"
    system = conversation.system or ("" if has_own else settings.system)
    return [{"role": "system", "content": system}] if system else []
