"""Anthropic's messages: https://platform.claude.com/docs/en/api/messages and
https://platform.claude.com/docs/en/build-with-claude/structured-outputs (`output_config.format`).

Tools are sent, as part of the provider's cache key; `tool_choice` forbids their use.
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

_VERSION = "2023-06-01"
"""The only version of the API that its documentation lists besides `2023-01-01`."""
_DEFAULT_MAX_TOKENS = 4096
"""`max_tokens` is required by the API; an answer needs far less."""


class Anthropic(Provider):
    """Leading messages with the role `system` become the API's `system`, unless the context has one."""

    dialect = "anthropic"

    def find_open_calls(self, messages: Sequence[Message]) -> list[OpenCall]:
        last, answered = len(messages) - 1, set()
        if last >= 0 and _list_results(messages[last]):
            answered = {
                text_or_none(block.get("tool_use_id")) for block in _list_results(messages[last])
            }
            last -= 1
        if last < 0 or messages[last].get("role") != "assistant":
            return []
        return [
            OpenCall(block["id"], str(block.get("name", "")))
            for block in _list_blocks(messages[last], "tool_use")
            if isinstance(block.get("id"), str) and block["id"] not in answered
        ]

    def make_request(self, settings: LlmSettings, key: str | None, exchange: Exchange) -> Request:
        conversation = exchange.conversation
        system, messages = _split_system(conversation.system, list(conversation.messages))
        body: dict[str, Any] = {
            "model": settings.model,
            "max_tokens": settings.max_tokens or _DEFAULT_MAX_TOKENS,
            "messages": _append_exchange(messages, exchange),
            "output_config": {"format": {"type": "json_schema", "schema": exchange.schema}},
        }
        if system := system or settings.system:
            body["system"] = system
        if conversation.tools:
            body |= {"tools": list(conversation.tools), "tool_choice": {"type": "none"}}
        headers = {"anthropic-version": _VERSION}
        if key is not None:
            headers["x-api-key"] = key
        return Request("/v1/messages", headers, body)

    def read(self, body: Any) -> Reply | None:
        content = value_at(body, "content")
        if not isinstance(content, list):
            return None
        match value_at(body, "stop_reason"):
            case "refusal":
                return Refused()
            case "max_tokens" | "model_context_window_exceeded":
                return Truncated()
        texts = [value_at(block, "text") for block in content if value_at(block, "type") == "text"]
        return ModelText("".join(text for text in texts if isinstance(text, str)))


def _list_blocks(message: Message, kind: str) -> list[dict[str, Any]]:
    return [
        block for block in list_or_empty(message.get("content")) if value_at(block, "type") == kind
    ]


def _list_results(message: Message) -> list[dict[str, Any]]:
    return _list_blocks(message, "tool_result") if message.get("role") == "user" else []


def _split_system(system: Any, messages: list[Message]) -> tuple[Any, list[Message]]:
    """Return the API's `system` and the messages behind those with the role `system`."""
    systems = []
    while messages and messages[0].get("role") == "system":
        systems.append(messages.pop(0).get("content"))
    return system or _join(systems), messages


def _join(contents: list[Any]) -> str | list[Any]:
    """Return the contents as one text, or as blocks if one of them is a list of blocks."""
    texts = [content for content in contents if isinstance(content, str)]
    if not any(isinstance(content, list) for content in contents):
        return "\n\n".join(texts)
    blocks: list[Any] = []
    for content in contents:
        blocks += (
            [{"type": "text", "text": content}] if content in texts else list_or_empty(content)
        )
    return blocks


def _append_exchange(messages: list[Message], exchange: Exchange) -> list[Message]:
    """Append tool results and turns; a turn's results must all be in the next message, before any text."""
    added: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": call.id, "content": text}
        for call, text in exchange.replies
    ]
    if added and _list_results(messages[-1]):
        last = messages.pop()
        results = _list_results(last)
        rest = [block for block in last["content"] if block not in results]
        messages.append({**last, "content": [*results, *added, *rest]})
    elif added:
        messages.append({"role": "user", "content": added})
    for turn in exchange.turns:
        block = {"type": "text", "text": turn.text}
        last = messages[-1] if messages else {}
        if turn.role == "user" and last.get("role") == "user" and added:
            # A separate message would part the question from the results.
            messages[-1] = {**last, "content": [*last["content"], block]}
            added = []
        else:
            messages.append({"role": turn.role, "content": [block]})
    return messages
