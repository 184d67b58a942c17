"""A call's arguments: coercion, defaults and errors."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from haft_protocol.errors import RpcError
from haftd.tools.calls.tool_calls import check_arguments, read_call, read_run
from haftd.tools.definitions.definition import Tool


def having(**properties: Any) -> Tool:
    return of({"type": "object", "properties": properties, "additionalProperties": False})


def of(schema: dict[str, Any]) -> Tool:
    return Tool(name="x", file="f", parameters=schema)


def problems(tool: Tool, args: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(RpcError) as caught:
        check_arguments(tool, args)
    error = caught.value
    assert error.code == -32005
    assert error.data["kind"] == "invalid_arguments"
    return {problem["path"]: problem["message"] for problem in error.data["problems"]}


INTEGER, NUMBER, FLAG = {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
LIST = {"type": "array", "items": INTEGER}
OBJECT = {"type": "object", "properties": {"a": INTEGER}}


@pytest.mark.parametrize(
    ("schema", "value", "fitted"),
    [
        (OBJECT, '{"a": 1}', {"a": 1}),
        (OBJECT, '{"a": "1"}', {"a": 1}),
        (OBJECT, {"a": "1"}, {"a": 1}),
        (LIST, "[1, 2]", [1, 2]),
        (LIST, '["1", 2.0]', [1, 2]),
        (INTEGER, "5", 5),
        (INTEGER, " 5\n", 5),
        (INTEGER, 5.0, 5),
        (INTEGER, "5.0", 5),
        (NUMBER, "5.5", 5.5),
        (NUMBER, 5.0, 5.0),
        (FLAG, "true", True),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [INTEGER, {"type": "null"}]}, "7", 7),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": True}, "true", True),
        ({"$ref": "#/$defs/n"}, "3", 3),
        ({"type": "object", "additionalProperties": INTEGER}, {"k": "3"}, {"k": 3}),
        ({"type": "array", "prefixItems": [INTEGER, FLAG]}, ["3", "false"], [3, False]),
        # A text stays a text wherever a text is allowed.
        ({"type": "string"}, '{"keep": "me"}', '{"keep": "me"}'),
        ({"type": "string"}, "5", "5"),
        ({"type": ["string", "integer"]}, "5", "5"),
        ({"anyOf": [INTEGER, {"type": "string"}]}, "5", "5"),
        ({"enum": ["1", 1]}, "1", "1"),
        ({}, "5", "5"),
    ],
)
def test_json_in_a_text_is_converted_where_no_text_is_expected(
    schema: dict[str, Any], value: object, fitted: object
) -> None:
    tool = of({"type": "object", "properties": {"v": schema}, "$defs": {"n": INTEGER}})
    faults = check_arguments(tool, {"v": value})["v"]
    assert faults == fitted
    assert type(faults) is type(fitted)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INTEGER, "5m"),
        (INTEGER, "true"),
        (INTEGER, "5.5"),
        (INTEGER, 5.5),
        (INTEGER, True),
        (INTEGER, ""),
        (FLAG, "1"),
        (FLAG, "yes"),
        (FLAG, 1),
        (LIST, "1, 2"),
        (LIST, '{"a": 1}'),
        (LIST, "[1"),
        (OBJECT, "[1]"),
        (OBJECT, "a"),
        (OBJECT, "[" * 5000),
        ({"type": "string"}, 5),
        (NUMBER, "NaN"),
    ],
)
def test_nothing_else_is_coerced(schema: dict[str, Any], value: object) -> None:
    assert "v" in problems(having(v=schema), {"v": value})


def test_all_faults_are_reported_at_once_by_path() -> None:
    tool = of(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "count": {"type": "integer", "minimum": 1},
                "deep": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"a": INTEGER, "kind": {"enum": ["x", "y"]}},
                        "required": ["a"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["name", "count"],
            "additionalProperties": False,
        }
    )
    faults = problems(
        tool, {"count": 0, "nmae": "x", "deep": [{"a": 1}, {"kind": "z", "b": 2}], "odd": 1}
    )
    assert set(faults) == {"name", "count", "nmae", "odd", "deep[1].a", "deep[1].kind", "deep[1].b"}
    assert faults["name"] == faults["deep[1].a"] == "it is required"
    assert faults["nmae"] == "it is unknown; did you mean `name`?"
    assert faults["odd"].startswith("it is unknown; known names: name, count")
    assert "minimum of 1" in faults["count"]


def test_a_choice_of_names_is_reported_as_one() -> None:
    branches = [{"required": ["a"]}, {"required": ["b"]}]
    schema = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}}
    one, some = of({**schema, "oneOf": branches}), of({**schema, "anyOf": branches})
    assert problems(one, {}) == {"arguments": "give exactly one of `a`, `b`"}
    assert problems(one, {"a": 1, "b": 1}) == {
        "arguments": "give exactly one of `a`, `b`; it has `a` and `b`"
    }
    inner = of({"type": "object", "properties": {"x": {"oneOf": branches}}})
    assert problems(inner, {"x": 5}) == {"x": "give exactly one of `a`, `b`"}
    assert problems(some, {}) == {"arguments": "give at least one of `a`, `b`"}


def test_defaults_are_filled_in_at_every_level() -> None:
    inner = {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}
    tool = having(
        a={"type": "array", "default": []},
        b=inner,
        c={"type": "array", "items": inner},
        d={"type": "string", "default": None},
        e={"type": ["string", "null"], "default": None},
        f={"type": "integer"},
    )
    args = {"b": {}, "c": [{}, {"n": 4}]}
    assert check_arguments(tool, args) == {
        "a": [],
        "b": {"n": 3},
        "c": [{"n": 3}, {"n": 4}],
        "e": None,
    }
    first = check_arguments(tool, args)["a"]
    first.append(1)
    assert check_arguments(tool, args)["a"] == []


MANY = [f"value-{number:02}" for number in range(25)]
SHAPE = {
    "oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": INTEGER}, "required": ["kind", "r"]},
        {"type": "object", "properties": {"kind": {"const": "line"}, "to": INTEGER}, "required": ["kind", "to"]},
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"enum": ["a", "b", "c", "d", "e"]}, "x", 'it must be one of "a", "b", "c", "d", "e", not "x"'),
        ({"enum": ["a", 1, None]}, "x", 'it must be one of "a", 1, null, not "x"'),
        ({"const": 3}, 4, "it must be 3, not 4"),
        ({"enum": MANY}, "x", f"it must be one of {', '.join(map(json.dumps, MANY))}, not \"x\""),
        ({"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}, "x", 'it must be one of "a", "b" or null, not "x"'),
        ({"anyOf": [{"enum": ["a"]}, {"const": 2}, INTEGER, LIST]}, "x", 'it must be one of "a", 2 or integer or array, not "x"'),
        ({"oneOf": [INTEGER, {"type": ["boolean", "null"]}]}, "x", 'it must be integer or null or boolean, not "x"'),
        ({"$ref": "#/$defs/e"}, "x", 'it must be one of "p", "q", "r", "s", not "x"'),
        ({"type": "array", "items": {"enum": ["a", "b", "c", "d"]}}, ["x"], 'it must be one of "a", "b", "c", "d", not "x"'),
    ],
)  # fmt: skip
def test_an_error_names_all_valid_arguments(
    schema: dict[str, Any], value: Any, message: str
) -> None:
    whole = {
        "type": "object",
        "properties": {"v": schema},
        "$defs": {"e": {"enum": ["p", "q", "r", "s"]}},
    }
    faults = problems(of(whole), {"v": value})
    assert list(faults.values()) == [message]


@pytest.mark.parametrize(
    ("schema", "value", "faults"),
    [
        ({"anyOf": [{"type": "object", "properties": {"n": {"enum": [1, 2, 3, 4]}}}, {"type": "null"}]}, {"n": 5},
         {"v.n": "it must be one of 1, 2, 3, 4, not 5"}),
        (SHAPE, {"kind": "circle"}, {"v.r": "it is required"}),
        (SHAPE, {"kind": "line", "to": "x"}, {"v.to": 'it must be integer, not "x"'}),
    ],
)  # fmt: skip
def test_the_intended_branch_of_a_choice_is_explained(
    schema: dict[str, Any], value: Any, faults: dict[str, str]
) -> None:
    assert problems(having(v=schema), {"v": value}) == faults


def test_a_value_that_fits_two_branches_of_one_of_is_reported() -> None:
    both = having(v={"oneOf": [INTEGER, {"minimum": 3}, {"type": "string"}]})
    assert problems(both, {"v": 5}) == {
        "v": "it matches more than one of the forms, of which it must match one"
    }
    never = having(v={"anyOf": [False, {"not": {}}]})
    assert "v" in problems(never, {"v": 5})


@pytest.mark.parametrize(
    "schema",
    [
        having(a={"oneOf": [{"type": "null"}, {"type": "null"}], "default": None}),
        having(a={"type": "integer", "default": "x"}),
        having(a={"type": "integer", "minimum": 5, "default": 1}),
        of({**having(a={"type": "string", "default": "x"}).parameters, "maxProperties": 0}),
        of({**having(a={"type": "string", "default": "x"}).parameters, "not": {"required": ["a"]}}),
    ],
    ids=lambda tool: str(tool.parameters)[:60],
)
def test_an_unfitting_default_is_not_filled_in(schema: Tool) -> None:
    assert check_arguments(schema, {}) == {}


def test_defaults_beside_an_unfitting_one_are_filled_in() -> None:
    inner = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    tool = having(a={"type": "integer", "default": "x"}, b={"default": 2}, c=inner)
    assert check_arguments(tool, {"c": {}}) == {"b": 2, "c": {"n": 1}}
    assert problems(tool, {"b": 1, "c": 5}).keys() >= {"c"}


def test_a_long_enum_is_named_in_part_and_counted_with_the_nearest_first() -> None:
    values = [f"{name}-{number}" for number in range(200) for name in ("red", "green", "blue")]
    message = problems(having(v={"enum": values}), {"v": "grene-7"})["v"]
    assert message.startswith('it must be one of "green-7", ') and "of 600 values" in message
    assert len(message) < 500


def test_a_large_value_is_not_repeated_in_the_error() -> None:
    faults = problems(
        having(v={"enum": ["a"]}, w=INTEGER), {"v": "x" * 100_000, "w": "y" * 100_000}
    )
    assert all(len(message) < 300 for message in faults.values())


def test_the_number_of_problems_is_bounded() -> None:
    faults = problems(having(n=INTEGER), {f"k{at}": 1 for at in range(200)})
    assert len(faults) == 51


def test_a_call_that_no_arguments_fit_is_refused_as_any_other() -> None:
    impossible = msgspec.structs.replace(
        of({"type": "object", "anyOf": [{"type": "integer"}]}), stateful=True, actions=("spawn",)
    )
    with pytest.raises(RpcError) as refused:
        read_call(impossible, {"action": "spawn", "id": "a"})
    assert refused.value.kind == "invalid_arguments"
    assert read_run(impossible, {"a": 1}) == {"a": 1}


def test_a_self_reference_ends() -> None:
    tool = of(
        {
            "type": "object",
            "properties": {"v": {"$ref": "#/$defs/loop"}, "t": {"$ref": "#/$defs/tree"}},
            "$defs": {
                "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, INTEGER]},
                "tree": {"type": "object", "properties": {"t": {"$ref": "#/$defs/tree"}}},
            },
        }
    )
    assert check_arguments(tool, {"t": {"t": {"t": {}}}}) == {"t": {"t": {"t": {}}}}
    assert check_arguments(tool, {"v": 3})["v"] == 3


SCHEMAS = st.recursive(
    st.sampled_from([INTEGER, NUMBER, FLAG, {"type": "string"}, {"type": "null"}]),
    lambda inner: (
        st.builds(lambda s: {"type": "array", "items": s}, inner)
        | st.builds(
            lambda p: {"type": "object", "properties": p, "additionalProperties": False},
            st.dictionaries(st.sampled_from("abc"), inner),
        )
    ),
    max_leaves=6,
)
VALUES = {
    "integer": st.integers(-(2**53), 2**53),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "string": st.text(st.characters(codec="utf-8")),
    "null": st.none(),
}


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    match schema["type"]:
        case "array":
            return st.lists(fitting(schema["items"]), max_size=3)
        case "object":
            return st.fixed_dictionaries(
                {}, optional={k: fitting(v) for k, v in schema["properties"].items()}
            )
        case name:
            return VALUES[name]


def stringified(value: Any, schema: dict[str, Any]) -> Any:
    """Return the value as a careless model writes it: JSON in a text, wherever no text is
    expected."""
    if schema["type"] == "array":
        value = [stringified(item, schema["items"]) for item in value]
    elif schema["type"] == "object":
        value = {k: stringified(v, schema["properties"][k]) for k, v in value.items()}
    return value if schema["type"] == "string" else json.dumps(value)


@given(st.data())
def test_valid_arguments_are_unchanged_and_texts_of_them_are_converted(
    data: st.DataObject,
) -> None:
    schema = data.draw(SCHEMAS)
    value = data.draw(fitting(schema))
    tool = having(v=schema)
    args = {"v": value}
    before = copy.deepcopy(args)
    assert check_arguments(tool, args) == before
    assert check_arguments(tool, {"v": stringified(value, schema)}) == before
    assert args == before


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_any_arguments_are_accepted_or_refused(value: Any) -> None:
    """No other exception, and accepted ones fit the schema."""
    tool = having(v=OBJECT, w=LIST)
    for args in ({"v": value}, {"w": value}, value if isinstance(value, dict) else {}):
        try:
            assert tool.validator.is_valid(check_arguments(tool, args))
        except RpcError as error:
            assert error.data["problems"]
