"""Questions of tools as MCP elicitations in form mode, and answers from the content that hosts return.

The requested schema has one property named by the question's id; for a question of the type `Form`, one
for each field. The enums of MCP contain strings only, so any other option is sent as its JSON text.
"""

from __future__ import annotations

from typing import Any

import msgspec

from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import (
    Answer,
    Boolean,
    Choice,
    Form,
    InvalidAnswer,
    Question,
    Scalar,
    Secret,
    Select,
    Text,
    check_answer,
)


class InvalidContent(ValueError):
    """Content of a form that has no valid answer; the message gives the reason."""


def may_elicit(inquiry: Inquiry) -> bool:
    """Return True if the host's user may be asked by an elicitation in form mode.

    A question to the model (`assistant`) is not for the user. In form mode MCP permits neither questions for
    secrets nor URLs to open (Elicitation, revision 2025-11-25): a user cannot tell such a form from one of
    the host.
    """
    question = inquiry.question
    is_permitted = not isinstance(question.answer_type, Secret) and question.url is None
    return is_permitted and inquiry.target != "assistant"


def build_elicitation(inquiry: Inquiry, *, has_mode: bool) -> dict[str, Any]:
    """Return the params of `elicitation/create`; `has_mode`: the revision is 2025-11-25 or later, which
    has the param `mode`."""
    question = inquiry.question
    parts = [part for part in (question.pre_amble, question.text) if part]
    if not isinstance(inquiry.refused, msgspec.UnsetType):
        parts.insert(0, f"The previous answer was not valid: {inquiry.refused}")
    properties = _build_properties(question)
    params: dict[str, Any] = {
        "message": "\n".join(parts),
        "requestedSchema": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
        },
    }
    return {"mode": "form", **params} if has_mode else params


def read_answer(question: Question, content: object) -> Answer:
    """Return the answer in the `content` of an accepted form: for a `Form`, a dict of the field's names
    to options; else one value.

    Raises `InvalidContent` without a value, or with a value that is none of the options. A value for a
    boolean or a string is returned unchecked: the daemon checks each answer.
    """
    if not isinstance(content, dict):
        raise InvalidContent("the form was returned without content")
    match question.answer_type:
        case Form(fields=fields):
            return {
                name: _find_option(choice.options, content.get(name), name)
                for name, choice in fields.items()
            }
        case Select(options=options):
            return _find_option(options, _find_value(question, content), question.id)
        case Boolean() | Text() | Secret():
            value: Answer = _find_value(question, content)
            return value


def _find_value(question: Question, content: dict[str, Any]) -> Any:
    if question.id in content:
        return content[question.id]
    # The schema has one property, so a single value is its value, also if a host names it otherwise.
    if len(content) == 1:
        return next(iter(content.values()))
    raise InvalidContent(f"the form was returned without {question.id!r}")


def _find_option(options: tuple[Scalar, ...], value: object, name: str) -> Scalar:
    """Return the option that was sent as `value`; of `1` and `"1"`, the first."""
    for option in options:
        if value == _format_option(option):
            return option
    raise InvalidContent(f"{name!r} takes one of {', '.join(map(_format_option, options))}")


def _build_properties(question: Question) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each property by its name."""
    match question.answer_type:
        case Form(fields=fields):
            return {name: _build_enum(choice) for name, choice in fields.items()}
        case Boolean():
            schema: dict[str, Any] = {"type": "boolean"}
        case Select(options=options):
            schema = _build_enum(Choice(options))
        case Text() | Secret():
            schema = {"type": "string"}
    if _has_valid_default(question):
        is_select = isinstance(question.answer_type, Select)
        schema["default"] = _format_option(question.default) if is_select else question.default
    return {question.id: schema}


def _has_valid_default(question: Question) -> bool:
    if question.default is None:  # none was set
        return False
    try:
        check_answer(question, question.default)
    except InvalidAnswer:
        return False
    return True


def _build_enum(choice: Choice) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "string",
        "enum": [_format_option(option) for option in choice.options],
    }
    if choice.text:
        schema["description"] = choice.text
    return schema


def _format_option(option: Scalar) -> str:
    return option if isinstance(option, str) else msgspec.json.encode(option).decode()
