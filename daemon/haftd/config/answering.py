"""`[inquiry]`: who answers the questions of tools.

Rules: a key of a provider is never in the configuration, only where it is; no message here shows what
stands in its place, it may be one. A key goes over TLS or to this machine, nowhere else. A backend
whose section is wrong or missing is left out, and named as a problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from haft_protocol.methods import Problem
from haft_protocol.questions import Answer
from haftd.tools.fields import Wrong

from .loopback import is_loopback
from .values import Reader, number, texts, unknown

__all__ = [
    "INQUIRY",
    "SECTIONS",
    "InquiryCommand",
    "InquirySettings",
    "LlmSettings",
    "ProviderName",
    "check_backends",
    "read_model_settings",
]

ProviderName = Literal["openai", "anthropic", "google", "ollama"]


class _Place(msgspec.Struct, frozen=True):
    """Where a provider is, and the name under which its key usually stands in the environment."""

    url: str
    key_env: str | None


_PLACES: dict[str, _Place] = {
    "openai": _Place("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": _Place("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "google": _Place("https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"),
    "ollama": _Place("http://127.0.0.1:11434", None),
}


class InquiryCommand(msgspec.Struct, frozen=True, kw_only=True):
    """`[inquiry.command]`: the program that answers, and for how many seconds it may think."""

    argv: tuple[str, ...]
    timeout_s: float = 600.0


class LlmSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[inquiry.llm]`: the model that answers. Its key is in the variable `key_env` or the file
    `key_file`, or it has none; `is_own_place` says that `url` is the provider's own."""

    provider: ProviderName
    model: str
    url: str
    is_own_place: bool
    key_env: str | None = None
    key_file: str | None = None
    timeout_s: float = 120.0
    """For one request, from its beginning to the last byte of its reply."""
    attempts: int = 4
    """How often one request is sent at most."""
    max_tokens: int | None = None
    system: str = ""


class InquirySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[inquiry]`: who answers questions, in order."""

    backends: tuple[str, ...] = ("client",)
    command: InquiryCommand | None = None
    """For the backend `command`."""
    llm: LlmSettings | None = None
    """For the backend `llm`."""
    static: Mapping[str, Mapping[str, Answer]] = {}
    """Answers by tool and question, for the backend `static`."""


COMMAND: dict[str, Reader] = {
    "argv": texts(),
    "timeout_s": number(0.01, 86_400, whole=False),
}


def _inquiry_command(value: object) -> InquiryCommand:
    if not isinstance(value, dict):
        raise Wrong((), "it must be a table of `argv` and `timeout_s`")
    if strange := sorted(set(value) - set(COMMAND)):
        raise Wrong((), unknown(strange[0], tuple(COMMAND), "key"))
    if "argv" not in value:
        raise Wrong((), "`argv` is missing")
    found = _read(value, COMMAND)
    if not found["argv"]:
        raise Wrong(("argv",), "it names no program")
    return InquiryCommand(**found)


def _answers(value: object) -> dict[str, dict[str, Answer]]:
    if not isinstance(value, dict):
        raise Wrong((), "it must be a table of tools")
    for tool, answers in value.items():
        if not isinstance(answers, dict):
            raise Wrong((tool,), "it must be a table of questions and answers")
        for question, answer in answers.items():
            if not isinstance(answer, bool | int | float | str):
                raise Wrong((tool, question), "an answer is a text, a number, true or false")
    return value


def _provider(value: object) -> str:
    if value not in get_args(ProviderName):
        raise Wrong((), f"it must be one of {', '.join(get_args(ProviderName))}")
    return str(value)


def _model(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(r"[^\s\x00-\x1f\x7f]{1,200}", value):
        return value
    raise Wrong((), "it must be the name of a model")


def _url(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[\x21-\x7e]{1,1000}", value):
        raise Wrong((), "it must be a URL")
    try:
        parts = urlsplit(value)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise Wrong((), "it must begin with https:// or http:// and name a host")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise Wrong((), "it must be without user, password, `?` and `#`: name the key by `key_env`")
    return value.rstrip("/")


def _key_env(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,200}", value):
        return value
    raise Wrong((), "it must be the name of an environment variable, not the key itself")


def _key_file(value: object) -> str:
    if isinstance(value, str) and value.startswith("/") and "\0" not in value:
        return value
    raise Wrong((), "it must be the absolute path of a file, not the key itself")


def _system(value: object) -> str:
    if isinstance(value, str):
        return value
    raise Wrong((), "it must be a text")


_OF_MODEL: dict[str, Reader] = {
    "model": _model,
    "timeout_s": number(0.01, 3_600, whole=False),
    "attempts": number(1, 20),
    "max_tokens": number(1, 10_000_000),
    "system": _system,
}
"""What the definition of a tool may set for its question, too."""
LLM: dict[str, Reader] = {
    "provider": _provider,
    "url": _url,
    "key_env": _key_env,
    "key_file": _key_file,
    **_OF_MODEL,
}


def read_model_settings(value: Mapping[str, object], said: LlmSettings) -> LlmSettings:
    """`said` with what a definition's table sets besides; other keys are for others. Raises `Wrong`."""
    for key in ("url", "key_env", "key_file"):
        if key in value:
            raise Wrong((key,), "only the configuration says where a question and a key go")
    found = _read({key: value[key] for key in _OF_MODEL if key in value}, LLM)
    return msgspec.structs.replace(said, **found)


def _read(value: Mapping[str, object], readers: Mapping[str, Reader]) -> dict[str, Any]:
    found = {}
    for key, given in value.items():
        try:
            found[key] = readers[key](given)
        except Wrong as wrong:
            raise Wrong((key, *wrong.path), wrong.message) from None
    return found


def _llm(value: object) -> LlmSettings:
    if not isinstance(value, dict):
        raise Wrong((), "it must be a table with `provider` and `model`")
    if "key" in value or "api_key" in value:
        raise Wrong((), "a key does not belong into the configuration: use `key_env` or `key_file`")
    if strange := sorted(set(value) - set(LLM)):
        raise Wrong((strange[0],), unknown(strange[0], tuple(LLM), "key"))
    for key in ("provider", "model"):
        if key not in value:
            raise Wrong((), f"`{key}` is missing")
    found = _read(value, LLM)
    place = _PLACES[found["provider"]]
    is_own = found.setdefault("url", place.url) == place.url
    if "key_env" in found and "key_file" in found:
        raise Wrong((), "give either `key_env` or `key_file`")
    if is_own and "key_file" not in found:
        found.setdefault("key_env", place.key_env)
    said = LlmSettings(**found, is_own_place=is_own)
    if (said.key_env or said.key_file) and not _keeps(said.url):
        raise Wrong(("url",), "a key goes over https, or to this machine: it must be https://")
    return said


def _keeps(url: str) -> bool:
    """Whether nobody on the way can read what is sent."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" or host == "localhost" or is_loopback(host)


INQUIRY: dict[str, Reader] = {
    "backends": texts("client", "command", "static", "llm"),
    "command": _inquiry_command,
    "llm": _llm,
    "static": _answers,
}
"""The keys of the section."""
SECTIONS = frozenset({"command", "llm", "static"})
"""Those that are sections themselves, and have no default."""

_NEEDED = {
    "command": "there is no `[inquiry.command]` with an `argv`",
    "llm": "there is no right `[inquiry.llm]` with `provider` and `model`",
}


def check_backends(said: InquirySettings, file: str, problems: list[Problem]) -> InquirySettings:
    """Leave out who is named and has no section; each is a problem."""
    for name, why in _NEEDED.items():
        if name not in said.backends or getattr(said, name) is not None:
            continue
        problems.append(
            Problem(file=file, key="inquiry.backends", message=f"`{name}` is left out: {why}")
        )
        kept = tuple(one for one in said.backends if one != name)
        said = msgspec.structs.replace(said, backends=kept)
    return said
