"""The list of tools for a provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from haft_protocol.errors import RpcError
from haft_protocol.methods import Provider, Style
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.definition import Tool
from haftd.tools.lists.full_description import describe
from haftd.tools.lists.tool_list import info, make_list
from tests.schemas.definitions import NASTY
from tests.schemas.provider_judges import JUDGES, refusals

from .definition_kit import packed, tool

PROVIDERS: tuple[Provider, ...] = get_args(Provider)
STYLES: tuple[Style | None, ...] = (None, *get_args(Style))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_toolpack_fits_every_provider(provider: Provider, style: Style | None) -> None:
    tools, problems = Catalogue().list_tools(provider, style)
    assert problems == ()
    assert [tool.name for tool in tools] == ["await", "git_rebase", "git_stage", "run", "shell"]
    for entry in tools:
        flat = style == "flat" or provider not in ("generic", "mcp")
        assert entry.stateful is False or ("oneOf" in entry.parameters) is not (
            flat or (style is None and provider == "mcp")
        )
        if provider in JUDGES:
            assert refusals(provider, entry.name, entry.description, entry.parameters) == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_tool_that_cannot_be_expressed_is_left_out_by_name(provider: Provider) -> None:
    good = tool('[tools.x]\ncommand = "a"\nparameters.v = { type = "string" }\n')
    bad = Tool(
        name="bad",
        file="f.toml",
        line=7,
        stateful=True,
        actions=("spawn",),
        parameters={"type": "object", "properties": {"id": {"type": "string"}}},
    )
    tools, problems = make_list([bad, good], provider)
    assert [entry.name for entry in tools] == ["x"]
    [problem] = problems
    assert (problem.file, problem.line, problem.key) == ("f.toml", 7, "tools.bad.parameters")
    assert problem.message.startswith(f"the tool is not listed for {provider}: its parameter `id`")


def test_a_tool_too_large_for_one_provider_is_listed_for_the_others() -> None:
    many = {f"p{n}": {"type": "string"} for n in range(5001)}
    large = Tool(name="large", file="f", parameters={"type": "object", "properties": many})
    small = Tool(name="small", file="f")
    tools, problems = make_list([large, small], "openai")
    assert [entry.name for entry in tools] == ["small"]
    assert "5,001 properties" in problems[0].message
    assert len(make_list([large, small], "anthropic")[0]) == 2


@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_difficult_tools_are_listed_together(provider: Provider) -> None:
    tools = [Tool(name=name, file="f", parameters=schema) for name, (schema, _) in NASTY.items()]
    found, problems = make_list(tools, provider)
    assert problems == ()
    assert len({entry.name for entry in found}) == len(tools)
    if provider in JUDGES:
        assert {entry.tool if entry.tool else entry.name for entry in found} == set(NASTY)
        for entry in found:
            assert refusals(provider, entry.name, entry.description, entry.parameters) == []


def test_a_shown_name_is_mapped_back_to_the_tool(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[tools."a.b"]\ncommand = "a"\n[tools.a_b]\ncommand = "b"\n')
    catalogue = Catalogue((tmp_path,), ())
    tools, _ = catalogue.list_tools("openai")
    shown = next(tool.name for tool in tools if tool.tool == "a.b")
    assert shown.startswith("a_b_")
    assert catalogue.find(shown) is catalogue.find("a.b")
    assert catalogue.find("a_b").name == "a_b"
    assert [tool.name for tool in catalogue.list_tools("generic")[0]] == ["a.b", "a_b"]
    (tmp_path / "a.toml").write_text('[tools.a_b]\ncommand = "b"\n')
    catalogue.reload()
    with pytest.raises(RpcError):
        catalogue.find(shown)


def test_a_tool_without_a_description_gets_one_where_required() -> None:
    silent = Tool(name="silent", file="f")
    assert info(silent).description == ""
    assert make_list([silent], "google")[0][0].description == "The tool silent."


def test_a_tool_is_described_in_full() -> None:
    own = tool("""
[tools.x]
command = "a"
summary = "Short."
description = "Long."
examples = "x --v 3"
[tools.x.parameters]
v = { type = "integer", minimum = 1, maximum = 9, required = true, description = "How many." }
kind = { type = "string", enum = ["a", "b"], default = "a" }
[tools.x.parameters.o]
type = "array"
items = { type = "object", properties = { name = { type = "string", minLength = 1 } }, required = ["name"] }
""")
    description = describe(own)
    assert (description.summary, description.description, description.examples) == (
        "Short.",
        "Long.",
        "x --v 3",
    )
    assert [(p.name, p.type, p.required, p.description) for p in description.parameters] == [
        ("v", "integer", True, "How many. From 1 to 9."),
        ("kind", "string", False, 'One of "a", "b".'),
        ("o", "list of object", False, ""),
        ("o[].name", "string", True, "Not empty."),
    ]
    assert description.parameters[1].default == "a"


def test_six_levels_and_256_parameters_are_described() -> None:
    form: dict[str, Any] = {"type": "integer"}
    for _ in range(7):
        form = {"type": "object", "properties": {"l": form}}
    deep = describe(Tool(name="x", file="f", parameters=form))
    assert [entry.name for entry in deep.parameters] == [".".join("l" * n) for n in range(1, 7)]
    for count, notes in ((256, ""), (257, "Only the first 256 parameters are described here.")):
        names = {f"n{at}": {"type": "string"} for at in range(count)}
        parameters = {"type": "object", "properties": names}
        wide = describe(Tool(name="x", file="f", parameters=parameters))
        assert (len(wide.parameters), wide.description) == (256, notes)


def test_root_constraints_are_described() -> None:
    description = describe(packed("run"))
    assert "Give exactly one of `argv` or `command`." in description.description
    assert {p.name for p in description.parameters} >= {"argv", "command", "cwd", "timeout_s"}


@pytest.mark.parametrize("name", NASTY)
def test_any_tool_can_be_described(name: str) -> None:
    described = describe(Tool(name="x", file="f", parameters=NASTY[name][0]))
    assert len(described.parameters) <= 256
    assert len({p.name for p in described.parameters}) <= len(described.parameters)


LONG = """
[tools.x]
command = "true"
summary = "Do it."
description = "At length."
[tools.x.parameters.a]
type = "string"
summary = "Short."
description = "Long text about a."
[tools.x.parameters.b]
type = "string"
description = "The only text."
[tools.x.parameters.spans]
type = "array"
items = { type = "object", properties = { start = { type = "integer", summary = "From.", description = "Long text about start." } } }
"""


def test_the_list_has_the_summaries_and_the_description_the_long_texts() -> None:
    definition = tool(LONG)
    listed = info(definition)
    properties = listed.parameters["properties"]
    start = properties["spans"]["items"]["properties"]["start"]
    assert listed.description == "Do it."
    assert (properties["a"]["description"], properties["b"]["description"]) == (
        "Short.",
        "The only text.",
    )
    assert start["description"] == "From."
    description = describe(definition)
    texts = {parameter.name: parameter.description for parameter in description.parameters}
    assert (description.summary, description.description) == ("Do it.", "At length.")
    assert "Short." in texts["a"] and "Long text about a." in texts["a"]
    assert texts["b"] == "The only text."
    assert "From." in texts["spans[].start"] and "Long text about start." in texts["spans[].start"]


def test_a_tool_without_a_summary_is_listed_with_its_description() -> None:
    assert info(tool('[tools.x]\ncommand = "a"\ndescription = "At length."')).description == (
        "At length."
    )
