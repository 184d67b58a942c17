from __future__ import annotations

import json

import pytest

from haftd.tools.definitions.self_description import Undescribed, read_description
from tests.tools.definition_kit import read, tool

DECLARES = """
options = { image = "i" }
[tools.x.parameters]
path = { type = "string" }
span = { type = "object", properties = { start = { type = "integer" } } }
free = { type = "object" }
"""


@pytest.mark.parametrize(
    ("field", "name", "why"),
    [
        ('command = "rm -rf build/{{ tool.arguments.typo }}"', "tool.arguments.typo", "it has"),
        ('command = "rm {{ tool.arguments.pat }}"', "tool.arguments.pat", "did you mean `path`?"),
        ("command = \"rm {{ tool.arguments['pat'] }}\"", "tool.arguments.pat", "`path`"),
        ('command = ["rm", { each = "tool.arguments.paths" }]', "tool.arguments.paths", "`path`"),
        (
            'command = { program = "rm -rf build/{{ tool.arguments.typo }}", shell = true }',
            "tool.arguments.typo",
            "`parameters` does not declare",
        ),
        ('command = "rm {% if tool.arguments.all %}*{% endif %}"', "tool.arguments.all", "declare"),
        ('command = "rm {{ tool.arguments.span.end }}"', "tool.arguments.span.end", "`start`"),
        ('command = "rm {{ tool.options.imag }}"', "tool.options.imag", "did you mean `image`?"),
        ('command = "rm {{ tool.argument.path }}"', "tool.argument.path", "`tool` has"),
        ('command = "rm {{ context.folder }}"', "context.folder", "`context` has"),
        ('command = "a"\nenv = { A = "{{ tool.arguments.a }}" }', "tool.arguments.a", "declare"),
        ('command = "a"\ncwd = "{{ tool.arguments.a }}"', "tool.arguments.a", "declare"),
        ('command = "a"\nlimits.wall_s = "{{ tool.arguments.a }}"', "tool.arguments.a", "declare"),
        ('command = "a"\nstyle.parameters = "b {{ tool.arguments.a }}"', "tool.arguments.a", ""),
    ],
)
def test_a_template_with_an_undeclared_name_is_an_error_at_load(
    field: str, name: str, why: str
) -> None:
    tools, problems = read(f"[tools.x]\n{field}{DECLARES}")
    assert tools == {}
    (problem,) = problems
    assert f"uses `{name}`, which " in problem.message and why in problem.message
    assert problem.key.startswith("tools.x.")


@pytest.mark.parametrize(
    "command",
    [
        "a {{ tool.arguments.path }} {{ tool.arguments['path'] }}",
        "a {{ tool.arguments.span.start }} {{ tool.arguments.free.anything }}",
        "a {{ tool.answers.any }} {{ tool.options.image }} {{ tool.name }} {{ tool.arguments }}",
        "a {{ tool.options.more | default('b') }} {{ tool.options.more is defined }}",
        "a {{ context.root }} {{ context.access.fs }} {{ tool.arguments[tool.arguments.path] }}",
        "a {% for key, value in tool.arguments.items() %}{{ key }}{% endfor %}",
    ],
)
def test_declared_and_builtin_names_are_permitted(command: str) -> None:
    tools, problems = read(f'[tools.x]\ncommand = "{command}"{DECLARES}')
    assert (list(tools), problems) == (["x"], [])


@pytest.mark.parametrize(
    ("parameters", "is_right"),
    [
        ("", False),
        ("parameters = {}", False),
        ('parameters = { type = "object" }', True),
        ('parameters = { type = "object", properties = {}, additionalProperties = true }', True),
        ('parameters = { type = "object", patternProperties = { "^v" = {} } }', True),
        ('parameters = { type = "object", oneOf = [{ properties.v = {} }, { properties.w = {} }] }', True),
        ('parameters = { type = "object", "$ref" = "#/$defs/d", "$defs".d.properties.v = {} }', True),
        ('parameters = { type = "object", "$ref" = "#/$defs/d", "$defs".d.properties.w = {} }', False),
    ],
)  # fmt: skip
def test_any_property_of_the_schema_declares_an_argument(parameters: str, is_right: bool) -> None:
    tools, problems = read(f'[tools.x]\ncommand = "a {{{{ tool.arguments.v }}}}"\n{parameters}\n')
    assert bool(tools) == is_right and bool(problems) != is_right


def test_an_older_definition_obeys_the_same_rule() -> None:
    text = '[conversation.tools.x]\nsource = "local"\ncommand = "rm {{tool.arguments.typo}}"\n'
    tools, problems = read(text)
    assert tools == {} and problems[0].key == "conversation.tools.x.command"
    assert read(text + "parameters.typo.type = 'string'\n")[1] == []


def test_a_self_described_program_must_describe_the_names_in_its_command() -> None:
    definition = tool('[tools.x]\ncommand = "a {{ context }} {{ tool.arguments.v }}"')

    def say(name: str) -> bytes:
        parameters = {name: {"type": "string"}}
        return json.dumps({"tools": [{"name": "x", "parameters": parameters}]}).encode()

    assert read_description(definition, say("v")).parameters["required"] == ["v"]
    with pytest.raises(Undescribed, match=r"does not describe all parameters: `command`.*`w`$"):
        read_description(definition, say("w"))
    assert read('[tools.x]\noutput = "outcome"\ncommand = "a {{ tool.arguments.v }}"')[0] == {}
