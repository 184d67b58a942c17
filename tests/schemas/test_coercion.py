"""A model's arguments for a shown schema, converted back to the tool's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from haftd.schemas import PROVIDERS, translate
from haftd.schemas.coercion import Steps, _is_plain, coerce
from haftd.tools.calls.tool_calls import check_arguments
from haftd.tools.definitions.definition import Tool


def fitted(schema: Any, value: Any) -> Any:
    """Return the converted value of one property."""
    return coerce({"v": value}, {"type": "object", "properties": {"v": schema}})["v"]


_TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", ["string", "null"]])
_FORMS = st.one_of(
    st.fixed_dictionaries({"type": _TYPES}),
    st.fixed_dictionaries({"type": _TYPES, "default": st.sampled_from(["x", 1, None])}),
    st.sampled_from([{}, {"enum": ["x", 1]}, {"type": "string", "enum": ["1"]}]),
)
_VALUES: st.SearchStrategy[Any] = st.sampled_from(["x", "1", '"x"', 1, 1.0, True, None, ["1"]])
_OBJECTS = st.sampled_from(
    [
        {"type": "object"},
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "allOf": [{"properties": {"a": {"type": "integer"}}}]},
    ]
)


@given(
    st.dictionaries(st.sampled_from("ab"), _FORMS, max_size=2),
    st.dictionaries(st.sampled_from("abc"), _VALUES, max_size=2),
    _OBJECTS,
)
@example({"a": {"type": "string", "default": "x"}}, {}, {"type": "object"})
@example({}, {"a": "1"}, {"type": "object", "additionalProperties": {"type": "integer"}})
@example({"a": {"type": "integer"}}, {"a": 1.0}, {"type": "object"})
@example({"a": {"type": "integer"}}, {"a": "1"}, {"type": "object"})
@example({"a": {"type": "string"}}, {"a": "x"}, {"type": "object"})
def test_plain_values_are_those_that_coercion_leaves_alone(
    properties: dict[str, Any], value: dict[str, Any], schema: dict[str, Any]
) -> None:
    schema = {**schema, "properties": properties}
    event(f"plain: {_is_plain(value, schema)}")
    slowly = coerce(value, schema, Steps())
    assert repr(coerce(value, schema)) == repr(slowly)
    assert not _is_plain(value, schema) or repr(slowly) == repr(value)


def test_null_for_an_optional_property_is_left_out() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["string", "null"]},
            "c": {"type": "integer", "default": 3},
            "d": {},
            "e": {"enum": ["x"]},
            "o": {"type": "object", "properties": {"x": {"type": "integer"}}},
        },
        "required": ["a"],
    }
    nothing = {"a": None, "b": None, "c": None, "d": None, "e": None, "o": {"x": None}}
    assert coerce(nothing, schema) == {"a": None, "b": None, "c": 3, "d": None, "o": {}}


def test_null_is_left_out_also_where_a_choice_names_the_property() -> None:
    shapes = {
        "oneOf": [
            {
                "type": "object",
                "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}, "name": {"type": "string"}},
                "required": ["kind", "r"],
            },
            {"type": "object", "properties": {"kind": {"const": "box"}, "w": {"type": "number"}}, "required": ["kind"]},
        ]
    }  # fmt: skip
    flat = {"kind": "circle", "r": "2", "name": None, "w": None}
    assert fitted(shapes, flat) == {"kind": "circle", "r": 2}
    assert coerce(flat, {"type": "object", **shapes}) == {"kind": "circle", "r": 2}


@pytest.mark.parametrize(
    ("schema", "value", "wanted"),
    [
        ({"enum": ["x", 1, {"k": 1}]}, '{"k": 1}', {"k": 1}),
        ({"enum": ["x", 1]}, "1", 1),
        ({"enum": ["1", 1]}, "1", "1"),
        ({"enum": ["x", True]}, "true", True),
        ({"enum": ["x", 1]}, "true", "true"),
        ({"const": [1]}, "[1]", [1]),
        ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}, '["3"]', [3]),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", "5"),
        ({"allOf": [{"type": "object"}, {"properties": {"a": {"type": "integer"}}}]}, '{"a": "1"}', {"a": 1}),
        ({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "boolean"}}, ["1", "true"], [1, True]),
    ],
)  # fmt: skip
def test_a_text_is_converted_where_another_type_is_expected(
    schema: Any, value: Any, wanted: Any
) -> None:
    found = fitted(schema, value)
    assert found == wanted
    assert type(found) is type(wanted)


def test_a_self_containing_schema_ends() -> None:
    schema = {"type": "object", "properties": {"v": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}], "anyOf": [{"$ref": "#/$defs/a"}]}}}  # fmt: skip
    assert coerce({"v": "1"}, schema) == {"v": "1"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_renamed_properties_are_mapped_back(provider: str) -> None:
    names = ["filter[id]", "größe", "dry-run", "dry_run", "$top", "n" * 70]
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "additionalProperties": False,
    }
    tool = Tool(name="x", file="f", parameters=schema)
    shown = list(translate("x", schema, PROVIDERS[provider]).parameters["properties"])
    values = {name: f"value of {at}" for at, name in enumerate(shown)}
    assert check_arguments(tool, values) == {
        name: f"value of {at}" for at, name in enumerate(names)
    }


def test_other_names_stay_unchanged() -> None:
    schema = {"type": "object", "properties": {"a-b": {"type": "integer"}}}
    assert coerce({"a_b": "1"}, schema) == {"a-b": 1}
    assert coerce({"a_b": "1", "a-b": 2}, schema) == {"a_b": "1", "a-b": 2}
    assert coerce({"a__b": "1"}, schema) == {"a__b": "1"}


def test_json_text_replaces_values_that_a_strict_provider_cannot_hold() -> None:
    schema = {
        "type": "object",
        "properties": {
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "tree": {"$ref": "#/$defs/t"},
        },
        "$defs": {
            "t": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}},
            }
        },
    }  # fmt: skip
    tool = Tool(name="x", file="f", parameters=schema)
    values = {
        "env": '{"A": "b"}',
        "tree": {"v": 1, "kids": ['{"v": 2, "kids": [{"v": 3}]}']},
    }
    assert check_arguments(tool, values) == {
        "env": {"A": "b"},
        "tree": {"v": 1, "kids": [{"v": 2, "kids": [{"v": 3}]}]},
    }


def steps_of(value: Any, schema: Any) -> tuple[int, Any]:
    """Return the number of steps of a conversion, and its result."""
    steps = Steps()
    fitted = coerce(value, schema, steps)
    return steps.taken, fitted


def test_a_doubly_recursive_part_is_applied_once() -> None:
    again = {"$ref": "#/properties/a"}
    for word in ("allOf", "anyOf", "oneOf"):
        taken, fitted = steps_of({"a": 1}, {"properties": {"a": {word: [again, again]}}})
        assert fitted == {"a": 1}
        assert taken < 40


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
def test_parts_that_fork_at_every_level_take_steps_per_level_only(word: str) -> None:
    forms: dict[str, Any] = {"f14": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    for at in range(14):
        forms[f"f{at}"] = {word: [{"$ref": f"#/$defs/f{at + 1}"}] * 2}
    schema = {"properties": {"a": {"$ref": "#/$defs/f0"}}, "$defs": forms}
    taken, fitted = steps_of({"a": {"n": "3"}}, schema)
    assert fitted == {"a": {"n": 3}}
    assert taken < 400


def test_names_of_many_wide_parts_are_looked_up_once() -> None:
    forms: dict[str, Any] = {"f4": {"properties": {"n": {"type": "integer"}}}}
    for at in range(4):
        forms[f"f{at}"] = {"allOf": [{"$ref": f"#/$defs/f{at + 1}"}] * 40}
    schema = {"properties": {"a": {"$ref": "#/$defs/f0"}}, "$defs": forms}
    taken, fitted = steps_of({"a": {"n": None}}, schema)
    assert fitted == {"a": {}}
    assert taken < 1_000


def test_a_part_over_its_budget_stays_and_the_rest_is_converted() -> None:
    schema = {
        "properties": {
            "many": {"items": {"type": "string"}},
            "objects": {"items": {"properties": {"n": {"type": "integer"}}}},
            "n": {"type": "integer"},
            "d": {"default": 1},
        }
    }
    values = {"many": [1] * 100_000, "objects": [{"n": "1"}] * 5_000, "n": "5"}
    taken, fitted = steps_of(values, schema)
    assert fitted == {**values, "n": 5, "d": 1}
    assert fitted["many"] is values["many"]
    assert taken < 20_000


def test_a_long_list_of_objects_is_converted_whole() -> None:
    schema = {"properties": {"v": {"items": {"properties": {"n": {"type": "integer"}}}}}}
    assert coerce({"v": [{"n": "1"}] * 1_000}, schema) == {"v": [{"n": 1}] * 1_000}


def test_an_object_with_a_great_many_names_stays_unchanged() -> None:
    values = {f"k{at}": "1" for at in range(100_000)}
    taken, fitted = steps_of(values, {"additionalProperties": {"type": "integer"}})
    assert fitted is values
    assert taken < 10


def test_a_very_deeply_nested_value_stays_unchanged_below() -> None:
    schema: Any = {"properties": {"n": {"type": "integer"}, "v": {"$ref": "#"}}}
    values: Any = {"n": "1"}
    for _ in range(500):
        values = {"v": values, "n": "1"}
    assert coerce(values, schema)["v"]["n"] == 1
