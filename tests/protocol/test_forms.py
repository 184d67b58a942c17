from __future__ import annotations

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.inquiries import schema
from haft_protocol.questions import (
    AnswerType,
    Boolean,
    Choice,
    Form,
    InvalidAnswer,
    Question,
    Secret,
    Select,
    Text,
    check_answer,
    read_question,
)

FORM = Form({"a": Choice(("wait", "abort"), "the first"), "b": Choice((1, True))})
QUESTION = Question(id="q", text="?", answer_type=FORM)


def test_an_answer_has_a_choice_for_each_field() -> None:
    assert check_answer(QUESTION, {"b": True, "a": "wait"}) == {"a": "wait", "b": True}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("wait", 'an object with a choice for each of ["a","b"]'),
        ({"a": "wait"}, 'missing: ["b"]'),
        ({"a": "wait", "b": 1, "c": 1}, 'unknown: ["c"]'),
        ({"a": "stay", "b": 1}, '`a` takes one of ["wait","abort"]'),
        ({"a": ["wait"], "b": 1}, "`a` takes one of"),
        ({"a": "wait", "b": False}, "`b` takes one of [1,true]"),
    ],
)
def test_each_fault_is_named(answer: object, why: str) -> None:
    with pytest.raises(InvalidAnswer) as wrong:
        check_answer(QUESTION, answer)
    assert why in str(wrong.value)


def test_an_error_is_short_however_long_the_form() -> None:
    many = Form({f"h{n}": Choice(("wait",)) for n in range(1_000)})
    with pytest.raises(InvalidAnswer) as wrong:
        check_answer(Question(id="q", text="?", answer_type=many), {f"x{n}": 1 for n in range(999)})
    assert len(str(wrong.value)) < 2_000


def test_a_tool_may_ask_a_form_and_an_empty_one_is_refused() -> None:
    form: dict[str, Any] = {"type": "form", "fields": {"a": {"options": ["x"]}}}
    asked = read_question({"id": "q", "text": "?", "answer_type": form})
    assert asked.answer_type == Form({"a": Choice(("x",))})
    empty: list[dict[str, Any]] = [{}, {"a": {"options": []}}]
    for fields in empty:
        with pytest.raises(msgspec.ValidationError):
            read_question({"id": "q", "text": "?", "answer_type": {**form, "fields": fields}})


ANSWERS = st.dictionaries(
    st.sampled_from("abc"), st.sampled_from(["wait", "abort", "keep", 1, True, None, ["wait"]])
)


@given(answer=ANSWERS | st.sampled_from(["wait", 1, None]))
def test_the_schema_accepts_exactly_the_valid_answers(answer: object) -> None:
    try:
        check_answer(QUESTION, answer)
        is_taken = True
    except InvalidAnswer:
        is_taken = False
    said = {"inquiry_id": "i", "answer": answer}
    assert jsonschema_rs.is_valid(schema("i", FORM), said) is is_taken


@pytest.mark.parametrize(
    ("answer_type", "valid"),
    [
        (Boolean(), True),
        (Text(), "x"),
        (Secret(), "x"),
        (Select(("a", "b")), "a"),
        (Select((2, None)), None),
    ],
)
def test_the_schema_of_each_type_accepts_answers_of_that_type(
    answer_type: AnswerType, valid: object
) -> None:
    form = schema("i", answer_type)
    assert jsonschema_rs.is_valid(form, {"inquiry_id": "i", "answer": valid})
    for answer in (3, ["a"]):
        assert not jsonschema_rs.is_valid(form, {"inquiry_id": "i", "answer": answer})
