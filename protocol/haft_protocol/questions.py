"""Questions a tool asks and the answers it takes.

Rules: a question is frozen; an answer is checked before it changes anything; both generations of
`answer_type` are read (`{"type": "boolean"}` and `"Boolean"`), only the newer is written.
Follows sections 3 and 6 of the protocol.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "Answer",
    "AnswerType",
    "Boolean",
    "InvalidAnswer",
    "Question",
    "Secret",
    "Select",
    "Text",
    "check_answer",
    "read_question",
]

Answer = bool | int | float | str | None


class Boolean(msgspec.Struct, frozen=True, tag="boolean"):
    """Yes or no."""


class Text(msgspec.Struct, frozen=True, tag="text"):
    """One free text."""


class Secret(msgspec.Struct, frozen=True, tag="secret"):
    """A text asked of a person only; never stored, logged or shown to an assistant."""


class Select(msgspec.Struct, frozen=True, tag="select"):
    """One of the options, which are scalars and compared as JSON values (1 is not true)."""

    options: tuple[Answer, ...]


AnswerType = Boolean | Text | Secret | Select


class Question(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a tool wants to know before it goes on. `default` is offered, never applied unasked."""

    id: str
    text: str
    answer_type: AnswerType
    pre_amble: str | None = None
    default: Any = None


class InvalidAnswer(ValueError):
    """The answer does not fit the question; the message says what would."""


_OLD_NAMES: dict[str, AnswerType] = {"Boolean": Boolean(), "Text": Text(), "Secret": Secret()}


def _read_answer_type(form: object) -> AnswerType:
    match form:
        case str() if form in _OLD_NAMES:
            return _OLD_NAMES[form]
        case {"Select": {"options": list(options)}}:
            form = {"type": "select", "options": options}
    answer_type: AnswerType = msgspec.convert(form, AnswerType)
    if isinstance(answer_type, Select) and not answer_type.options:
        raise msgspec.ValidationError("a question to select from has no `options`")
    return answer_type


def read_question(form: object) -> Question:
    """Read a question in either generation of forms; raises `msgspec.ValidationError`."""
    if not isinstance(form, dict):
        raise msgspec.ValidationError("a question is an object with `id`, `text` and `answer_type`")
    known = {k: form[k] for k in ("id", "text", "pre_amble", "default") if k in form}
    if "answer_type" not in form:
        raise msgspec.ValidationError("the question has no `answer_type`")
    return msgspec.convert(
        {**known, "answer_type": msgspec.to_builtins(_read_answer_type(form["answer_type"]))},
        Question,
    )


def _same(one: Answer, other: Answer) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def check_answer(question: Question, value: object) -> Answer:
    """Return the answer if it fits `question`, else raise `InvalidAnswer`; nothing is coerced."""
    match question.answer_type:
        case Boolean():
            if isinstance(value, bool):
                return value
            raise InvalidAnswer(f"question {question.id!r} takes true or false")
        case Text() | Secret():
            if isinstance(value, str):
                return value
            raise InvalidAnswer(f"question {question.id!r} takes a text")
        case Select(options=options):
            if isinstance(value, Answer) and any(_same(value, option) for option in options):
                return value
            shown = msgspec.json.encode(list(options)).decode()
            raise InvalidAnswer(f"question {question.id!r} takes one of {shown[:500]}")
