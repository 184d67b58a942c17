"""A tool's question as a form of MCP, and the answer from the completed form.

A form has a property by the question's id, or one for each field. Options are texts in every
revision; other options appear as their JSON text. A form never asks for a secret, nor to open an
address.
"""

from __future__ import annotations

from typing import Any

import msgspec

from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import Boolean, Choice, Form, Question, Scalar, Secret, Select


class Unanswered(ValueError):
    """The form's content is no answer; the message gives the reason."""


def is_elicited(inquiry: Inquiry) -> bool:
    """True for a question to the host's user by a form: not to the model, no secret and no
    address, which users could not distinguish from the host's own."""
    question = inquiry.question
    is_open = not isinstance(question.answer_type, Secret) and question.url is None
    return is_open and inquiry.target != "assistant"


def form_of(inquiry: Inquiry, *, has_mode: bool) -> dict[str, Any]:
    """Return the params of `elicitation/create`; revisions before 2025-11-25 have no `mode`."""
    question = inquiry.question
    parts = [part for part in (question.pre_amble, question.text) if part]
    if not isinstance(inquiry.refused, msgspec.UnsetType):
        parts.insert(0, f"That was no answer: {inquiry.refused}")
    properties = _properties(question)
    form: dict[str, Any] = {
        "message": "\n".join(parts),
        "requestedSchema": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
        },
    }
    return {"mode": "form", **form} if has_mode else form


def answer_of(question: Question, content: object) -> Any:
    if not isinstance(content, dict):
        raise Unanswered("the form came back empty")
    match question.answer_type:
        case Form(fields=fields):
            return {
                name: _chosen(choice, content.get(name), name) for name, choice in fields.items()
            }
        case _:
            # Some hosts rename a form's only property.
            values = list(content.values())
            if question.id not in content and len(values) != 1:
                raise Unanswered(f"the form came back without {question.id!r}")
            value = content.get(question.id, values[0])
    if isinstance(question.answer_type, Select):
        return _chosen(Choice(question.answer_type.options), value, question.id)
    return value


def _properties(question: Question) -> dict[str, dict[str, Any]]:
    match question.answer_type:
        case Form(fields=fields):
            return {name: _choice(choice) for name, choice in fields.items()}
        case Boolean():
            form: dict[str, Any] = {"type": "boolean"}
            fits = isinstance(question.default, bool)
        case Select(options=options):
            form = _choice(Choice(options))
            fits = question.default in options
        case _:
            form = {"type": "string"}
            fits = isinstance(question.default, str)
    if fits:
        shown = question.default
        form["default"] = shown if isinstance(shown, bool | str) else _shown(shown)
    return {question.id: form}


def _choice(choice: Choice) -> dict[str, Any]:
    form: dict[str, Any] = {"type": "string", "enum": [_shown(option) for option in choice.options]}
    if choice.text:
        form["description"] = choice.text
    return form


def _chosen(choice: Choice, value: object, name: str) -> Scalar:
    for option in choice.options:
        if value == _shown(option):
            return option
    raise Unanswered(
        f"{name!r} takes one of {', '.join(_shown(option) for option in choice.options)}"
    )


def _shown(option: Scalar) -> str:
    return option if isinstance(option, str) else msgspec.json.encode(option).decode()
