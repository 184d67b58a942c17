"""Questions of a tool and their answers (docs/protocol.md, "Questions").

Both generations of `answer_type` are read (`{"type": "boolean"}` and `"Boolean"`), only the newer
is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

__all__ = [
    "Answer",
    "AnswerType",
    "Boolean",
    "Choice",
    "Form",
    "InvalidAnswer",
    "Question",
    "Scalar",
    "Secret",
    "Select",
    "Text",
    "check_answer",
    "read_question",
    "takes_null",
]

Scalar = bool | int | float | str | None
Answer = Scalar | dict[str, Scalar]


class Boolean(msgspec.Struct, frozen=True, tag="boolean"):
    """Yes or no."""


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A free text."""


class Secret(msgspec.Struct, frozen=True, tag="secret"):
    """A text from a person; never stored, logged or shown to an assistant."""


class Select(msgspec.Struct, frozen=True, tag="select"):
    """One of the options, scalars compared as JSON values (1 is not true)."""

    options: tuple[Scalar, ...]


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of one field, described by `text`."""

    options: tuple[Scalar, ...]
    text: str = ""


class Form(msgspec.Struct, frozen=True, tag="form"):
    """A choice for each of several fields, in one answer: an object with these names."""

    fields: dict[str, Choice]


AnswerType = Boolean | Text | Secret | Select | Form


class Question(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A question that a tool needs answered to continue. `default` is offered, never applied unasked."""

    id: str
    text: str
    answer_type: AnswerType
    pre_amble: str | None = None
    default: Any = None
    url: str | None = None


class InvalidAnswer(ValueError):
    """Answer that does not fit; the message describes a valid answer."""


_MAX_NAMED_FIELDS = 8

_OLD_NAMES: dict[str, AnswerType] = {"Boolean": Boolean(), "Text": Text(), "Secret": Secret()}


def _read_answer_type(form: object) -> AnswerType:
    match form:
        case str() if form in _OLD_NAMES:
            return _OLD_NAMES[form]
        case {"Select": {"options": list(options)}}:
            form = {"type": "select", "options": options}
    answer_type: AnswerType = msgspec.convert(form, AnswerType)
    match answer_type:
        case Select(options=()):
            raise msgspec.ValidationError("a selection has no `options`")
        case Form(fields=fields) if not fields:
            raise msgspec.ValidationError("a form has no `fields`")
        case Form(fields=fields):
            for name, choice in fields.items():
                if not choice.options:
                    raise msgspec.ValidationError(f"the field {name!r} of a form has no `options`")
    return answer_type


def read_question(form: object) -> Question:
    """Read a question of either generation; raise `msgspec.ValidationError`."""
    if not isinstance(form, dict):
        raise msgspec.ValidationError(
            "a question must be an object with `id`, `text` and `answer_type`"
        )
    fields = {k: form[k] for k in ("id", "text", "pre_amble", "default") if k in form}
    if "answer_type" not in form:
        raise msgspec.ValidationError("the question has no `answer_type`")
    try:
        answer_type = _read_answer_type(form["answer_type"])
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"its `answer_type` is wrong: {error}") from None
    return msgspec.convert({**fields, "answer_type": msgspec.to_builtins(answer_type)}, Question)


def _is_equal(value: Scalar, option: Scalar) -> bool:
    return value == option and isinstance(value, bool) == isinstance(option, bool)


def _is_one_of(value: object, options: tuple[Scalar, ...]) -> bool:
    return isinstance(value, Scalar) and any(_is_equal(value, option) for option in options)


def check_answer(question: Question, value: object) -> Answer:
    """Return the answer if it fits `question`, else raise `InvalidAnswer`; nothing is coerced.

    >>> check_answer(Question(id="go", text="Go on?", answer_type=Boolean()), True)
    True
    """
    match question.answer_type:
        case Boolean():
            if isinstance(value, bool):
                return value
            raise InvalidAnswer(f"question {question.id!r} takes true or false")
        case Text() | Secret():
            if isinstance(value, str):
                return value
            raise InvalidAnswer(f"question {question.id!r} takes a string")
        case Select(options=options):
            if isinstance(value, Scalar) and _is_one_of(value, options):
                return value
            raise InvalidAnswer(f"question {question.id!r} takes one of {_listed(options)}")
        case Form(fields=fields):
            return _check_form(question.id, fields, value)


def takes_null(question: Question) -> bool:
    kind = question.answer_type
    return isinstance(kind, Select) and None in kind.options


def _check_form(id: str, fields: dict[str, Choice], value: object) -> Answer:
    if not isinstance(value, dict):
        raise InvalidAnswer(
            f"question {id!r} takes an object with a choice for each of {_listed(fields)}"
        )
    wrong = []
    if missing := [name for name in fields if name not in value]:
        wrong.append(f"missing: {_listed(missing)}")
    if unknown := [name for name in value if name not in fields]:
        wrong.append(f"unknown: {_listed(unknown)}")
    wrong += [
        f"`{name}` takes one of {_listed(choice.options)}"
        for name, choice in fields.items()
        if name in value and not _is_one_of(value[name], choice.options)
    ][:_MAX_NAMED_FIELDS]
    if wrong:
        raise InvalidAnswer(f"question {id!r}: {'; '.join(wrong)}")
    return {name: value[name] for name in fields}


def _listed(values: Iterable[object]) -> str:
    return msgspec.json.encode(list(values)).decode()[:500]
