"""Lists of one toolset, cached until a self-description changes."""

from __future__ import annotations

import json

from msgspec.structs import replace

from haftd.tools.definitions.self_description import Descriptions, read_description
from haftd.tools.lists.tool_list import ToolList
from haftd.tools.lists.toolset import Toolset
from tests.tools.definition_kit import tool

ASKED = tool('[tools.x]\ncommand = "a {{context}}"')
PLAIN = replace(tool('[tools.x]\ncommand = "a"'), name="y")
EXPLICIT = replace(PLAIN, name="z", enable="explicit")


def describe(descriptions: Descriptions, summary: str) -> None:
    entry = {"name": "x", "summary": summary, "parameters": {}}
    outcome = read_description(ASKED, json.dumps({"tools": [entry]}).encode())
    descriptions.learn(ASKED, "/r", outcome)


def described(made: ToolList) -> list[str]:
    return [info.description for info in made[0]]


def test_a_list_made_in_a_thread_during_a_change_is_never_served() -> None:
    toolset, descriptions = Toolset({"x": ASKED}), Descriptions()
    describe(descriptions, "Old.")
    make = toolset.prepare_list("generic", None, descriptions)
    describe(descriptions, "New.")
    assert described(make()) == ["Old."]
    assert toolset.find_list("generic", None, descriptions) is None
    assert described(toolset.list_tools("generic", None, descriptions)) == ["New."]
    make()
    assert described(toolset.list_tools("generic", None, descriptions)) == ["New."]


def test_a_list_is_made_once() -> None:
    toolset, descriptions = Toolset({"y": PLAIN}), Descriptions()
    made = toolset.prepare_list("generic", None, descriptions)()
    assert toolset.list_tools("generic", None, descriptions) is made
    describe(descriptions, "Of another tool.")
    assert toolset.find_list("generic", None, descriptions) is made


def test_an_explicit_tool_is_callable_and_in_no_list() -> None:
    toolset = Toolset({"y": PLAIN, "z": EXPLICIT})
    assert toolset.list_callable_names() == ["y", "z"]
    infos, _ = toolset.list_tools("generic", None, Descriptions())
    assert [info.name for info in infos] == ["y"]
