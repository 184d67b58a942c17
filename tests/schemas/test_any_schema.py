"""Any schema: providers accept the rewritten one, and a model's answer is accepted, converted,
or refused with a path."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from haft_protocol.errors import RpcError
from haftd.schemas import PROVIDERS, Translated, UnsupportedSchema, translate
from haftd.schemas.intersection import merge
from haftd.schemas.normalization import normalize
from haftd.tools.calls.tool_calls import check_arguments
from haftd.tools.definitions.definition import Tool

from .provider_judges import refusals
from .random_schemas import law, schemas, values


def each(schema: dict[str, Any]) -> Iterator[tuple[str, Translated]]:
    """Yield the schema for each provider that can express it."""
    for provider, dialect in PROVIDERS.items():
        try:
            yield provider, translate("Does it.", schema, dialect)
        except UnsupportedSchema as error:
            assert str(error)


def read(schema: Any) -> Any:
    """Return OpenAPI's `nullable` as JSON Schema, for a validator."""
    if isinstance(schema, list):
        return [read(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: read(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [found, {"type": "null"}]} if schema.get("nullable") is True else found


@law(schemas())
def test_every_provider_accepts_every_schema(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    for provider, expression in each(schema):
        assert refusals(provider, "x", expression.description, expression.parameters) == []
        assert translate("Does it.", schema, PROVIDERS[provider]) == expression
        again = translate(expression.description, expression.parameters, PROVIDERS[provider])
        assert (again.description, again.parameters) == (
            expression.description,
            expression.parameters,
        )
    assert schema == before


def test_an_unfitting_default_survives_a_lossless_dialect() -> None:
    form = {"oneOf": [{"type": "null"}, {"type": "null"}], "default": None}
    schema = {"type": "object", "properties": {"a": form}}
    assert any(expression.lossless for _, expression in each(schema))
    assert check_arguments(Tool(name="x", file="f", parameters=schema), {}) == {}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_renamed_property_without_values_is_restored(provider: str) -> None:
    closed = {"properties": {"größe": {"type": "string"}}, "additionalProperties": False}
    form = {
        "type": "object",
        "allOf": [closed, {"properties": {"a": {}}, "additionalProperties": False}],
    }
    choice = {"anyOf": [{"type": "object"}, {"type": "string"}]}
    schema = {
        "type": "object",
        "properties": {"b": {**form, "anyOf": [{}, {}], "allOf": [*form["allOf"], choice]}},
    }
    expression = translate("", schema, PROVIDERS[provider])
    again = translate("", expression.parameters, PROVIDERS[provider])
    assert again.parameters == expression.parameters


def descriptions(schema: Any) -> Iterator[str]:
    """All descriptions in a written schema."""
    for value in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(value, dict | list):
            yield from descriptions(value)
    if isinstance(schema, dict) and isinstance(schema.get("description"), str):
        yield schema["description"]


@law(schemas())
def test_no_description_contains_a_schema(schema: dict[str, Any]) -> None:
    """Unsupported keywords are described in words: a model reads no notation."""
    for _, expression in each(schema):
        for text in (expression.description, *descriptions(expression.parameters)):
            assert "JSON Schema" not in text
            assert not re.search(
                r'"(type|properties|items|required|not|enum|const|\w+Of)": ?', text
            )


@law(st.data())
def test_an_answer_accepted_by_a_dialect_is_accepted_or_refused_with_a_path(
    data: st.DataObject,
) -> None:
    schema = data.draw(schemas())
    tool = Tool(name="x", file="f", parameters=schema)
    for provider, expression in each(schema):
        value = data.draw(values(expression.parameters), label=provider)
        assume(isinstance(value, dict))
        fits = jsonschema_rs.is_valid(read(expression.parameters), value)
        before = copy.deepcopy(value)
        try:
            check_arguments(tool, value)
        except RpcError as error:
            assert error.kind == "invalid_arguments"
            assert error.data["problems"]
            for problem in error.data["problems"]:
                assert problem["path"] and problem["message"]
            assert not (expression.lossless and fits), f"{provider} said that nothing was lost"
        assert value == before


_PARTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"prefixItems": [{"type": ["string"]}]}, {"items": {"type": ["integer"]}}),
    (
        {"prefixItems": [{"type": ["string"]}], "items": {"type": ["null"]}},
        {"prefixItems": [{}, {}]},
    ),
    ({"contains": {"type": ["string"]}}, {"minContains": 2}),
    ({"contains": {"type": ["string"]}}, {"contains": {"type": ["null"]}, "minContains": 2}),
    ({"additionalProperties": False}, {"patternProperties": {"^a": {}}}),
    (
        {"patternProperties": {"^a": {}}, "additionalProperties": {"type": ["string"]}},
        {"properties": {"b": {"type": ["integer"]}}},
    ),
    (
        {"patternProperties": {"^a": {"minLength": 1}}},
        {"patternProperties": {"^a": {"maxLength": 2}}},
    ),
]
_VALUES: tuple[Any, ...] = (
    *(
        [],
        ["a"],
        [1],
        ["a", 1],
        [1, "a"],
        ["a", None],
        ["a", None, None],
        ["a", "b"],
        ["a", "b", None],
    ),
    *({}, {"a": 1}, {"a": "x"}, {"a": ""}, {"a": "xyz"}, {"b": 1}, {"b": "x"}),
)


@pytest.mark.parametrize("parts", [*_PARTS, *(parts[::-1] for parts in _PARTS)])
def test_joined_schemas_take_what_both_take(parts: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """`items` of one is about the items behind its own `prefixItems`, not behind the other's."""
    joined = merge(*parts)
    for value in _VALUES:
        fits = all(jsonschema_rs.is_valid(part, value) for part in parts)
        assert jsonschema_rs.is_valid(joined, value) is fits, (value, joined)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_most_common_schemas_are_lossless(provider: str) -> None:
    """So that the law above is not empty."""
    schema = {
        "type": "object",
        "properties": {
            "s": {"type": "string", "enum": ["a", "b"]},
            "n": {"type": ["integer", "null"]},
            "l": {"type": "array", "items": {"type": "string"}},
            "o": {"type": "object", "properties": {"x": {"type": "boolean"}}},
            "c": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["s"],
    }
    assert translate("", schema, PROVIDERS[provider]).lossless


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("values", [["a", "b"], ["a"], ["a", "b", "c"], [1, 2], [0.5, 2.5]])
def test_a_short_choice_stays_a_choice(provider: str, values: list[Any]) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": values}}, "required": ["a"]}
    found = translate("", schema, PROVIDERS[provider]).parameters["properties"]["a"]
    as_texts = provider == "google"
    assert found["enum"] == [str(value) if as_texts else value for value in values]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_both_truth_values_are_a_boolean_and_a_single_one_a_choice(provider: str) -> None:
    forms = {"a": {"enum": [True, False]}, "b": {"enum": [True]}}
    schema = {"type": "object", "properties": forms, "required": ["a", "b"]}
    found = translate("", schema, PROVIDERS[provider]).parameters["properties"]
    if provider not in ("anthropic", "mcp"):  # these keep every keyword
        assert found["a"] == {"type": "boolean"}
        assert found["b"]["enum"] == (["true"] if provider == "google" else [True])


@pytest.mark.parametrize(
    ("schema", "provider"),
    [
        ({"type": "string", "minLength": 1}, "openai"),
        ({"type": "integer", "exclusiveMinimum": 0}, "google"),
        ({"type": "integer", "minimum": 0}, "ollama"),
        ({"type": "string", "pattern": "^(?!a)"}, "openai"),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "google"),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, "openai"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "openai"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "openai"),
        ({"enum": [f"{n}" * 200 for n in range(300)]}, "openai"),
        ({"type": "string", "not": {"const": "x"}}, "google"),
        ({"const": None}, "google"),
        ({"$ref": "#"}, "anthropic"),
    ],
)
def test_losses_are_reported(schema: dict[str, Any], provider: str) -> None:
    parameters = {"type": "object", "properties": {"a": schema}}
    assert not translate("", parameters, PROVIDERS[provider]).lossless
    for root in ({"anyOf": [{"required": ["a"]}]}, {"not": {"required": ["a"]}}):
        plain = {"type": "object", "properties": {"a": {"type": "string"}}, **root}
        assert not translate("", plain, PROVIDERS[provider]).lossless


@pytest.mark.parametrize("place", ["9", "9" * 5000])
def test_a_reference_to_a_missing_list_position_accepts_anything(place: str) -> None:
    form = {"type": "object", "properties": {"v": {"$ref": f"#/x/{place}"}}, "x": [{}]}
    assert normalize(form)["properties"]["v"] == {}
