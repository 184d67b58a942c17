from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.questions import (
    AnswerType,
    Boolean,
    InvalidAnswer,
    Question,
    Secret,
    Select,
    Text,
    check_answer,
    read_question,
)


def asks(answer_type: AnswerType) -> Question:
    return Question(id="q", text="t", answer_type=answer_type)


@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("Boolean", Boolean()),
        ("Text", Text()),
        ({"type": "boolean"}, Boolean()),
        ({"type": "text"}, Text()),
        ({"type": "secret"}, Secret()),
        ({"type": "select", "options": ["a", 1, True, None]}, Select(("a", 1, True, None))),
        ({"Select": {"options": ["a", 1]}}, Select(("a", 1))),
    ],
)
def test_both_generations_of_answer_types_are_parsed(form: object, read: AnswerType) -> None:
    found = read_question({"id": "q", "text": "t", "answer_type": form, "more": "x"})
    assert found == asks(read)


def test_unknown_fields_of_a_question_are_kept() -> None:
    found = read_question(
        {"id": "q", "text": "t", "pre_amble": "p", "default": "d", "answer_type": "Text"}
    )
    assert (found.pre_amble, found.default) == ("p", "d")


@pytest.mark.parametrize(
    "form",
    [
        None, "q", [], {}, {"id": "q", "text": "t"}, {"id": "q", "answer_type": "Text"},
        {"text": "t", "answer_type": "Text"}, {"id": 1, "text": "t", "answer_type": "Text"},
        {"id": "q", "text": "t", "answer_type": "Colour"}, {"id": "q", "text": "t", "answer_type": None},
        {"id": "q", "text": "t", "answer_type": {"type": "select"}},
        {"id": "q", "text": "t", "answer_type": {"type": "select", "options": []}},
        {"id": "q", "text": "t", "answer_type": {"type": "select", "options": [["a"]]}},
        {"id": "q", "text": "t", "answer_type": {"Select": {}}},
    ],
)  # fmt: skip
def test_an_invalid_question_is_refused(form: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_question(form)


@given(st.sampled_from([Boolean(), Text(), Secret(), Select(("a", 1, True))]))
def test_only_the_newer_form_is_written_and_it_is_parsed_again(answer_type: AnswerType) -> None:
    written = msgspec.to_builtins(asks(answer_type))
    assert isinstance(written["answer_type"], dict)
    assert "type" in written["answer_type"]
    assert read_question(written) == asks(answer_type)


@pytest.mark.parametrize(
    ("answer_type", "good", "bad"),
    [
        (Boolean(), [True, False], [1, 0, "true", "", None, []]),
        (Text(), ["", "x"], [1, True, None, ["x"], {}]),
        (Secret(), ["x"], [1, None]),
        (Select(("a", 1, None)), ["a", 1, 1.0, None], ["b", "1", True, [], ["a"]]),
        (Select((True, 0)), [True, 0], [1, False, "true"]),
    ],
)
def test_an_answer_is_valid_or_refused_with_the_valid_ones(
    answer_type: AnswerType, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        assert check_answer(asks(answer_type), value) == value
    for value in bad:
        with pytest.raises(InvalidAnswer, match="'q' takes"):
            check_answer(asks(answer_type), value)
