from __future__ import annotations

from typing import Any

import pytest

from haft_protocol.questions import Boolean, Form, Secret, Select, Text, check_answer
from haftd.runtimes.mcp.elicitation import Unaskable, WrongValue, steps, url_question
from haftd.runtimes.mcp.shapes import Elicitation


def form(required: tuple[str, ...] = (), **properties: dict[str, Any]) -> Elicitation:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Elicitation("Tell me.", requested_schema=schema)


TITLED = {
    "type": "string",
    "oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "Last"}],
}
MANY = {"type": "array", "items": {"type": "string", "enum": ["x", "y", "z"]}, "minItems": 1}


@pytest.mark.parametrize(
    ("schema", "kind", "answer", "content"),
    [
        ({"type": "string", "default": "d"}, Text(), "t", "t"),
        ({"type": "boolean"}, Boolean(), True, True),
        ({"type": "integer", "minimum": 1, "maximum": 5}, Text(), "4", 4),
        ({"type": "number"}, Text(), "1.5", 1.5),
        (TITLED, Select(("First", "Last")), "Last", "b"),
        (
            {"enum": ["s", "l"], "enumNames": ["Small", "Large"]},
            Select(("Small", "Large")),
            "Small",
            "s",
        ),
        ({"enum": ["s", "l"], "enumNames": ["Same", "Same"]}, Select(("s", "l")), "l", "l"),
        ({"type": "string", "format": "password"}, Secret(), "p", "p"),
    ],
)
def test_each_kind_of_property_is_asked_and_its_answer_converted(
    schema: dict[str, Any], kind: object, answer: Any, content: Any
) -> None:
    (step,) = steps(form(("p",), p=schema))
    assert step.question.answer_type == kind
    assert step.content(check_answer(step.question, answer)) == {"p": content}


def test_a_multiple_choice_is_a_form_of_booleans() -> None:
    (step,) = steps(form(("p",), p=MANY))
    assert isinstance(step.question.answer_type, Form)
    assert step.content({"x": True, "y": False, "z": True}) == {"p": ["x", "z"]}
    with pytest.raises(WrongValue):
        step.content({"x": False, "y": False, "z": False})


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"type": "integer"}, "1.5"),
        ({"type": "integer", "minimum": 3}, "2"),
        ({"type": "number"}, "many"),
        ({"type": "number"}, "inf"),
        ({"type": "string", "minLength": 3}, "ab"),
        ({"type": "string", "maxLength": 1}, "ab"),
    ],
)
def test_an_invalid_answer_is_refused_with_the_valid_ones(
    schema: dict[str, Any], answer: str
) -> None:
    (step,) = steps(form(("p",), p=schema))
    with pytest.raises(WrongValue, match="`p` takes"):
        step.content(answer)


def test_only_an_optional_choice_of_several_may_be_left_open() -> None:
    size = {"type": "string", "enum": ["s", "l"]}
    (step,) = steps(form(("a",), a=size, b=size))
    assert isinstance(step.question.answer_type, Form)
    fields = step.question.answer_type.fields
    assert fields["a"].options == ("s", "l")
    assert set(fields["b"].options) > {"s", "l"} and len(fields["b"].options) == 3


def test_an_optional_property_may_be_omitted() -> None:
    text, number, choice = steps(form((), t={"type": "string"}, n={"type": "integer"}, c=TITLED))
    assert text.content("") == number.content("") == choice.content("(none)") == {}
    assert "may be omitted" in text.question.text


@pytest.mark.parametrize("name", ["password", "api_key", "apiKey", "accessToken", "client-secret"])
def test_a_property_named_like_a_secret_is_secret(name: str) -> None:
    (step,) = steps(form((name,), **{name: {"type": "string"}}))
    assert step.question.answer_type == Secret()


def test_a_form_without_properties_asks_for_confirmation() -> None:
    (step,) = steps(form())
    assert (step.question.answer_type, step.question.text) == (Boolean(), "Tell me.")


def test_a_url_is_shown_with_its_host_and_must_be_http() -> None:
    address = "https://login.example@evil.example/x"
    question = url_question(Elicitation("Log in.", "url", url=address))
    assert "at evil.example" in question.text and address in question.text
    for wrong in ("https://[x", "file:///etc/passwd", "javascript:1", "", "https://"):
        with pytest.raises(Unaskable):
            url_question(Elicitation("Log in.", "url", url=wrong))


def test_an_invalid_form_is_refused() -> None:
    with pytest.raises(Unaskable):
        steps(Elicitation("x", requested_schema={"properties": {"a": 3}}))
    with pytest.raises(Unaskable):
        steps(form((), **{f"p{n}": {"type": "string"} for n in range(65)}))
    with pytest.raises(Unaskable):
        steps(Elicitation("x", requested_schema={"properties": {}, "required": True}))
