"""`[inquiry]`: the backends that answer inquiries.

Files hold the location of a provider's key, never the key. An invalid backend is not used and
reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args
from urllib.parse import urlsplit

import msgspec

from haft_protocol.methods import Problem
from haft_protocol.questions import Answer
from haftd.tools.definitions.parameters import InvalidField

from .values import Reader, is_loopback, number, read_table, strings, text

ProviderName = Literal["openai", "anthropic", "google", "ollama"]


class _ProviderEndpoint(msgspec.Struct, frozen=True):
    """URL of a provider, and the key's usual environment variable."""

    url: str
    key_env: str | None


_ENDPOINTS: dict[str, _ProviderEndpoint] = {
    "openai": _ProviderEndpoint("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": _ProviderEndpoint("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "google": _ProviderEndpoint(
        "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"
    ),
    "ollama": _ProviderEndpoint("http://127.0.0.1:11434", None),
}


class InquiryCommand(msgspec.Struct, frozen=True, kw_only=True):
    """`[inquiry.command]`: the answering program, and its time limit."""

    argv: tuple[str, ...]
    timeout_s: float = 600.0


class LlmSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[inquiry.llm]`: the answering model."""

    provider: ProviderName
    model: str
    url: str
    is_default_url: bool
    """True if `url` is the provider's default."""
    key_env: str | None = None
    """Environment variable with the key, unless `key_file` has it; neither if no key is needed."""
    key_file: str | None = None
    timeout_s: float = 120.0
    """Limit of one request, up to the reply's last byte."""
    attempts: int = 4
    """How often one request is sent at most."""
    max_tokens: int | None = None
    system: str = ""
    gather_ms: int = 100
    """How long a question waits for others of its session, to share one request."""


class InquirySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[inquiry]`: the backends in their order."""

    backends: tuple[str, ...] = ("client",)
    command: InquiryCommand | None = None
    """Settings of backend `command`."""
    llm: LlmSettings | None = None
    """Settings of backend `llm`."""
    static: Mapping[str, Mapping[str, Answer]] = {}
    """Answers of backend `static`, by tool and question."""


COMMAND: dict[str, Reader] = {
    "argv": strings(),
    "timeout_s": number(0.01, 86_400, whole=False),
}


def _read_command(value: object) -> InquiryCommand:
    if not isinstance(value, dict):
        raise InvalidField((), "it must be a table of `argv` and `timeout_s`")
    fields = read_table(value, COMMAND)
    if "argv" not in fields:
        raise InvalidField((), "`argv` is missing")
    if not fields["argv"]:
        raise InvalidField(("argv",), "it does not name a program")
    return InquiryCommand(**fields)


def _read_answers(value: object) -> dict[str, dict[str, Answer]]:
    if not isinstance(value, dict):
        raise InvalidField((), "it must be a table of tools")
    for tool, answers in value.items():
        if not isinstance(answers, dict):
            raise InvalidField((tool,), "it must be a table of questions and answers")
        for question, answer in answers.items():
            if not isinstance(answer, bool | int | float | str):
                raise InvalidField(
                    (tool, question), "an answer is a string, a number, true or false"
                )
    return value


def _read_provider(value: object) -> str:
    if value not in get_args(ProviderName):
        raise InvalidField((), f"it must be one of {', '.join(get_args(ProviderName))}")
    return str(value)


def _read_url(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]{1,1000}", value):
        raise InvalidField((), "it must be a URL")
    try:
        parts = urlsplit(value)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise InvalidField((), "it must begin with https:// or http:// and name a host")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise InvalidField(
            (), "it must have no user, password, `?` or `#`: name the key with `key_env`"
        )
    return value.rstrip("/")


_MODEL_KEYS: dict[str, Reader] = {
    "model": text(r"[^\s\x00-\x1f\x7f]{1,200}", "the name of a model"),
    "timeout_s": number(0.01, 3_600, whole=False),
    "attempts": number(1, 20),
    "max_tokens": number(1, 10_000_000),
    "system": text(r"(?s).*", "a string"),
}
"""Keys that a tool's definition may override."""
LLM: dict[str, Reader] = {
    "provider": _read_provider,
    "url": _read_url,
    "key_env": text(
        r"[A-Za-z_][A-Za-z0-9_]{0,200}", "the name of an environment variable, not the key itself"
    ),
    "key_file": text(r"/[^\0]*", "the absolute path of a file, not the key itself"),
    "gather_ms": number(0, 60_000),
    **_MODEL_KEYS,
}


def read_model_settings(value: Mapping[str, object], settings: LlmSettings) -> LlmSettings:
    """Return `settings` with the model keys that a definition's table overrides. Raises
    `InvalidField`."""
    for key in ("url", "key_env", "key_file"):
        if key in value:
            raise InvalidField(
                (key,), "only the configuration may set where a question and a key are sent"
            )
    fields = read_table({key: value[key] for key in _MODEL_KEYS if key in value}, LLM)
    return msgspec.structs.replace(settings, **fields)


def _read_llm(value: object) -> LlmSettings:
    if not isinstance(value, dict):
        raise InvalidField((), "it must be a table with `provider` and `model`")
    if "key" in value or "api_key" in value:
        raise InvalidField(
            (), "a key does not belong in the configuration: use `key_env` or `key_file`"
        )
    fields = read_table(value, LLM)
    for key in ("provider", "model"):
        if key not in fields:
            raise InvalidField((), f"`{key}` is missing")
    endpoint = _ENDPOINTS[fields["provider"]]
    is_default_url = fields.setdefault("url", endpoint.url) == endpoint.url
    if "key_env" in fields and "key_file" in fields:
        raise InvalidField((), "give either `key_env` or `key_file`")
    # The provider's usual key is sent only to the provider's server.
    if is_default_url and "key_file" not in fields:
        fields.setdefault("key_env", endpoint.key_env)
    settings = LlmSettings(**fields, is_default_url=is_default_url)
    if (settings.key_env or settings.key_file) and not _is_confidential(settings.url):
        raise InvalidField(
            ("url",), "a key is sent only over https or to this machine: it must be https://"
        )
    return settings


def _is_confidential(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" or host == "localhost" or is_loopback(host)


INQUIRY: dict[str, Reader] = {
    "backends": strings("client", "command", "static", "llm"),
    "command": _read_command,
    "llm": _read_llm,
    "static": _read_answers,
}
"""Readers by key."""
SECTIONS = frozenset({"command", "llm", "static"})
"""Sections without a default."""

_REQUIRED_SECTIONS = {
    "command": "there is no `[inquiry.command]` with an `argv`",
    "llm": "there is no valid `[inquiry.llm]` with `provider` and `model`",
}


def check_backends(
    settings: InquirySettings, file: str, problems: list[Problem]
) -> InquirySettings:
    """Leave out each backend whose table is missing or wrong, and add a problem for it."""
    for name, why in _REQUIRED_SECTIONS.items():
        if name not in settings.backends or getattr(settings, name) is not None:
            continue
        problems.append(
            Problem(file=file, key="inquiry.backends", message=f"`{name}` is not used: {why}")
        )
        kept = tuple(backend for backend in settings.backends if backend != name)
        settings = msgspec.structs.replace(settings, backends=kept)
    return settings
