from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.references import find_endless

A = {"$ref": "#/properties/a"}


def having(a: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": a, **more}}


@pytest.mark.parametrize(
    "schema",
    [
        having(A),
        having({"allOf": [A, A]}),
        having({"anyOf": [{"type": "null"}, A]}),
        having({"oneOf": [{"allOf": [A]}]}),
        having({"not": A}),
        having({"if": {"type": "string"}, "then": A}),
        having({"dependentSchemas": {"x": A}}),
        having({"$ref": "#/properties/b"}, b=A),
        having({"anyOf": [{"$ref": "#/properties/b"}]}, b={"allOf": [A]}),
        having({"type": "string"}, b={"items": {"$ref": "#/properties/b/items"}}),
    ],
)
def test_a_reference_to_the_same_value_is_named(schema: dict[str, Any]) -> None:
    found = find_endless(schema)
    assert found is not None and found.startswith("#/properties/")


@pytest.mark.parametrize(
    "schema",
    [
        having({"type": "string"}, b=A, c={"allOf": [A, A]}),
        having({"anyOf": [{"type": "null"}, {"properties": {"a": A}}]}),
        having({"items": A}),
        having({"properties": {"not": A, "allOf": A}}),
        having({"default": {"$ref": "#/properties/a/default"}}),
        having({"additionalProperties": {"$ref": "#"}}),
        having({"$ref": "#/nowhere"}),
        having({"$ref": "https://example.org/a"}),
    ],
)
def test_a_recursive_or_repeated_reference_is_valid(schema: dict[str, Any]) -> None:
    assert find_endless(schema) is None


def test_a_long_chain_of_references_is_followed_without_recursion() -> None:
    forms: dict[str, Any] = {
        f"f{at}": {"allOf": [{"$ref": f"#/$defs/f{at + 1}"}] * 3} for at in range(5_000)
    }
    assert find_endless({"$defs": {**forms, "f5000": {}}}) is None
    assert find_endless({"$defs": {**forms, "f5000": {"$ref": "#/$defs/f0"}}}) is not None


def test_a_definition_with_a_reference_loop_is_a_problem_and_the_others_stand(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        '[tools.good]\ncommand = ["true"]\n'
        '[tools.bomb]\nsource = "local"\ncommand = ["true"]\n[tools.bomb.parameters]\n'
        'a = { allOf = [{"$ref" = "#/properties/a"}, {"$ref" = "#/properties/a"}] }\n'
    )
    catalogue = Catalogue([file], toolpack=())
    assert [tool.name for tool in catalogue.list_tools("generic")[0]] == ["good"]
    (problem,) = catalogue.problems
    assert problem.key.startswith("tools.bomb.parameters")
    assert "`#/properties/a`" in problem.message
