"""The schema of a stateful tool: a variant per action, or one object with per-action rules."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import jsonschema_rs
import pytest

from haft_protocol.inputs import read_input
from haftd.schemas import PROVIDERS, UnsupportedSchema, translate
from haftd.schemas.calls import AWAIT_PARAMETERS, INPUT, READING, stateful

from .definitions import NASTY
from .provider_judges import refusals

ALL = ("spawn", "fetch", "apply", "abort")
OWN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where."},
        "pattern": {"type": "string", "description": "What to look for."},
        "deep": {"type": "boolean", "default": False},
    },
    "required": ["path"],
    "additionalProperties": False,
}

CALLS = [
    ({"action": "spawn", "id": "a", "path": "x"}, True),
    ({"action": "spawn", "id": "a", "path": "x", "pattern": "y"}, True),
    ({"action": "fetch", "id": "a", "wait": "pattern", "pattern": "x", "timeout_ms": 5}, True),
    ({"action": "apply", "id": "a", "input": {"keys": ["C-c"]}, "view": "screen"}, True),
    ({"action": "apply", "id": "a", "input": "text"}, True),
    ({"action": "apply", "id": "a", "input": True}, True),
    ({"action": "abort", "id": "a"}, True),
    ({"action": "spawn", "id": "a", "path": "x", "wait": "stopped", "timeout_ms": 5}, True),
    ({"action": "spawn", "id": "a", "path": "x", "wait": "soon"}, False),
    ({"action": "stop", "id": "a"}, False),
    ({"action": "spawn", "path": "x"}, False),
    ({"id": "a"}, False),
    ({"action": "fetch", "id": "a b"}, False),
    ({"action": "fetch", "id": "a", "wait": "soon"}, False),
    ({"action": "spawn", "id": "a", "path": 5}, False),
    ({"action": "spawn", "id": "a", "path": "x", "more": 1}, False),
]


@pytest.mark.parametrize("style", ["oneof", "flat"])
@pytest.mark.parametrize(("call", "right"), CALLS)
def test_both_styles_accept_valid_calls(style: Any, call: dict[str, Any], right: bool) -> None:
    schema = stateful(OWN, ALL, style)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert jsonschema_rs.is_valid(schema, call) == right


def test_variants_refuse_fields_of_another_action() -> None:
    schema = stateful(OWN, ALL, "oneof")
    assert not jsonschema_rs.is_valid(schema, {"action": "spawn", "id": "a"})
    assert not jsonschema_rs.is_valid(schema, {"action": "abort", "id": "a", "wait": "none"})
    assert not jsonschema_rs.is_valid(schema, {"action": "fetch", "id": "a", "path": "x"})


def test_one_object_describes_which_field_is_for_which_action() -> None:
    schema = stateful(OWN, ALL, "flat")
    assert "oneOf" not in schema
    assert schema["required"] == ["action", "id"]
    assert list(schema["properties"]) == [
        "action", "id", "path", "pattern", "deep", "wait", "timeout_ms", "view", "input",
    ]  # fmt: skip
    texts = {name: form.get("description") for name, form in schema["properties"].items()}
    assert texts["path"] == "For spawn, required. Where."
    assert texts["deep"] == "For spawn."
    assert texts["wait"].startswith("For spawn, fetch and apply. When to answer")
    assert texts["input"].startswith("For apply, required.")
    assert texts["action"].startswith(
        "spawn: start a run under a new `id`, with `path`; fetch: read the output"
    )
    both = schema["properties"]["pattern"]["anyOf"]
    assert [form["description"] for form in both] == [
        "For spawn. What to look for.",
        "For fetch and apply. A regular expression; by itself it means wait = pattern.",
    ]


@pytest.mark.parametrize("style", ["oneof", "flat"])
def test_a_parameter_named_like_a_read_option_is_the_tools_own_at_spawn(style: Any) -> None:
    own = {"type": "object", "properties": {"wait": {"type": "integer"}}, "required": ["wait"]}
    schema = stateful(own, ALL, style)
    assert jsonschema_rs.is_valid(schema, {"action": "spawn", "id": "a", "wait": 5})
    assert jsonschema_rs.is_valid(schema, {"action": "fetch", "id": "a", "wait": "none"})
    if style == "oneof":
        assert not jsonschema_rs.is_valid(schema, {"action": "spawn", "id": "a", "wait": "none"})


@pytest.mark.parametrize("style", ["oneof", "flat"])
def test_defaults_are_described(style: Any) -> None:
    text = str(stateful(OWN, ALL, style))
    for default in (
        "By default spawn and apply wait for input on a terminal and for a moment (250 ms) on a pipe; fetch does not wait.",
        "Default: 10,000.",
        "delta (the default): what is new",
        "'default': False",
    ):
        assert default in text
    assert "by default without a limit." in str(AWAIT_PARAMETERS)


ONE_SHOT_CALLS = [
    ({"path": "x"}, True),
    ({"path": "x", "pattern": "y", "deep": True}, True),
    ({"action": "spawn", "id": "a", "path": "x"}, True),
    ({"action": "fetch", "id": "a"}, True),
    ({"path": 5}, False),
    ({"path": "x", "more": 1}, False),
]


@pytest.mark.parametrize("style", ["oneof", "flat"])
@pytest.mark.parametrize(("call", "right"), ONE_SHOT_CALLS)
def test_a_tool_with_one_shot_accepts_calls_without_an_action(
    style: Any, call: dict[str, Any], right: bool
) -> None:
    schema = stateful(OWN, ALL, style, one_shot=True)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert jsonschema_rs.is_valid(schema, call) == right
    if "action" not in call:
        assert not jsonschema_rs.is_valid(stateful(OWN, ALL, style), call)


def test_a_call_without_an_action_has_required_arguments_and_no_id() -> None:
    schema = stateful(OWN, ALL, "oneof", one_shot=True)
    assert not jsonschema_rs.is_valid(schema, {})
    assert not jsonschema_rs.is_valid(schema, {"path": "x", "id": "a"})
    assert "the reply has its result" in schema["oneOf"][-1]["description"]
    flat = stateful(OWN, ALL, "flat", one_shot=True)["properties"]
    assert flat["path"]["description"].startswith("For spawn and without `action`, required.")
    assert flat["action"]["description"].startswith("Without `action`: run it to its end")


def test_only_supported_actions_are_described() -> None:
    flat = stateful(OWN, ("spawn", "fetch"), "flat")
    assert flat["properties"]["action"]["enum"] == ["spawn", "fetch"]
    assert "input" not in flat["properties"]
    assert "apply:" not in flat["properties"]["action"]["description"]
    assert len(stateful(OWN, ("spawn", "fetch"), "oneof")["oneOf"]) == 2


@pytest.mark.parametrize("style", ["oneof", "flat"])
@pytest.mark.parametrize("name", ["action", "id"])
def test_a_parameter_cannot_have_a_protocol_name(style: Any, name: str) -> None:
    own = {"type": "object", "anyOf": [{"properties": {name: {"type": "string"}}}]}
    with pytest.raises(UnsupportedSchema, match=f"`{name}`"):
        stateful(own, ALL, style)


def test_root_constraints_are_described_with_spawn() -> None:
    own = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    text = stateful(own, ALL, "flat")["properties"]["action"]["description"]
    assert "For spawn: Give exactly one of `a` or `b`." in text
    text = stateful(own, ALL, "flat", one_shot=True)["properties"]["action"]["description"]
    assert "For spawn and without `action`: Give exactly one of `a` or `b`." in text
    assert stateful(own, ALL, "oneof")["oneOf"][0]["oneOf"] == own["oneOf"]


@pytest.mark.parametrize(
    "own",
    [
        {"allOf": [{"type": "object", "properties": {"v": {"type": "integer"}}, "additionalProperties": False}]},
        {"type": "object", "properties": {"v": {"type": "integer"}}, "maxProperties": 1},
        {"type": "object", "properties": {"v": {"type": "integer"}}, "propertyNames": {"maxLength": 1}},
        {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}},
        {"type": "object", "properties": {"v": {"anyOf": [{"$ref": "#/properties/w"}]}, "w": {"type": "integer"}}},
        {"type": "object", "properties": {"v": {"type": "integer"}}, "unevaluatedProperties": False},
    ],
)  # fmt: skip
def test_parameters_mean_the_same_beside_action_and_id(own: dict[str, Any]) -> None:
    schema = stateful(own, ALL, "oneof")
    assert jsonschema_rs.is_valid(schema, {"action": "spawn", "id": "a", "v": 3})
    assert not jsonschema_rs.is_valid(schema, {"action": "spawn", "id": "a", "v": "x"})


@pytest.mark.parametrize("name", NASTY)
def test_a_difficult_tool_can_be_stateful(name: str) -> None:
    schema, args = NASTY[name]
    before = copy.deepcopy(schema)
    variants = stateful(schema, ALL, "oneof", one_shot=True)
    flat = stateful(schema, ALL, "flat", one_shot=True)
    for call in ({"action": "spawn", "id": "a", **args}, args):
        assert jsonschema_rs.is_valid(variants, call)
        assert jsonschema_rs.is_valid(flat, call)
    for provider, dialect in PROVIDERS.items():
        one = translate("Does it.", flat, dialect)
        assert refusals(provider, "x", one.description, one.parameters) == []
    assert schema == before


@pytest.mark.parametrize(
    "value",
    [
        "text", {"line": "x"}, {"keys": ["C-c"]}, {"paste": "x"}, {"text": "x"}, {"eof": True},
        {"signal": "INT"}, {"resize": {"rows": 3, "cols": 4}}, {"line": "x", "secret": True},
    ],
)  # fmt: skip
def test_the_schema_of_an_input_accepts_the_inputs_of_apply(value: Any) -> None:
    read_input(value)
    assert jsonschema_rs.is_valid(INPUT, value)


def test_the_forms_of_the_protocol_are_schemas() -> None:
    for form in (INPUT, *READING.values(), AWAIT_PARAMETERS):
        jsonschema.Draft202012Validator.check_schema(form)
        one = translate("x", {"type": "object", "properties": {"v": form}}, PROVIDERS["google"])
        assert refusals("google", "x", one.description, one.parameters) == []
