"""Of a large invalid value the first error is explained, at the cost of a validation."""

from __future__ import annotations

import copy
import difflib
from typing import Any

import pytest

from haft_protocol.errors import RpcError
from haftd.schemas import validation
from haftd.tools.calls.tool_calls import check_arguments
from haftd.tools.definitions.definition import Tool, compile_schema

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def texts(**more: Any) -> dict[str, Any]:
    return {"type": "array", "items": TEXT, **more}


class Strict:
    """A validator that refuses to collect the errors of more than 500 values."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._own: Any = compile_schema(schema)
        self.is_valid, self.validate = self._own.is_valid, self._own.validate

    def iter_errors(self, value: Any) -> Any:
        assert not validation.is_larger(value, 500)
        return self._own.iter_errors(value)


def problems(schema: dict[str, Any], value: Any) -> dict[str, str]:
    """Return the messages about the value, by path."""
    strict: Any = Strict(schema)
    before = copy.deepcopy(value)
    problems = validation.problems(strict, value, schema)
    assert value == before
    return {each["path"]: each["message"] for each in problems}


def test_the_first_of_very_many_invalid_items_is_named() -> None:
    faults = problems(closed(argv=texts()), {"argv": [1] * 300_000})
    assert faults == {"argv[0]": "it must be string, not 1"}


def test_all_invalid_items_of_a_small_value_are_named_up_to_fifty() -> None:
    faults = problems(closed(argv=texts()), {"argv": [1] * 400})
    assert list(faults)[:2] == ["argv[0]", "argv[1]"]
    assert faults[""] == "and more" and len(faults) == 51


ROWS = {"type": "array", "items": closed(a=NUMBER, b=texts())}
ROW = {"a": 1, "b": ["x", "y"]}


@pytest.mark.parametrize(
    ("schema", "value", "path"),
    [
        (closed(v=texts()), {"v": [*["a"] * 70_000, 1, *["a"] * 9_000]}, "v[70000]"),
        (closed(v=texts(), w=NUMBER), {"v": ["a"] * 70_000, "w": "x"}, "w"),
        (closed(v=texts(minItems=1)), {"v": ["a"] * 70_000, "x": 1}, "x"),
        (closed(v=ROWS), {"v": [*[ROW] * 9_000, {"a": "x"}, ROW]}, "v[9000].a"),
        (closed(v=ROWS), {"v": [ROW, *[ROW] * 9_000, {**ROW, "q": 1}, *[ROW] * 50]}, "v[9001].q"),
        (closed(v=ROWS), {"v": [*[ROW] * 70, {"b": [*["x"] * 9_000, 2]}]}, "v[70].b[9000]"),
        (
            closed(v={"type": "object", "additionalProperties": TEXT}),
            {"v": {**{f"k{at}": "x" for at in range(9_000)}, "bad": 1}},
            "v.bad",
        ),
        ({**closed(v=texts(), n=TEXT), "required": ["n"]}, {"v": ["a"] * 9_000}, "n"),
        (closed(v=TEXT), {"v": [1] * 9_000}, "v"),
        (closed(v=texts(maxItems=3)), {"v": ["a"] * 9_000}, "v"),
        (closed(v=texts(minItems=10_000)), {"v": ["a"] * 9_000}, "v"),
        (closed(v=texts(uniqueItems=True)), {"v": [*map(str, range(9_000)), "0"]}, "v"),
        (closed(v=texts(minItems=800)), {"v": [*["a"] * 900, 1]}, "v[900]"),
        (closed(v=texts(minItems=800), w=NUMBER), {"v": ["a"] * 900, "w": "x"}, "w"),
    ],
)
def test_a_fault_in_a_large_value_is_found(schema: dict[str, Any], value: Any, path: str) -> None:
    assert problems(schema, value).keys() == {path}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_a_choice_in_a_large_value_is_not_explained(keyword: str) -> None:
    """The validator collects the errors of all branches for the error of a choice."""
    schema = closed(v={keyword: [texts(), {"type": "array", "items": NUMBER}]})
    assert problems(schema, {"v": [None] * 100_000}) == {
        "arguments": "they are invalid, and too large to explain why"
    }
    assert "v" in "".join(problems(schema, {"v": [None] * 3}))


@pytest.mark.parametrize(
    "more",
    [{"oneOf": TEXT}, {"w": {"const": {"anyOf": 1}}}, {"w": {"enum": [{"oneOf": 1}]}}],
    ids=str,
)
def test_a_name_or_value_like_a_choice_is_no_choice(more: dict[str, Any]) -> None:
    assert problems(closed(v=texts(), **more), {"v": [*["a"] * 9_000, 1]}).keys() == {"v[9000]"}


def test_near_names_are_searched_a_few_times_among_a_few(monkeypatch: Any) -> None:
    looked: list[int] = []

    def near(word: str, possibilities: Any, **more: Any) -> list[str]:
        looked.append(len(possibilities))
        return []

    monkeypatch.setattr(difflib, "get_close_matches", near)
    schema = closed(**{f"name{at}": TEXT for at in range(2_000)})
    faults = problems(closed(a=TEXT), {f"k{at}": 1 for at in range(100_000)})
    assert faults == {"k0": "it is unknown; known names: a"}
    problems(schema, {f"nam{at}": 1 for at in range(60)})
    assert len(looked) == 6 and max(looked) <= 100


def test_a_very_long_name_is_shortened() -> None:
    faults = problems(closed(a=TEXT), {"k" * 1_000_000: 1})
    assert max(map(len, faults)) < 200


def test_a_schema_with_very_many_values_is_explained_briefly() -> None:
    schema = closed(v={"type": "array", "items": {"enum": [f"v{at}" for at in range(30_000)]}})
    faults = problems(schema, {"v": ["x"] * 100})
    assert list(faults) == ["v[0]"]


def test_a_too_deeply_nested_value_is_refused() -> None:
    value: Any = 1
    for _ in range(2_000):
        value = [value]
    with pytest.raises(RpcError) as caught:
        check_arguments(
            Tool(name="x", file="f", parameters=closed(v=TEXT, w=TEXT)), {"w": value, "v": "x"}
        )
    assert caught.value.data["problems"] == [
        {"path": "arguments", "message": "they are nested too deeply to be checked"}
    ]


def test_a_pattern_too_costly_for_a_value_refuses_it_in_plain_words() -> None:
    hard = {"type": "string", "pattern": r"^(?=a)(a|a)+\1$"}
    faults = problems(closed(v=hard), {"v": "a" * 60 + "b"})
    assert faults == {"v": "it could not be checked against its pattern, which is too expensive"}
