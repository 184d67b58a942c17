"""Judges of requests to a provider, by its documentation alone. Each judge is the provider's
page on its endpoint as code, stricter than the provider where the page is open, and returns
the faults. Tools and answer schemas are judged as in `tests.schemas.provider_judges`. The pages:
https://platform.openai.com/docs/api-reference/chat/create,
https://platform.claude.com/docs/en/api/messages with "Structured outputs" and "Handle tool
calls", https://ai.google.dev/api/generate-content with "Function calling" and "Structured
output", https://github.com/ollama/ollama/blob/main/docs/api.md with "Structured outputs" and
"Tool calling"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.schemas.provider_judges import refusals

from .scripted_provider import Asked

KEY = "canary-0123456789"
"""The key that each local server wants."""

Faults = Iterator[str]


def judge(provider: str, *, key: str | None = KEY) -> Callable[[Asked], list[str]]:
    """Return the provider's objections to a request; `key` is the expected key."""

    def judged(asked: Asked) -> list[str]:
        faults = [] if asked.method == "POST" else [f"method {asked.method}"]
        if asked.headers.get("content-type") != "application/json":
            faults.append("content-type")
        given = asked.headers.get(_KEY_HEADER[provider])
        wanted = None if key is None else _KEY_FORM[provider].format(key)
        if given != wanted:
            faults.append("the key")
        if key is not None and key in asked.path:
            faults.append("the key is in the URL")
        return faults + list(_JUDGES[provider](asked))

    return judged


_KEY_HEADER = {
    "openai": "authorization",
    "anthropic": "x-api-key",
    "google": "x-goog-api-key",
    "ollama": "authorization",
}
_KEY_FORM = {"openai": "Bearer {}", "anthropic": "{}", "google": "{}", "ollama": "Bearer {}"}


def _fields(body: Any, needed: str, known: str) -> Faults:
    if not isinstance(body, dict):
        yield "the body is no object"
        return
    for name in set(needed.split()) - set(body):
        yield f"{name} is missing"
    for name in set(body) - set(needed.split()) - set(known.split()):
        yield f"{name} is not permitted"


def _schema(provider: str, schema: Any) -> Faults:
    """Judge an answer's schema, which takes at least the keywords of a tool's."""
    if not isinstance(schema, dict):
        yield "no schema"
        return
    for fault in refusals(provider, "answer", "An answer.", schema):
        yield f"schema: {fault}"
    if schema.get("properties", {}).get("inquiry_id", {}).get("const") is not None:
        yield "schema: const"


def _tool(provider: str, tool: Any) -> Faults:
    found = _UNWRAPPED[provider](tool)
    for fault in refusals(provider, found["name"], found["description"], found["parameters"]):
        yield f"tool {found['name']}: {fault}"


def _functions(tool: dict[str, Any]) -> dict[str, Any]:
    assert set(tool) == {"type", "function"} and tool["type"] == "function", tool
    return dict(tool["function"])


def _anthropic_tool(tool: dict[str, Any]) -> dict[str, Any]:
    assert set(tool) <= {"name", "description", "input_schema", "cache_control"}, tool
    return {**tool, "parameters": tool["input_schema"]}


_UNWRAPPED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "openai": _functions,
    "anthropic": _anthropic_tool,
    "google": dict,
    "ollama": _functions,
}

Tools = list[dict[str, Any]]


def _named(tools: Tools, *, schema: str = "parameters", **more: Any) -> Tools:
    return [
        {
            "name": tool["name"],
            "description": tool["description"],
            schema: tool["parameters"],
            **more,
        }
        for tool in tools
    ]


WRAPPED: dict[str, Callable[[Tools], Tools]] = {
    "openai": lambda tools: [
        {"type": "function", "function": one} for one in _named(tools, strict=True)
    ],
    "anthropic": lambda tools: _named(tools, schema="input_schema"),
    "google": lambda tools: [{"functionDeclarations": _named(tools)}],
    "ollama": lambda tools: [{"type": "function", "function": one} for one in _named(tools)],
}
"""The `tools` of a request, out of the `tools` of `tools/list`."""


# OpenAI


def _openai(asked: Asked) -> Faults:
    body = asked.body
    if asked.path != "/v1/chat/completions":
        yield f"path {asked.path}"
    yield from _fields(
        body,
        "model messages",
        "tools tool_choice response_format max_completion_tokens max_tokens",
    )
    if "tool_choice" in body and not body.get("tools"):
        yield "tool_choice is only allowed when tools are specified"
    for tool in body.get("tools", ()):
        yield from _tool("openai", tool)
    if (wanted := body.get("response_format")) is not None:
        form = wanted.get("json_schema", {})
        if wanted.get("type") != "json_schema" or form.get("strict") is not True:
            yield "response_format"
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", form.get("name", "")):
            yield "response_format.json_schema.name"
        yield from _schema("openai", form.get("schema"))
    open_: list[str] = []
    for at, message in enumerate(body.get("messages", ())):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in open_:
                yield f"messages[{at}]: not a response to a preceding message with tool_calls"
            else:
                open_.remove(message["tool_call_id"])
            if not isinstance(message.get("content"), str):
                yield f"messages[{at}].content"
            continue
        if open_:
            yield f"messages[{at}]: tool_call_ids did not have response messages: {open_}"
        if role not in ("developer", "system", "user", "assistant"):
            yield f"messages[{at}].role {role!r}"
        calls = message.get("tool_calls") or []
        if not isinstance(message.get("content"), str) and not calls:
            yield f"messages[{at}].content"
        open_ = [call["id"] for call in calls]
    if open_:
        yield f"no response to {open_}"


# Anthropic


def _anthropic(asked: Asked) -> Faults:
    body = asked.body
    if asked.path != "/v1/messages":
        yield f"path {asked.path}"
    if asked.headers.get("anthropic-version") != "2023-06-01":
        yield "anthropic-version"
    yield from _fields(body, "model max_tokens messages", "system tools tool_choice output_config")
    for tool in body.get("tools", ()):
        yield from _tool("anthropic", tool)
    if (config := body.get("output_config")) is not None:
        form = config.get("format", {})
        if set(config) != {"format"} or set(form) != {"type", "schema"}:
            yield "output_config"
        yield from _schema("anthropic", form.get("schema"))
        if form.get("schema", {}).get("additionalProperties") is not False:
            yield "output_config.format.schema: additionalProperties must be false"
    open_: set[str] = set()
    for at, message in enumerate(body.get("messages", ())):
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            yield f"messages.{at}.role"
        if not content:
            yield f"messages.{at}: content must not be empty"
            continue
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [block.get("type") for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        if open_ != set(results) or len(results) != len(set(results)):
            yield f"messages.{at}: tool_use ids {open_} and tool_result {results}"
        if results and kinds[: len(results)] != ["tool_result"] * len(results):
            yield f"messages.{at}: tool_result blocks come first"
        for block in blocks:
            if block.get("type") == "text" and not block.get("text", "").strip():
                yield f"messages.{at}: text content blocks must be non-empty"
        uses = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        open_ = set(uses)
        if uses and "tools" not in body:
            yield "requests which include tool_use blocks must define tools"
    if open_:
        yield f"tool_use ids without tool_result: {open_}"


# Google


def _google(asked: Asked) -> Faults:
    body = asked.body
    if not re.fullmatch(r"/v1beta/models/[A-Za-z0-9.-]+:generateContent", asked.path):
        yield f"path {asked.path}"
    yield from _fields(body, "contents", "systemInstruction tools generationConfig")
    declared = [one for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]
    for tool in declared:
        yield from _tool("google", tool)
    config = body.get("generationConfig", {})
    yield from _fields(config, "", "responseMimeType responseSchema maxOutputTokens")
    if "responseSchema" in config:
        if config.get("responseMimeType") != "application/json":
            yield "responseMimeType"
        if declared:
            yield "Function calling with a response mime type: 'application/json' is unsupported"
        yield from _schema("google", config["responseSchema"])
    system = body.get("systemInstruction", {"parts": [{"text": "x"}]})
    if not all(isinstance(part.get("text"), str) for part in system.get("parts", [{}])):
        yield "systemInstruction"
    calls = 0
    for at, content in enumerate(body.get("contents", ())):
        if set(content) != {"role", "parts"} or content["role"] not in ("user", "model"):
            yield f"contents[{at}]"
            continue
        if not content["parts"]:
            yield f"contents[{at}]: parts must not be empty"
        responses = [part for part in content["parts"] if "functionResponse" in part]
        if len(responses) != calls:
            yield f"contents[{at}]: {calls} function calls and {len(responses)} responses"
        for part in responses:
            if not isinstance(part["functionResponse"].get("response"), dict):
                yield f"contents[{at}]: functionResponse.response"
        calls = sum("functionCall" in part for part in content["parts"])
        if calls and content["role"] != "model":
            yield f"contents[{at}]: a function call of the user"
    if calls:
        yield f"{calls} function calls without a response"


# Ollama


def _ollama(asked: Asked) -> Faults:
    body = asked.body
    if asked.path != "/api/chat":
        yield f"path {asked.path}"
    yield from _fields(body, "model messages stream", "format options tools")
    if body.get("stream") is not False:
        yield "stream"
    for tool in body.get("tools", ()):
        yield from _tool("ollama", tool)
    if "format" in body:
        yield from _schema("ollama", body["format"])
    for at, message in enumerate(body.get("messages", ())):
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            yield f"messages[{at}].role"
        if not isinstance(message.get("content"), str):
            yield f"messages[{at}].content"
        if message.get("role") == "tool" and not message.get("tool_name"):
            yield f"messages[{at}].tool_name"


_JUDGES: dict[str, Callable[[Asked], Faults]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
    "ollama": _ollama,
}
