"""A server's questions as haft's, and the answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from haft_protocol.ellipsis import shorten
from haft_protocol.questions import (
    Answer,
    AnswerType,
    Boolean,
    Choice,
    Form,
    Question,
    Scalar,
    Secret,
    Select,
    Text,
)
from haftd.lazy_pattern import lazy_pattern

from .shapes import Elicitation

_SECRET = lazy_pattern(r"pass(word|phrase|wd)|secret|token|api[_ -]?key|credential|\bpin\b", re.I)
_MAX_TEXT = 4096
_MAX_PROPERTIES = 64
_NONE = "(none)"
"""Choice of no value, for an optional property."""


class Unaskable(ValueError):
    """No question can have this form."""


class WrongValue(ValueError):
    """Value that the property refuses; the message names the accepted values."""


class Step(msgspec.Struct, frozen=True):
    """One question, and the properties that its answer sets."""

    question: Question
    properties: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]

    def content(self, answer: Answer) -> dict[str, Any]:
        """Return the values of the properties. Raises `WrongValue`."""
        if not isinstance(self.question.answer_type, Form):
            ((name, form),) = self.properties.items()
            return dict(self._value(name, form, answer))
        if not isinstance(answer, dict):
            raise AssertionError(f"the answer to a form is a {type(answer).__name__}")
        if len(self.properties) == 1 and _is_list(next(iter(self.properties.values()))):
            ((name, form),) = self.properties.items()
            chosen = [value for value, text in _options(form["items"]) if answer[text] is True]
            return dict(_checked_list(name, form, chosen))
        content: dict[str, Any] = {}
        for name, form in self.properties.items():
            content.update(self._value(name, form, answer[name]))
        return content

    def _value(
        self, name: str, form: Mapping[str, Any], answer: Answer
    ) -> Iterator[tuple[str, Any]]:
        is_left_out = answer in ("", _NONE) and name not in self.required
        kind = form.get("type")
        if is_left_out or answer is None:
            return
        if kind == "boolean":
            yield name, answer
        elif options := _options(form):
            yield name, next(value for value, text in options if text == answer)
        elif kind in ("integer", "number"):
            yield name, _number(name, form, str(answer))
        else:
            yield name, _text(name, form, str(answer))


def url_question(elicitation: Elicitation) -> Question:
    """Return a person's question to open an address, which haftd never opens. Raises `Unaskable`."""
    try:
        parts = urlsplit(elicitation.url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unaskable("it asks to open an address that is not one of the web")
    text = f"{elicitation.message.strip()[:_MAX_TEXT]}\nOpen this address at {parts.hostname}, then answer yes: {elicitation.url}"
    return Question(id="url", text=text.strip(), answer_type=Boolean(), url=elicitation.url)


def steps(elicitation: Elicitation) -> tuple[Step, ...]:
    """Return the questions of a form: one if all properties are choices, else one per property,
    under its name (for `questions.<name>` of a definition). Likely secrets are asked as secrets.
    Raises `Unaskable`."""
    schema = elicitation.requested_schema
    properties = schema.get("properties") or {}
    if not isinstance(properties, dict) or len(properties) > _MAX_PROPERTIES:
        raise Unaskable(f"its form has more than {_MAX_PROPERTIES} properties, or no named ones")
    listed = schema.get("required") or []
    if not isinstance(listed, list):
        raise Unaskable("its form does not list the required properties by name")
    required = frozenset(name for name in listed if isinstance(name, str))
    for name, form in properties.items():
        if not isinstance(form, dict):
            raise Unaskable(f"its property {name!r} has no schema")
    message = shorten(elicitation.message.strip(), _MAX_TEXT)
    if not properties:
        question = Question(id="confirm", text=message or "Go on?", answer_type=Boolean())
        return (Step(question, {}, required),)
    if len(properties) > 1 and all(map(_is_choice, properties.values())):
        fields = {
            name: Choice(_choices(form, name in required), _label(name, form))
            for name, form in properties.items()
        }
        return (
            Step(Question(id="form", text=message, answer_type=Form(fields)), properties, required),
        )
    return tuple(
        Step(
            _question(name, form, message, name in required, alone=len(properties) == 1),
            {name: form},
            required,
        )
        for name, form in properties.items()
    )


def _question(
    name: str, form: Mapping[str, Any], message: str, required: bool, *, alone: bool
) -> Question:
    label = _label(name, form)
    hints = ", ".join(_hints(form)) + (
        "" if required else ("; " if list(_hints(form)) else "") + "may be omitted"
    )
    hint = f" ({hints})" if hints else ""
    text = message + hint if alone and message else f"{message}\n{label}{hint}".strip()
    if alone and message and label not in (name, message):
        text = f"{message}\n{label}{hint}"
    kind = _answer_type(name, form, required)
    default = form.get("default")
    if isinstance(kind, Select):
        default = next((shown for value, shown in _options(form) if value == default), None)
    elif isinstance(kind, Boolean):
        default = default if isinstance(default, bool) else None
    elif isinstance(kind, Text):
        default = None if default is None else str(default)
    else:
        default = None
    return Question(id=name, text=text, answer_type=kind, default=default)


def _answer_type(name: str, form: Mapping[str, Any], required: bool) -> AnswerType:
    if _is_list(form):
        return Form({text: Choice((True, False)) for _, text in _options(form["items"])})
    if form.get("type") == "boolean" and required:
        return Boolean()
    if _is_choice(form):
        return Select(_choices(form, required))
    if _is_secret(name, form):
        return Secret()
    return Text()


def _is_secret(name: str, form: Mapping[str, Any]) -> bool:
    if form.get("type", "string") != "string":
        return False
    texts = (name, str(form.get("title", "")))
    return form.get("format") == "password" or any(map(_SECRET.search, texts))


def _is_list(form: Mapping[str, Any]) -> bool:
    items = form.get("items")
    return form.get("type") == "array" and isinstance(items, dict) and bool(_options(items))


def _is_choice(form: Mapping[str, Any]) -> bool:
    return form.get("type") == "boolean" or bool(_options(form))


def _choices(form: Mapping[str, Any], required: bool) -> tuple[Scalar, ...]:
    options: tuple[Scalar, ...] = tuple(text for _, text in _options(form)) or (True, False)
    return options if required else (*options, _NONE)


def _options(form: Mapping[str, Any]) -> list[tuple[Any, str]]:
    options: list[tuple[Any, str]] = []
    titled = form.get("oneOf") or form.get("anyOf")
    if isinstance(titled, list):
        options = [
            (option["const"], str(option.get("title") or option["const"]))
            for option in titled
            if isinstance(option, dict) and "const" in option
        ]
    elif isinstance(form.get("enum"), list):
        names = form.get("enumNames")
        texts = (
            names if isinstance(names, list) and len(names) == len(form["enum"]) else form["enum"]
        )
        options = [(value, str(text)) for value, text in zip(form["enum"], texts, strict=True)]
    if len({text for _, text in options}) != len(options):
        options = [(value, str(value)) for value, _ in options]
    return options


def _label(name: str, form: Mapping[str, Any]) -> str:
    texts = [str(form[key]).strip() for key in ("title", "description") if form.get(key)]
    return shorten(": ".join(dict.fromkeys(texts)), _MAX_TEXT) or name


def _hints(form: Mapping[str, Any]) -> Iterator[str]:
    kind = form.get("type")
    if _is_choice(form):
        return
    if kind in ("integer", "number"):
        yield "a whole number" if kind == "integer" else "a number"
    for key, words in (
        ("minimum", "at least {}"),
        ("maximum", "at most {}"),
        ("minLength", "at least {} characters"),
        ("maxLength", "at most {} characters"),
        ("minItems", "at least {} of the choices"),
        ("maxItems", "at most {} of the choices"),
    ):
        if key in form:
            yield words.format(form[key])
    if kind == "string" and form.get("format") not in (None, "password"):
        yield str(form["format"])


def _number(name: str, form: Mapping[str, Any], answer: str) -> float:
    try:
        number: float = int(answer) if form["type"] == "integer" else float(answer)
    except ValueError:
        number = float("nan")
    low, high = form.get("minimum", number), form.get("maximum", number)
    if not low <= number <= high or number in (float("inf"), float("-inf")):
        raise WrongValue(f"`{name}` takes {', '.join(_hints(form))}")
    return number


def _text(name: str, form: Mapping[str, Any], answer: str) -> str:
    if not form.get("minLength", 0) <= len(answer) <= form.get("maxLength", len(answer)):
        raise WrongValue(f"`{name}` takes {', '.join(_hints(form))}")
    return answer


def _checked_list(
    name: str, form: Mapping[str, Any], chosen: list[Any]
) -> Iterator[tuple[str, Any]]:
    low, high = form.get("minItems", 0), form.get("maxItems", len(chosen))
    if not low <= len(chosen) <= high:
        raise WrongValue(f"`{name}` takes {', '.join(_hints(form))}")
    yield name, chosen
