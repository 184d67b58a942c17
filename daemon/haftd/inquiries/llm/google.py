"""Google's `generateContent`: https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/function-calling.

Tools are left out: most models refuse them beside a JSON answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import compress
from operator import not_
from typing import Any
from urllib.parse import quote

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

_ENDED = (None, "STOP", "FINISH_REASON_UNSPECIFIED")
_RETRIABLE = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER")
"""Finish reasons that another attempt may mend."""


class Google(Provider):
    """A message `{role, content}` with a text becomes `{role, parts}`; with the role `system`, part of
    the system instruction, unless the context has one."""

    dialect = "google"

    def find_open_calls(self, messages: Sequence[Message]) -> list[OpenCall]:
        last = len(messages) - 1
        answered: Counter[tuple[str | None, str | None]] = Counter()
        if last >= 0 and (
            responses := _list_parts(messages[last], "functionResponse", "function_response")
        ):
            answered.update(map(_read_id_and_name, responses))
            last -= 1
        if last < 0 or messages[last].get("role") != "model":
            return []
        calls = []
        for call in _list_parts(messages[last], "functionCall", "function_call"):
            key = _read_id_and_name(call)
            if answered[key] > 0:
                answered[key] -= 1
            else:
                calls.append(OpenCall(key[0], key[1] or ""))
        return calls

    def make_request(self, settings: LlmSettings, key: str | None, exchange: Exchange) -> Request:
        conversation = exchange.conversation
        system, contents = _split_system(conversation.system, conversation.messages)
        config: dict[str, Any] = {
            "responseMimeType": "application/json",
            "responseSchema": exchange.schema,
        }
        if settings.max_tokens is not None:
            config["maxOutputTokens"] = settings.max_tokens
        body: dict[str, Any] = {
            "contents": _append_exchange(contents, exchange),
            "generationConfig": config,
        }
        if system := system or _make_instruction(settings.system):
            body["systemInstruction"] = system
        model = quote(settings.model.removeprefix("models/"), safe="")
        headers = {} if key is None else {"x-goog-api-key": key}
        return Request(f"/models/{model}:generateContent", headers, body)

    def read(self, body: Any) -> Reply | None:
        if value_at(body, "promptFeedback", "blockReason"):
            return Refused()
        candidate = value_at(body, "candidates", 0)
        if not isinstance(candidate, dict):
            return None
        reason = candidate.get("finishReason")
        if reason == "MAX_TOKENS":
            return Truncated()
        if reason in _RETRIABLE:
            return ModelText("")
        if reason not in _ENDED:
            return Refused()
        parts = value_at(candidate, "content", "parts")
        texts = [
            value_at(part, "text") for part in list_or_empty(parts) if not value_at(part, "thought")
        ]
        return ModelText("".join(text for text in texts if isinstance(text, str)))


def _list_parts(content: Message, *names: str) -> list[dict[str, Any]]:
    """Return the calls or responses among the parts, in either spelling of the API."""
    values = [
        value_at(part, name) for part in list_or_empty(content.get("parts")) for name in names
    ]
    return [value for value in values if isinstance(value, dict)]


def _read_id_and_name(part: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return id and name of a call or response, None for each that is missing."""
    return text_or_none(part.get("id")), text_or_none(part.get("name"))


def _make_instruction(text: Any) -> Any:
    return {"parts": [{"text": text}]} if isinstance(text, str) and text else text


def _split_system(system: Any, messages: Sequence[Message]) -> tuple[Any, list[Message]]:
    """Return the system instruction and the other messages in the API's form."""
    is_system = [_is_plain(message) and message["role"] == "system" for message in messages]
    texts = [message["content"] for message in compress(messages, is_system)]
    contents = [_make_content(message) for message in compress(messages, map(not_, is_system))]
    return _make_instruction(system or "\n\n".join(texts)), contents


def _is_plain(message: Message) -> bool:
    return isinstance(message.get("content"), str) and isinstance(message.get("role"), str)


def _make_content(message: Message) -> Message:
    if not _is_plain(message):
        return message
    role = "user" if message["role"] == "user" else "model"
    return {"role": role, "parts": [{"text": message["content"]}]}


def _append_exchange(contents: list[Message], exchange: Exchange) -> list[Message]:
    added = []
    for call, text in exchange.replies:
        response: dict[str, Any] = {"name": call.name, "response": {"output": text}}
        if call.id is not None:
            response["id"] = call.id
        added.append({"functionResponse": response})
    if added and _list_parts(contents[-1], "functionResponse", "function_response"):
        last = contents[-1]
        contents[-1] = {**last, "parts": [*last["parts"], *added]}
    elif added:
        contents.append({"role": "user", "parts": added})
    for turn in exchange.turns:
        role = "user" if turn.role == "user" else "model"
        contents.append({"role": role, "parts": [{"text": turn.text}]})
    return contents
