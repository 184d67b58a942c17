"""Choices of very many values."""

from __future__ import annotations

from typing import Any

import pytest

from haftd.schemas import PROVIDERS, UnsupportedSchema, descriptions, object_root, translate
from haftd.schemas.intersection import merge
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.definition import Tool
from haftd.tools.lists.tool_list import make_list

MANY = [f"v{at}" for at in range(3_000)]


def written(schema: dict[str, Any], provider: str) -> Any:
    whole = {"type": "object", "properties": {"a": schema}}
    return translate("It.", whole, PROVIDERS[provider]).parameters["properties"]["a"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_first_of_very_many_values_are_described(provider: str) -> None:
    found = written({"enum": MANY}, provider)
    assert "enum" not in found
    assert found["description"].startswith('One of "v0", "v1"')
    assert "3,000 in all" in found["description"]
    assert "string" in str(found)
    few = written({"enum": MANY[:900]}, provider)
    if provider != "openai":
        assert few["enum"] == MANY[:900]


@pytest.mark.parametrize("provider", ["anthropic", "mcp"])
def test_an_exclusion_of_many_values_stays_exact(provider: str) -> None:
    assert written({"not": {"enum": MANY}}, provider)["not"]["enum"] == MANY
    branches = written({"oneOf": [{"enum": MANY}, {"type": "null"}]}, provider)["oneOf"]
    assert branches[0]["enum"] == MANY


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_of_very_many_properties_is_left_out_and_reported(provider: Any) -> None:
    names = {f"n{at}": {"type": "string"} for at in range(10_000)}
    tool = Tool(name="x", file="f", parameters={"type": "object", "properties": names})
    found, problems = make_list([tool], provider)
    assert found == ()
    assert "10,000 properties" in problems[0].message
    with pytest.raises(UnsupportedSchema):
        translate("", tool.parameters, PROVIDERS[provider])


class Counted(str):
    """A text that counts its comparisons."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_values_of_two_parts_are_compared_once_each() -> None:
    Counted.compared = 0
    one, other = [Counted(each) for each in MANY], [Counted(each) for each in MANY[5:]]
    assert len(merge({"enum": one}, {"enum": other})["enum"]) == 2_995
    # And once more each to see that the two differ.
    assert Counted.compared <= 3 * len(MANY)
    assert merge({"enum": [1, True, None, {"a": 1}]}, {"enum": [1.0, {"a": 1}, [1]]})["enum"] == [
        1,
        {"a": 1},
    ]


def test_values_of_two_branches_are_joined_in_one_pass(monkeypatch: Any) -> None:
    shown: list[Any] = []
    own = descriptions.compact

    def counting(value: object, longest: int = 200) -> str:
        shown.append(value)
        return own(value, longest)

    monkeypatch.setattr(object_root, "compact", counting)
    branches = [
        {"properties": {"a": {"enum": values}}} for values in (MANY[:900], [*MANY[900:1_800], "v0"])
    ]
    translate("", {"type": "object", "anyOf": branches}, PROVIDERS["anthropic"])
    assert len(shown) < 2 * 1_801


def test_a_list_is_made_once_per_reload(
    monkeypatch: Any,
) -> None:
    made: list[str] = []
    own = make_list

    def counting(tools: Any, provider: Any, style: Any, surface: Any) -> Any:
        made.append(provider)
        return own(tools, provider, style, surface)

    monkeypatch.setattr("haftd.tools.lists.toolset.make_list", counting)
    catalogue = Catalogue()
    for provider in ("openai", "google", "openai", "google"):
        catalogue.list_tools(provider)
    assert made == ["openai", "google"]
    catalogue.reload()
    catalogue.list_tools("openai")
    assert made == ["openai", "google", "openai"]
