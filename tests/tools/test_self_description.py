from __future__ import annotations

import json
from typing import Any

import pytest

from haftd.tools.calls.tool_calls import check_arguments
from haftd.tools.definitions.definition import Tool
from haftd.tools.definitions.self_description import Descriptions, Undescribed, read_description
from tests.tools.definition_kit import called, read, tool

OLDER = "[conversation.tools.x]\n"
OURS = "[tools.x]\n"


@pytest.mark.parametrize(
    "text",
    [
        OURS + 'command = "a {{context}} {{tool}}"',
        OURS + 'command = ["a", "{{ tool | tojson }}"]',
        OURS + 'command = ["a", "--action={{ context.action }}"]',
        OURS + 'command = { program = "a {{context}}", shell = true }',
        OURS + 'source = "local"\ncommand = "a {{context}}"\nparameters.p.default = 5',
        OURS + 'command = "a {{context}}"\nparameters.p.enum = ["b"]',
        OURS + 'command = "a {{context}}"\nparameters.p.properties.q.maximum = 5',
    ],
)
def test_a_definition_that_declares_self_description_is_asked(
    text: str,
) -> None:
    definition = tool(text)
    assert (
        definition.must_describe and not definition.may_describe and not definition.has_parameters
    )


@pytest.mark.parametrize(
    "text",
    [
        OURS + 'source = "local.y"\ncommand = "a"',
        OURS + 'output = "outcome"\ncommand = "a"',
        OURS + 'output = "events"\nstateful = true\ncommand = "a"',
        OURS + 'output = "outcome"\ncommand = "a"\nparameters.p.default = 5',
        OURS + 'output = "outcome"\ncommand = "a"\nparameters.p.const = 5',
        OLDER + 'source = "local"\ncommand = "a b"',
        OLDER + 'command = "a"',
        OLDER + 'source = "local.y"\ncommand = { program = "a", args = ["{{tool}}"] }',
        OLDER + 'command = { program = "a {{ context.action }}", shell = true }',
        OLDER + 'command = "a"\nparameters.p = { enum = ["b"], summary = "c" }',
    ],
)
def test_a_definition_with_a_protocol_may_be_asked(text: str) -> None:
    definition = tool(text)
    assert definition.may_describe and not definition.must_describe


@pytest.mark.parametrize(
    "text",
    [
        OURS + 'command = "a"',
        OURS + 'source = "local"\ncommand = "a"',
        OURS
        + 'command = ["rm", "-r", "{{ tool.options.path }}", "{{ context.root }}/x"]\noptions.path = "p"',
        OURS + 'command = ["a", "{{ context[\'root\'] }}"]',
        OURS + 'command = ["a", { each = "tool.options.args" }]\noptions.args = []',
        OURS + 'source = "local"\noutput = "raw"\ncommand = "a"',
        OURS + 'source = "local"\nstateful = true\ncommand = "a"',
        OURS + 'source = "local"\ncommand = "a"\nparameters = {}',
        OURS + 'source = "local"\ncommand = "a"\nparameters.p = { type = "string" }',
        OURS + 'source = "local"\nruntime = "pty"\nstateful = true\ncommand = "a {{context}}"',
        OURS
        + 'source = "local"\nruntime = "{{ tool.options.r }}"\noptions.r = "pty"\ncommand = "a {{context}}"',
        OURS + 'source = "local"\ncommand = { program = "a {{tool}}", shell = true }',
        OLDER + 'source = "local"\ncommand = { program = "rm {{ context.root }}/x", shell = true }',
        OLDER + 'source = "local"\ncommand = "a"\nparameters.p = { type = "string", enum = ["b"] }',
        OURS + 'output = "outcome"\ncommand = "a"\nparameters.p.properties.q.type = "string"',
        OURS
        + 'output = "outcome"\ncommand = "a"\nparameters = { p.enum = ["b"], q.type = "string" }',
    ],
)
def test_any_other_program_is_not_asked(text: str) -> None:
    assert not tool(text).is_self_describing


def test_packed_and_builtin_tools_are_not_asked() -> None:
    from haftd.tools.catalogue import TOOLPACK, Catalogue

    catalogue = Catalogue(builtin=("ask_user",))
    assert catalogue.find_self_describing() == []
    assert len(catalogue) == len(TOOLPACK) + 1


def say(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"tools": entries}).encode()


def asked(
    text: str = "", name: str = "x", source: str = "local", command: str = "a {{context}}"
) -> Tool:
    return tool(f'[tools.{name}]\nsource = "{source}"\ncommand = "{command}"\n{text}', name)


def test_the_program_fills_the_definitions_gaps() -> None:
    entry = {
        "name": "x",
        "summary": "Short.",
        "description": "Long.",
        "parameters": {
            "package": {"type": "string", "summary": "Which."},
            "times": {"type": "integer", "default": 1},
            "loose": {"type": "boolean", "required": False},
        },
    }
    description = read_description(asked(), say(entry))
    assert (description.summary, description.description) == ("Short.", "Long.")
    assert description.parameters == {
        "type": "object",
        "properties": {
            "package": {"type": "string", "description": "Which."},
            "times": {"type": "integer", "default": 1},
            "loose": {"type": "boolean"},
        },
        "required": ["package"],
        "additionalProperties": False,
    }
    assert description.has_parameters and not description.must_describe
    assert check_arguments(description, {"package": "p"}) == {"package": "p", "times": 1}


def test_the_users_fields_take_precedence_one_by_one() -> None:
    own = """
summary = "Mine."
examples = "x(1)"
[tools.x.parameters.package]
default = "all"
summary = "Mine, too."
[tools.x.parameters.free]
required = false
"""
    entry = {
        "name": "x",
        "summary": "Its.",
        "description": "Its.",
        "examples": "none",
        "parameters": {
            "package": {"type": "string", "summary": "Its.", "enum": ["all", "one"]},
            "free": {"type": "integer"},
            "rest": {"type": "integer"},
        },
    }
    description = read_description(asked(own), say(entry))
    assert (description.summary, description.description, description.examples) == (
        "Mine.",
        "Its.",
        "x(1)",
    )
    package = {
        "type": "string", "enum": ["all", "one"], "default": "all", "description": "Mine, too."
    }  # fmt: skip
    assert description.parameters["properties"]["package"] == package
    assert description.parameters["required"] == ["rest"]


def test_a_narrowed_parameter_keeps_the_programs_other_fields() -> None:
    own = """
parameters.package.enum = ["a", "b"]
parameters.times.maximum = 3
parameters.span.properties.start.minimum = 0
"""
    span = {
        "type": "object",
        "properties": {"start": {"type": "integer"}, "end": {"type": "integer"}},
    }
    entry = {
        "name": "x",
        "parameters": {
            "package": {"type": "string", "summary": "Which.", "enum": ["a", "b", "c"]},
            "times": {"type": "integer", "default": 1},
            "span": span,
            "quiet": {"type": "boolean", "default": False},
        },
    }
    description = read_description(asked(own), say(entry)).parameters
    assert description["properties"]["package"] == {
        "type": "string", "description": "Which.", "enum": ["a", "b"]
    }  # fmt: skip
    assert description["properties"]["times"] == {"type": "integer", "default": 1, "maximum": 3}
    inner = description["properties"]["span"]["properties"]
    assert inner == {"start": {"type": "integer", "minimum": 0}, "end": {"type": "integer"}}
    assert description["properties"]["quiet"] == {"type": "boolean", "default": False}
    assert description["required"] == ["package", "span"]


def test_a_whole_schema_is_kept_and_changed_in_its_properties() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a", "b"],
    }
    description = read_description(
        asked("parameters.b.default = 'x'"), say({"name": "x", "parameters": schema})
    )
    assert description.parameters["required"] == ["a"]
    assert description.parameters["properties"]["b"] == {"type": "string", "default": "x"}


def test_nested_parameters_are_required_unless_they_have_a_default() -> None:
    inner = {"start": {"type": "integer"}, "end": {"type": "integer", "default": 0}}
    listed = {"type": "array", "items": {"type": "object", "properties": inner}}
    description = read_description(asked(), say({"name": "x", "parameters": {"spans": listed}}))
    assert description.parameters["properties"]["spans"]["items"]["required"] == ["start"]


def test_a_serializers_empty_values_count_as_absent() -> None:
    form: dict[str, Any] = {
        "type": "string", "default": None, "enum": [], "summary": None, "items": None,
        "properties": None,
    }  # fmt: skip
    may = {"type": ["string", "null"], "default": None}
    entry = {"name": "x", "summary": None, "parameters": {"p": form, "q": may}}
    description = read_description(asked(), say(entry)).parameters
    assert description["properties"] == {"p": {"type": "string"}, "q": may}
    assert description["required"] == ["p"]


@pytest.mark.parametrize(
    ("name", "source", "names", "description"),
    [
        ("x", "local", ["y", "x"], "x"),
        ("x", "local", ["y"], "y"),
        ("x", "local.y", ["y", "x"], "y"),
        ("x", "local", ["y", "z"], None),
        ("x", "local.w", ["y"], None),
        ("x", "local.w", ["x", "y"], None),
    ],
)
def test_the_entry_is_found_by_source_by_name_or_as_the_only_one(
    name: str, source: str, names: list[str], description: str | None
) -> None:
    answer = say(*({"name": name, "summary": name} for name in names))
    if description is not None:
        assert read_description(asked(name=name, source=source), answer).summary == description
        return
    with pytest.raises(Undescribed, match="describes no tool") as caught:
        read_description(asked(name=name, source=source), answer)
    assert "'y'" in str(caught.value)


def test_the_program_gets_the_name_that_it_knows() -> None:
    definition = read_description(asked(source="local.y"), say({"name": "y"}))
    report = json.loads(called(definition, {}).context_json)["tool"]
    assert report["name"] == "y" and definition.name == "x"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", "printed nothing"),
        (b"usage: x", "no description"),
        (say(), "no tool"),
        (say({"name": "x", "parameters": {"p": {"typo": 1}}}), "parameters.p.typo"),
        (say({"name": "x", "parameters": {"p": {"type": "no"}}}), "parameters.p.type"),
        (
            say({"name": "x", "parameters": {"p": {"pattern": "("}}}),
            "p.pattern` that does not make",
        ),
        (say({"name": "x", "parameters": {"p": 5}}), "a parameter must be a table"),
        (say({"name": "x", "parameters": {"type": "object", "properties": 5}}), "properties"),
        (say({"name": "x", "parameters": {"p": {"$ref": "#/properties/p"}}}), "back to itself"),
        (
            b'{"tools":[{"name":"x","parameters":{"p":%s1%s}}]}' % (b"[" * 900, b"]" * 900),
            "parameter|deep",
        ),
    ],
)
def test_an_invalid_answer_is_reported(said: bytes, words: str) -> None:
    with pytest.raises(Undescribed, match=words):
        read_description(asked(), said)


def test_a_change_of_a_missing_parameter_is_a_fault() -> None:
    entry = {"name": "x", "parameters": {"package": {"type": "string"}}}
    with pytest.raises(Undescribed, match="describes no parameter 'pakcage'"):
        read_description(asked("parameters.pakcage.default = 1"), say(entry))


def test_a_program_is_asked_once_per_root() -> None:
    descriptions, definition = Descriptions(), asked()
    assert descriptions.lacks(definition, "/a")
    descriptions.learn(definition, "/a", "ended with exit code 3")
    assert not descriptions.lacks(definition, "/a") and descriptions.lacks(definition, "/b")
    refusal = descriptions.explain_refusal(definition, "/a", ())
    assert refusal is not None and refusal.kind == "spawn_failed"
    for words in (
        "exit code 3",
        "add `parameters`",
        "0.toml:1",
        'action = "schema"',
        "haft reload",
    ):
        assert words in refusal.message
    assert descriptions.list_problems([definition], "/a")[0].key == "tools.x"
    descriptions.learn(
        definition, "/b", read_description(definition, say({"name": "x", "summary": "s"}))
    )
    assert not descriptions.lacks(definition, "/a") and descriptions.get(definition).summary == "s"
    assert descriptions.list_problems([definition], "/a") == ()
    descriptions.forget(definition)
    assert descriptions.lacks(definition, "/a") and descriptions.get(definition) is definition


def test_the_error_knows_parameters_that_only_change_the_programs() -> None:
    descriptions = Descriptions()
    changed = asked("parameters.a.default = 1")
    assert changed.must_describe and changed.laid_over
    refusal = descriptions.explain_refusal(changed, "/a", ())
    assert refusal is not None and "no parameter in its definition has a type" in refusal.message
    assert "its definition has no `parameters`" not in refusal.message


def test_a_hanging_program_is_asked_in_no_other_root() -> None:
    descriptions, definition = Descriptions(), asked()
    descriptions.learn(definition, "/a", "did not end within 10 s", anywhere=True)
    assert not descriptions.lacks(definition, "/a") and not descriptions.lacks(definition, "/b")
    assert "did not end within 10 s" in descriptions.list_problems([definition], "/b")[0].message
    descriptions.forget(definition)
    assert descriptions.lacks(definition, "/b")


def test_an_optional_description_is_requested_once_and_may_be_missing() -> None:
    descriptions, definition = Descriptions(), asked('output = "outcome"', command="a")
    assert (
        descriptions.lacks(definition, "/a")
        and descriptions.list_problems([definition], "/a") == ()
    )
    assert descriptions.explain_refusal(definition, "/a", ()) is None
    descriptions.learn(definition, "/a", "printed nothing")
    assert not descriptions.lacks(definition, "/a") and descriptions.get(definition) is definition
    refusal = descriptions.explain_refusal(definition, "/a", {"p": 1})
    assert refusal is not None and refusal.kind == "invalid_arguments"
    assert "takes no arguments" in refusal.message and "printed nothing" in refusal.message
    assert descriptions.explain_refusal(definition, "/a", ()) is None
    assert [problem.key for problem in descriptions.list_problems([definition], "/a")] == [
        "tools.x"
    ]
    descriptions.forget(definition)
    assert descriptions.lacks(definition, "/a")
    given = asked('output = "outcome"\nparameters.p.default = 5', command="a")
    descriptions.learn(given, "/a", "printed nothing")
    assert descriptions.explain_refusal(given, "/a", {"p": 1}) is None


def test_remembered_answers_of_roots_are_bounded() -> None:
    descriptions, definition = Descriptions(), asked('output = "outcome"', command="a")
    for at in range(100):
        descriptions.learn(definition, f"/{at}", "printed nothing")
    assert descriptions.lacks(definition, "/0") and not descriptions.lacks(definition, "/99")
    assert len(descriptions._failures[definition]) <= 32


def test_a_definitions_answer_is_forgotten_with_it() -> None:
    descriptions = Descriptions()
    for _ in range(3):
        definition = asked()
        descriptions.learn(definition, "/", read_description(definition, say({"name": "x"})))
        assert descriptions.get(definition) is not definition
    del definition
    assert len(descriptions._described) == 0


def test_two_definitions_of_one_binary_stand_beside_each_other() -> None:
    tools, problems = read(
        '[conversation.tools.check]\nsource = "local"\ncommand = "t"\n'
        '[conversation.tools.test]\nsource = "local"\ncommand = "t"\n'
    )
    assert problems == []
    answer = say({"name": "check", "summary": "c"}, {"name": "test", "summary": "t"})
    assert [read_description(tool, answer).summary for tool in tools.values()] == ["c", "t"]


def test_an_older_program_without_an_answer_is_no_problem() -> None:
    descriptions, definition = Descriptions(), tool(OLDER + 'command = "a {{context}}"')
    descriptions.learn(definition, "/a", "printed no description of tools")
    assert descriptions.explain_refusal(definition, "/a", ()) is None and not descriptions.lacks(
        definition, "/a"
    )
    assert (
        descriptions.list_problems([definition], "/a") == ()
        and descriptions.list_failures([definition]) == ()
    )


def test_a_programs_long_texts_are_in_the_description_only() -> None:
    parameters = {"p": {"type": "string", "summary": "Short.", "description": "Long."}}
    entry = {"name": "x", "summary": "S.", "description": "D.", "parameters": parameters}
    description = read_description(asked(), say(entry))
    assert description.parameters["properties"]["p"]["description"] == "Short."
    assert description.details == {"p": "Long."}
