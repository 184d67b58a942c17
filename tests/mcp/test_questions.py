"""Questions as forms of MCP, and answers from the content that a host returns."""

from __future__ import annotations

from typing import Any

import pytest

from haft.mcp.questions import InvalidContent, build_elicitation, read_answer
from haft_protocol.inquiries import Inquiry
from haft_protocol.questions import (
    Answer,
    AnswerType,
    Boolean,
    Choice,
    Form,
    Question,
    Select,
    Text,
)

CHOICE = Choice((1, "two", None))


def question(answer_type: AnswerType, default: Any = None) -> Question:
    return Question(id="q", text="Which?", answer_type=answer_type, default=default)


def build_property(answer_type: AnswerType, default: Any) -> dict[str, Any]:
    inquiry = Inquiry(
        session="s",
        inquiry_id="i",
        question=question(answer_type, default),
        schema={},
        target="user",
    )
    schema = build_elicitation(inquiry, has_mode=True)["requestedSchema"]
    property: dict[str, Any] = schema["properties"]["q"]
    return property


@pytest.mark.parametrize(
    ("answer_type", "default", "sent"),
    [
        (Select((True, False)), True, "true"),
        (Select((1, 2)), 2, "2"),
        (Text(), "main", "main"),
        (Boolean(), False, False),
    ],
)
def test_a_default_has_the_type_of_its_property(
    answer_type: AnswerType, default: Any, sent: object
) -> None:
    found = build_property(answer_type, default)["default"]
    assert (type(found), found) == (type(sent), sent)


@pytest.mark.parametrize(
    ("answer_type", "default"),
    [
        (Select((1, 2)), True),
        (Select((None, "all")), None),
        (Boolean(), "yes"),
        (Text(), 1),
    ],
)
def test_a_default_that_is_no_answer_is_left_out(answer_type: AnswerType, default: Any) -> None:
    assert "default" not in build_property(answer_type, default)


@pytest.mark.parametrize(
    ("answer_type", "content", "answer"),
    [
        (Form({"a": CHOICE, "b": CHOICE}), {"a": "1", "b": "null"}, {"a": 1, "b": None}),
        (Select((1, "two")), {"q": "1"}, 1),
        (Select((1, "two")), {"renamed": "two"}, "two"),
        (Boolean(), {"renamed": False}, False),
        (Text(), {"q": "x", "other": "y"}, "x"),
    ],
)
def test_content_is_read_as_the_options_that_were_sent(
    answer_type: AnswerType, content: object, answer: Answer
) -> None:
    assert read_answer(question(answer_type), content) == answer


@pytest.mark.parametrize(
    ("answer_type", "content"),
    [
        (Text(), None),
        (Text(), {}),
        (Text(), {"a": "x", "b": "y"}),
        (Select((1, "two")), {"q": 1}),
        (Form({"a": CHOICE}), {"b": "1"}),
    ],
)
def test_content_without_a_valid_value_is_refused(answer_type: AnswerType, content: object) -> None:
    with pytest.raises(InvalidContent):
        read_answer(question(answer_type), content)
