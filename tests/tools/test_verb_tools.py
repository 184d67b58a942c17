"""The tools that a model starts: the names beside the definition's own."""

from __future__ import annotations

import pytest

from haftd.tools.lists.verb_tools import start_names, start_parameters

from .definition_kit import packed, tool


@pytest.mark.parametrize(
    ("name", "words"),
    [("run", {"id", "wait_s"}), ("shell", {"id", "wait_s", "command"})],
)
def test_a_start_takes_a_first_line_where_the_definition_describes_one(
    name: str, words: set[str]
) -> None:
    assert start_names(packed(name)) == words


def test_names_of_the_definition_are_its_own() -> None:
    own = '[tools.x]\ncommand = "a"\nparameters.wait_s = { type = "integer" }\n'
    assert start_names(tool(own)) == {"id"}


def test_a_start_without_parameters_has_an_empty_table_of_them() -> None:
    bare = tool('[tools.x]\ncommand = "a"\nparameters.type = "object"\n')
    assert start_parameters(bare)["properties"] == {}
