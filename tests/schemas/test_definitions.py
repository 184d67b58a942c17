"""Difficult parameters in every dialect, accepted by each provider."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from haftd.schemas import PROVIDERS, Translated, UnsupportedSchema, expose_names, translate
from haftd.tools.calls.tool_calls import check_arguments
from haftd.tools.definitions.definition import Tool, compile_schema

from .definitions import NASTY, UNREADABLE
from .provider_judges import JUDGES, refusals


def expressed(schema: Any, provider: str, description: str = "Does it.") -> Translated:
    return translate(description, schema, PROVIDERS[provider])


def test_there_are_forty_definitions_and_a_judge_per_provider() -> None:
    assert len(NASTY) >= 40
    assert JUDGES.keys() == PROVIDERS.keys()


@pytest.mark.parametrize("name", NASTY)
def test_the_definitions_are_valid_and_their_arguments_fit(name: str) -> None:
    schema, args = NASTY[name]
    compile_schema(schema)
    check_arguments(Tool(name="x", file="f", parameters=schema), args)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", NASTY)
def test_each_provider_accepts_each_definition(name: str, provider: str) -> None:
    schema, _ = NASTY[name]
    before = copy.deepcopy(schema)
    shown = expose_names([name])[name]
    expression = expressed(schema, provider)
    assert refusals(provider, shown, expression.description, expression.parameters) == []
    assert schema == before, "what was given is not changed"
    assert expressed(schema, provider) == expression, "the same comes out each time"
    again = translate(expression.description, expression.parameters, PROVIDERS[provider])
    assert again.parameters == expression.parameters
    assert again.description == expression.description


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", UNREADABLE)
def test_an_invalid_schema_is_corrected_or_refused_with_a_sentence(
    name: str, provider: str
) -> None:
    try:
        expression = expressed(UNREADABLE[name], provider)
    except UnsupportedSchema as error:
        assert str(error)
    else:
        assert refusals(provider, "x", expression.description, expression.parameters) == []


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["array", "null"]},
        False,
        {"not": {}},
        {"anyOf": [{"type": "string"}, False]},
        {"type": "object", "allOf": [{"type": "integer"}]},
    ],
)
def test_non_object_parameters_cannot_be_expressed(schema: Any, provider: str) -> None:
    with pytest.raises(UnsupportedSchema):
        expressed(schema, provider)


def test_a_schema_over_a_providers_limits_is_refused_with_the_figures() -> None:
    many = {f"p{n}": {"type": "string"} for n in range(5001)}
    with pytest.raises(UnsupportedSchema, match="5,001 properties"):
        expressed({"type": "object", "properties": many}, "openai")
    long = {"p" * 300 + str(n): {"type": "string"} for n in range(500)}
    with pytest.raises(UnsupportedSchema, match="characters"):
        expressed({"type": "object", "properties": long}, "openai")
    expressed({"type": "object", "properties": many}, "anthropic")


_KINDS = {
    "oneOf": [
        {"properties": {"kind": {"const": "a"}, "x": {}, "y": {}}, "required": ["kind", "x"]},
        {"properties": {"kind": {"const": "b"}, "z": {}}},
    ]
}


@pytest.mark.parametrize(
    ("branches", "sentence"),
    [
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "Give at least one of `a` or `b`."),
        (
            {"anyOf": [{"required": ["a", "b"]}, {}]},
            "Give at least one of these: `a` and `b`; or nothing more.",
        ),
        ({"anyOf": [{}, {}]}, ""),
        (
            _KINDS,
            'Give exactly one of these: `kind` = "a", `x`, perhaps `y`; or `kind` = "b", perhaps `z`.',
        ),
        (
            {"anyOf": [{"properties": {"a": {}}}, {"minProperties": 2}]},
            "Give at least one of these: perhaps `a`; or object, at least 2 names.",
        ),
    ],
)
def test_a_choice_at_the_root_becomes_a_sentence(branches: dict[str, Any], sentence: str) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}, **branches}
    assert expressed(schema, "openai").description == f"Does it. {sentence}".rstrip()


@pytest.mark.parametrize(("count", "has_more"), [(12, False), (13, True)])
def test_the_sentence_of_a_choice_names_a_bounded_number_of_forms(
    count: int, has_more: bool
) -> None:
    forms = [{"properties": {"n": {"const": n}, "x": {}}} for n in range(count)]
    description = expressed({"type": "object", "oneOf": forms}, "openai").description
    assert description.count("perhaps `x`") == 12
    assert description.endswith("; ….") == has_more


@pytest.mark.parametrize("provider", PROVIDERS)
def test_dependencies_of_older_drafts_are_those_of_newer_ones(provider: str) -> None:
    older = {"b": ["c"], "d": {"required": ["e"]}}
    newer = {
        "dependentRequired": {"b": ["c"]},
        "dependentSchemas": {"d": {"required": ["e"]}},
    }
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in "bcde"}}
    assert expressed({**schema, "dependencies": older}, provider) == expressed(
        {**schema, **newer}, provider
    )
    assert expressed({**schema, **newer}, provider) != expressed(schema, provider)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        (["integer"], ["number"], ["integer"]),
        (["number"], ["integer", "string"], ["integer"]),
        (["number", "string"], ["string", "integer"], ["string", "integer"]),
        (["string"], ["string", "integer"], ["string"]),
    ],
)
def test_an_integer_is_a_number(
    left: list[str], right: list[str], both: list[str], provider: str
) -> None:
    def of(*types: list[str]) -> Translated:
        form: dict[str, Any] = {"type": types[0]}
        form |= {"allOf": [{"type": more} for more in types[1:]]} if types[1:] else {}
        return expressed({"type": "object", "properties": {"a": form}}, provider)

    assert of(left, right) == of(both)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_long_description_is_cut_and_necessary_parts_stay(provider: str) -> None:
    schema = {**NASTY["a choice at the root"][0]}
    expression = expressed(schema, provider, "Word. " * 5000)
    assert len(expression.description) <= PROVIDERS[provider].description
    assert expression.description.endswith("Give exactly one of `argv` or `command`.")


def told(schema: Any, provider: str) -> str:
    """Return the description of the single property for the provider."""
    parameters = expressed({"type": "object", "properties": {"a": schema}}, provider).parameters
    text: str = parameters["properties"]["a"].get("description", "")
    return text


@pytest.mark.parametrize(
    ("schema", "provider", "sentence"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 10}, "ollama", "From 1 to 10."),
        ({"type": "integer", "minimum": 1}, "ollama", "At least 1."),
        ({"type": "number", "exclusiveMinimum": 0}, "google", "More than 0."),
        ({"type": "number", "exclusiveMaximum": 2}, "google", "Less than 2."),
        ({"type": "integer", "multipleOf": 5}, "google", "A multiple of 5."),
        ({"type": "string", "minLength": 2, "maxLength": 4}, "openai", "2 to 4 characters."),
        ({"type": "string", "minLength": 3, "maxLength": 3}, "openai", "Exactly 3 characters."),
        ({"type": "string", "format": "uri"}, "google", "Format: uri."),
        ({"type": "string", "default": "x"}, "openai", 'Default: "x".'),
        ({"type": "string", "default": None}, "openai", ""),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "google", "No item twice."),
        ({"type": "string", "pattern": "^(?!a)"}, "openai", 'It must match the regular expression "^(?!a)".'),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
            "google",
            "In this order: 1. string; 2. number.",
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "google", "Any names, each value: integer."),
        ({"type": "object"}, "openai", "Written as JSON text of an object."),
        ({"type": "string", "title": "A", "not": {"const": "x"}}, "google", 'Not "x".'),
        ({"type": "string", "not": {"enum": ["x", "y"]}}, "ollama", 'Not one of "x", "y".'),
        ({"not": {"const": "x"}}, "openai", 'Not "x".'),
        ({"if": {"const": 1}, "then": {"const": 2}}, "openai", "If it is 1: 2."),
        ({"type": "array", "items": {"type": "string"}, "contains": {"const": "x"}}, "google", 'At least one item is "x".'),
        ({"type": "array", "contains": {"type": "integer"}, "minContains": 2}, "google", "At least 2 items are integer."),
        (
            {"type": "object", "properties": {"b": {}}, "propertyNames": {"maxLength": 3}},
            "google",
            "Each name: string, at most 3 characters.",
        ),
        (
            {"type": "object", "patternProperties": {"^x": {"type": "integer", "minimum": 1}}},
            "google",
            'Names that match a regular expression: "^x": integer, at least 1.',
        ),
        (
            {"type": "object", "additionalProperties": {"type": "array", "items": {"enum": ["a", "b"]}}},
            "openai",
            'Written as JSON text of an object, any names, each value: array of one of "a", "b".',
        ),
        (
            {"type": "object", "properties": {"b": {}, "c": {}}, "if": {"required": ["b"]}, "then": {"required": ["c"]}},
            "google",
            "If it is object with `b`: object with `c`.",
        ),
        (
            {"type": "array", "items": {"allOf": [{"oneOf": [{"minimum": 1}, {"maxLength": 2}]}, {"oneOf": [{}, {"type": "string"}]}]}},
            "anthropic",
            "",
        ),
    ],
)  # fmt: skip
def test_removed_keywords_are_described(schema: Any, provider: str, sentence: str) -> None:
    assert told(schema, provider) == sentence
    assert told({**schema, "description": "Mine"}, provider) == (
        f"Mine. {sentence}" if sentence else "Mine"
    )


def test_a_strict_provider_has_every_property_required_and_the_optional_ones_nullable() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"enum": ["x"]}},
        "required": ["a"],
    }
    assert expressed(schema, "openai").parameters == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["integer", "null"]},
            "c": {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}]},
        },
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    }


def test_a_recursive_form_is_cut_at_its_recursion() -> None:
    schema, _ = NASTY["recursive reference"]
    tree = expressed(schema, "google").parameters["properties"]["t"]
    again = tree["properties"]["kids"]["items"]
    assert again["properties"] == {}
    assert again["description"] == 'The same form as "t" above, again.'


def test_references_that_double_stay_small() -> None:
    schema, _ = NASTY["references that double"]
    for provider in PROVIDERS:
        expression = expressed(schema, provider)
        assert len(str(expression.parameters)) < 5_000_000
