"""Recorded conversations, one per provider, in its documented shapes. A file of `recorded/` has
three requests: a host opens the conversation and gets a tool call, the daemon asks the tool's
question, the host goes on with the result. `asks` are the request bodies without tools,
`answers` the replies; `others` and `errors` are alternatives. The call's id, where the
provider gives none, is the host's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from haft_protocol.questions import AnswerType, Boolean
from haftd.config.inquiry_settings import LlmSettings, ProviderName
from haftd.inquiries.pending_inquiry import PendingInquiry
from tests.inquiries.tool_questions import pending

from .request_judges import KEY, WRAPPED
from .scripted_provider import Raw

NAMES: tuple[ProviderName, ...] = ("openai", "anthropic", "google", "ollama")
TOOLS = [
    {
        "name": "modify_file",
        "description": "Change a file by patterns.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": False,
        },
    }
]
_PLACES = {"openai": "/v1", "anthropic": "", "google": "/v1beta", "ollama": ""}


@dataclass(frozen=True)
class Recorded:
    """A provider's conversation."""

    provider: ProviderName
    said: dict[str, Any]

    def reply(self, part: str) -> dict[str, Any]:
        """Return the reply in the conversation, or an alternative."""
        found = self.said["others"].get(part)
        return dict(self.said[part]["answers"] if found is None else found)

    def text(self, text: str) -> dict[str, Any]:
        """Return the reply to the question, with another text."""
        reply = self.reply("inquires")
        match self.provider:
            case "openai":
                return {
                    **reply,
                    "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
                }
            case "anthropic":
                return {**reply, "content": [{"type": "text", "text": text}]}
            case "google":
                parts = [{"text": "I think.", "thought": True}, {"text": text}]
                candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
                return {**reply, "candidates": [candidate]}
            case _:
                return {**reply, "message": {"role": "assistant", "content": text}}

    def error(self, name: str) -> Raw:
        found = self.said["errors"][name]
        return Raw(found["status"], json.dumps(found["body"]).encode(), found.get("headers", {}))

    def asks(self, part: str, tools: Any = None) -> dict[str, Any]:
        """Return the body of a request, with the tools inserted."""
        body = dict(self.said[part]["asks"])
        if tools is None:
            body.pop("tool_choice", None)
        elif part != "inquires" or self.provider in ("openai", "anthropic"):
            body["tools"] = tools
        return body

    def context(self, tools: Any = None) -> dict[str, Any]:
        """Return the host's context of the call: its request, and the reply as one more message."""
        body = self.asks("opens", tools)
        reply = self.said["opens"]["answers"]
        match self.provider:
            case "openai":
                message = reply["choices"][0]["message"]
            case "anthropic":
                message = {"role": "assistant", "content": reply["content"]}
            case "google":
                message = reply["candidates"][0]["content"]
            case _:
                message = reply["message"]
        key = "contents" if self.provider == "google" else "messages"
        return {**body, key: [*body[key], message]}

    def settings(self, url: str, **more: Any) -> LlmSettings:
        """The model at a local server, with the key in the variable `MODEL_KEY`."""
        said = {
            "provider": self.provider,
            "model": self.said["model"],
            "url": url + _PLACES[self.provider],
            "is_default_url": False,
            "key_env": "MODEL_KEY",
        }
        return LlmSettings(**{**said, **more})

    @property
    def environ(self) -> dict[str, str]:
        return {"MODEL_KEY": KEY}

    def pending(
        self,
        answer_type: AnswerType = Boolean(),  # noqa: B008
        context: Any = "its own",
        target: Any = "assistant",
        **question: Any,
    ) -> PendingInquiry:
        """Return the question of the conversation, or another, as open."""
        return pending(
            answer_type,
            self.said["call"],
            tool="modify_file",
            context=self.context(self.wrapped()) if context == "its own" else context,
            target=None if target == "caller" else target,
            **{"id": "backup", "text": "Create backup files?", **question},
        )

    def wrapped(self, tools: Any = None) -> Any:
        """Tools of `tools/list` as this provider's request has them."""
        return WRAPPED[self.provider](TOOLS if tools is None else tools)

    def texts(self, body: dict[str, Any]) -> list[str]:
        """All texts behind the conversation's own messages, in order."""
        key = "contents" if self.provider == "google" else "messages"
        before = len(self.context()[key])
        return list(_texts(body[key][before:]))


def _texts(value: Any) -> list[str]:
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    if isinstance(value, dict):
        keys = ("content", "text", "parts", "functionResponse", "response", "output")
        return [text for key in keys if key in value for text in _texts(value[key])]
    return [value] if isinstance(value, str) else []


@cache
def recorded(provider: ProviderName) -> Recorded:
    """The conversation with this provider."""
    path = Path(__file__).parent / "recorded" / f"{provider}.json"
    return Recorded(provider, json.loads(path.read_text()))
