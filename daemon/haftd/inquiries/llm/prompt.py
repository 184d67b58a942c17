"""The prompt for a model, and the answer in its text.

The prompt states the answer's form: some servers accept a schema without enforcing it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import Boolean, Form, InvalidAnswer, Question, Scalar, Select
from haftd.lazy_pattern import lazy_pattern
from haftd.schemas.names import map_to_originals

ELSEWHERE = "Still running."
"""Reply to another call of the turn."""

_MAX_TEXT = 1 << 20
"""Characters of a model's text, so that decoding takes some 30 ms at most."""
_FENCE = lazy_pattern(r"\A```[a-z]*\s*\n(.*)\n```\Z", re.DOTALL)


def compose_pause(question: Question) -> str:
    return f"Tool paused: {question.text}"


def compose_question(inquiry: Inquiry, tool: str) -> str:
    question = inquiry.question
    parts = [] if inquiry.handle is UNSET else [f"The tool {tool} requires additional input."]
    if question.pre_amble:
        parts.append(question.pre_amble)
    parts.append(question.text)
    if question.default is not None:
        parts.append(f"The tool offers {_json(question.default)} as its default.")
    parts.append("Provide your answer based on the conversation context.")
    parts.append(_describe_form(inquiry))
    return "\n\n".join(parts)


def compose_questions(questions: Sequence[tuple[Inquiry, str]]) -> str:
    parts = ["Several tools require additional input."]
    for inquiry, tool in questions:
        question = inquiry.question
        lines = [f"{_json(inquiry.inquiry_id)}, the tool {tool}:"]
        if question.pre_amble:
            lines.append(question.pre_amble)
        lines.append(question.text)
        if question.default is not None:
            lines.append(f"The tool offers {_json(question.default)} as its default.")
        parts.append("\n".join(lines))
    parts.append("Provide your answers based on the conversation context.")
    each = (
        f"{_json(inquiry.inquiry_id)} is {_describe_value(inquiry.question)}"
        for inquiry, _ in questions
    )
    parts.append(f"Reply with one JSON object and nothing else: {', '.join(each)}.")
    return "\n\n".join(parts)


def make_joint_schema(inquiries: Sequence[Inquiry]) -> dict[str, Any]:
    """Return the schema of several answers: a property per inquiry id."""
    return {
        "type": "object",
        "properties": {
            inquiry.inquiry_id: inquiry.schema["properties"]["answer"] for inquiry in inquiries
        },
        "required": [inquiry.inquiry_id for inquiry in inquiries],
        "additionalProperties": False,
    }


def read_all(inquiries: Sequence[Inquiry], text: str) -> dict[str, str]:
    """Return each answer by inquiry id, as unchecked text for `read_text`; empty if it is missing."""
    try:
        reply = _read_object(text)
    except InvalidAnswer:
        reply = {}
    ids = [inquiry.inquiry_id for inquiry in inquiries]
    originals = map_to_originals(ids)
    answers = {originals.get(name, name): value for name, value in reply.items()}
    return {
        id: _json({"inquiry_id": id, "answer": answers[id]}) if id in answers else "" for id in ids
    }


def compose_correction(inquiry: Inquiry, refused: str) -> str:
    """Return the turn after a wrong answer; `refused` is a sentence about the fault."""
    return f"That is not a valid answer: {refused}\n\n{_describe_form(inquiry)}"


def _describe_form(inquiry: Inquiry) -> str:
    return (
        f'Reply with one JSON object and nothing else: "inquiry_id" is'
        f' {_json(inquiry.inquiry_id)}, "answer" is {_describe_value(inquiry.question)}.'
    )


def _describe_value(question: Question) -> str:
    match question.answer_type:
        case Boolean():
            return "true or false"
        case Select(options=options):
            return _describe_choice(options)
        case Form(fields=fields):
            each = (
                f"{_json(name)}: {_describe_choice(field.options)}"
                for name, field in fields.items()
            )
            return f"an object with {'; '.join(each)}"
    return "a string"


def _describe_choice(options: tuple[Scalar, ...]) -> str:
    return f"one of {', '.join(map(_json, options))}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def read_text(inquiry: Inquiry, text: str) -> dict[str, Any]:
    """Return the unchecked reply, `answer` and perhaps `inquiry_id`, in a model's text. Raises
    `InvalidAnswer` for another object or none."""
    reply = _read_object(text)
    if not {"answer"} <= set(reply) <= {"answer", "inquiry_id"}:
        raise InvalidAnswer("it is not an object of `inquiry_id` and `answer` alone")
    return {**reply, "answer": _restore_names(inquiry.question, reply["answer"])}


def _read_object(text: str) -> dict[str, Any]:
    """Return the JSON object that the text is, or that it has in a code fence. Raises `InvalidAnswer`."""
    text = text.strip()
    if fenced := _FENCE.match(text):
        text = fenced[1]
    if not text or len(text) > _MAX_TEXT:
        raise InvalidAnswer("it is not a JSON object")
    try:
        reply = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        raise InvalidAnswer("it is not a JSON object") from None
    if not isinstance(reply, dict):
        raise InvalidAnswer("it is not a JSON object")
    return reply


def _restore_names(question: Question, answer: Any) -> Any:
    """Return the answer in the question's terms: an option for its JSON text, and the fields' own names."""
    match question.answer_type, answer:
        case Select(options=options), str() if answer not in options:
            others = (option for option in options if not isinstance(option, str))
            return next((option for option in others if _json(option) == answer), answer)
        case Form(fields=fields), dict():
            originals = map_to_originals(fields)
            return {
                name if name in fields else originals.get(name, name): answer[name]
                for name in answer
            }
    return answer
