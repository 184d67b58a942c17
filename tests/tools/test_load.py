from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from haftd.tools.definitions import fields, runtime_names
from haftd.tools.definitions.access import NOTHING, AccessPolicy
from haftd.tools.definitions.approval_policy import find_mode
from haftd.tools.definitions.definition import Command, Each, QuestionPolicy, Tool

from .definition_kit import called, read, tool

EVERYTHING = """
[tools.x]
source = "local"
command = ["prog", "{{ tool.name }}", { each = "tool.arguments.args" }]
runtime = "pty"
summary = "short"
description = "long"
examples = "an example"
stateful = true
actions = ["abort", "spawn"]
on_turn_end = "await"
on_disconnect = "abort"
size_threshold = "2 KiB"
cwd = "sub"
rows = 30
cols = "{{ tool.arguments.cols }}"
enable = "explicit"
run = { spawn = "ask", fetch = "unattended" }
result = "unattended"
format = "ask"
options = { image = "i" }
style = { inline_results = "off" }
access = { fs.read = ["a"] }
sandbox = "root"
unsafe = true
limits = { memory = "1 GiB", cpu_s = 1.5, wall_s = "{{ tool.arguments.t }}", processes = 5, output = 100 }
env = { A = "{{ tool.name }}", B = 3, C = true, D = false }
[tools.x.questions.sure]
target = "user"
[tools.x.questions.fixed]
answer = true
[tools.x.parameters]
args = { type = "array", items = { type = "string" }, summary = "all of them" }
cols = { type = "integer", required = true }
t = { type = "number" }
"""


def test_every_field_is_read_and_kept() -> None:
    tools, problems = read(EVERYTHING)
    assert problems == []
    definition = tools["x"]
    assert definition.command == Command(("prog", "{{ tool.name }}", Each("tool.arguments.args")))
    assert (definition.source, definition.runtime, definition.output) == ("local", "pty", "raw")
    assert (definition.summary, definition.description, definition.examples) == (
        "short",
        "long",
        "an example",
    )
    assert (definition.stateful, definition.actions) == (True, ("spawn", "abort"))
    assert (definition.on_turn_end, definition.on_disconnect) == ("await", "abort")
    assert (definition.size_threshold, definition.cwd) == (2048, "sub")
    assert (definition.rows, definition.cols) == (30, "{{ tool.arguments.cols }}")
    assert (definition.enable, definition.result) == ("explicit", "unattended")
    assert definition.run == {"spawn": "ask", "fetch": "unattended"}
    assert definition.kept == {"format": "ask"}
    assert definition.options == {"image": "i"}
    assert definition.style == {"inline_results": "off"}
    assert definition.access == {"fs": {"read": ["a"]}}
    assert definition.unsafe and definition.policy is None
    assert definition.limits == {
        "memory": 2**30,
        "cpu_s": 1.5,
        "wall_s": "{{ tool.arguments.t }}",
        "processes": 5,
        "output": 100,
    }
    assert definition.env == {"A": "{{ tool.name }}", "B": "3", "C": True, "D": False}
    assert definition.questions["sure"] == QuestionPolicy("user")
    assert definition.questions["sure"].answer is UNSET
    assert definition.questions["fixed"] == QuestionPolicy(answer=True)
    assert definition.parameters["required"] == ["cols"]
    assert definition.parameters["properties"]["args"]["description"] == "all of them"
    assert (definition.file, definition.line) == ("0.toml", 2)


OLDER = """
[assistant]
name = "someone"
[conversation.tools.'*']
run = "ask"
style.inline_results = "full"
[conversation.tools.my_check]
enable = true
run = "unattended"
format = "unattended"
cancellation_response = "no"
source = "local"
command = "just serve-tools {{context}} {{tool}}"
summary = "Check."
style.results_file_link = "off"
[conversation.tools.my_check.parameters.package]
type = "string"
required = true
description = "What to check."
[conversation.tools.my_check.parameters.paths]
type = "array"
items.type = "object"
items.properties.start = { type = "integer", required = true }
[conversation.tools.other]
source = "local"
command = { program = "echo", args = ["a", "{{ tool.arguments.b }}"], shell = true }
parameters.b.type = "string"
"""


def test_the_defaults_for_all_tools_hold_in_either_form() -> None:
    """`run = "ask"` for all tools must not pass over some of them."""
    text = """
[conversation.tools.older]
source = "local"
command = "echo"
[conversation.tools.'*']
result = "skip"
[tools.'*']
run = "ask"
result = "ask"
[tools.newer]
command = "echo"
parameters = {}
"""
    tools, problems = read(text)
    assert problems == []
    runs = {
        name: (find_mode(tool, "call"), find_mode(tool, "result")) for name, tool in tools.items()
    }
    assert runs == {"older": ("ask", "skip"), "newer": ("ask", "ask")}


def test_older_files_are_read_unchanged() -> None:
    tools, problems = read(OLDER)
    assert problems == []
    check, other = tools["my_check"], tools["other"]
    assert check.command == Command(("just", "serve-tools", "{{context}}", "{{tool}}"))
    assert (check.run, check.output, check.stateful) == ("unattended", "outcome", False)
    assert check.style == {"inline_results": "full", "results_file_link": "off"}
    assert check.kept == {"format": "unattended", "cancellation_response": "no"}
    assert check.parameters["required"] == ["package"]
    inner = check.parameters["properties"]["paths"]["items"]
    assert inner["required"] == ["start"]
    assert "required" not in inner["properties"]["start"]
    assert other.command == Command(("echo", "a", "{{ tool.arguments.b }}"), "sh")
    assert (other.run, other.style) == ("ask", {"inline_results": "full"})


def test_an_unknown_field_is_named_in_both_forms_and_fatal_in_ours() -> None:
    for form, kept in (("tools", False), ("conversation.tools", True)):
        tools, problems = read(f'[{form}.x]\ncommand = "a"\nroww = 3\n')
        assert [(p.key, p.line) for p in problems] == [(f"{form}.x.roww", 3)]
        assert "did you mean `rows`?" in problems[0].message
        assert ("x" in tools) == kept


WRONG = [
    ('command = ""', "command"),
    ("command = []", "command"),
    ("command = 3", "command"),
    ('command = "a \'b"', "command"),
    ('command = "a {{ b"', "command"),
    ('command = "a {{ nope }}"', "command"),
    ('command = "a {% if tool %}b c{% endif %}"', "command"),
    ('command = ["a", 3]', "command.1"),
    ('command = ["a", { each = "(" }]', "command.1"),
    ('command = ["a", { every = "tool" }]', "command.1"),
    ('command = "a\\u0000b"', "command"),
    ('command = { args = ["a"] }', "command.program"),
    ('command = { program = "a", shell = "fish" }', "command.shell"),
    ('command = { program = "a", arg = [] }', "command.arg"),
    ('command = "a"\nruntime = "docker"', "runtime"),
    ('command = "a"\nsource = "remote"', "source"),
    ('command = "a"\nsource = "mcp"', "source"),
    ('command = "a"\nstateful = "yes"', "stateful"),
    ('command = "a"\nactions = ["fetch"]', "actions"),
    ('command = "a"\nactions = ["spawn", "kill"]', "actions"),
    ('command = "a"\nstateful = false\nactions = ["spawn"]', "actions"),
    ('command = "a"\none_shot = true', "one_shot"),
    ('command = "a"\none_shot = "yes"\nstateful = true', "one_shot"),
    ('command = "a"\none_shot = true\nstateful = true\nruntime = "pty"', "one_shot"),
    ('command = "a"\noutput = "xml"', "output"),
    ('command = "a"\nruntime = "pty"\noutput = "events"', "output"),
    ('command = "a"\nrows = 0', "rows"),
    ('command = "a"\nrows = true', "rows"),
    ('command = "a"\nsize_threshold = "big"', "size_threshold"),
    ('command = "a"\nlimits.memory = "-1"', "limits.memory"),
    ('command = "a"\nlimits.memry = 1', "limits.memry"),
    ('command = "a"\nlimits.wall_s = 0', "limits.wall_s"),
    ('command = "a"\nlimits.processes = 1.5', "limits.processes"),
    ('command = "a"\nenv.HAFT_HANDLE = "x"', "env.HAFT_HANDLE"),
    ('command = "a"\nenv."a=b" = "x"', "env.a=b"),
    ('command = "a"\nenv.A = "{{ who }}"', "env.A"),
    ('command = "a"\nenv.A = []', "env.A"),
    ('command = "a"\nrun = "always"', "run"),
    ('command = "a"\nrun = { spwn = "ask" }', "run.spwn"),
    ('command = "a"\nenable = 3', "enable"),
    ('command = "a"\nquestions.q.target = "cat"', "questions.q.target"),
    ('command = "a"\nquestions.q.answer = ["yes"]', "questions.q.answer"),
    ('command = "a"\nquestions.q.answer = 2026-11-28', "questions.q.answer"),
    ('command = "a"\nquestions.q.timeout_s = -1', "questions.q.timeout_s"),
    ('command = "a"\nquestions.q.timeout_s = 31536001', "questions.q.timeout_s"),
    ('command = "a"\nquestions.q.timeout_s = true', "questions.q.timeout_s"),
    ('command = "a"\nquestions.q.timeout_s = "5"', "questions.q.timeout_s"),
    ('command = "a"\nparameters.p = "string"', "parameters.p"),
    ('command = "a"\nparameters.p.tpye = "string"', "parameters.p.tpye"),
    ('command = "a"\nparameters.p.type = "strin"', "parameters.p.type"),
    ('command = "a"\nparameters.p.pattern = "("', "parameters.p.pattern"),
    ('command = "a"\nparameters.p = { "$ref" = "http://127.0.0.1:1/x" }', "parameters"),
    ('summary = "no command"', "command"),
]


@pytest.mark.parametrize(("text", "key"), WRONG)
def test_an_invalid_definition_is_left_out_and_named_and_the_rest_works(
    text: str, key: str
) -> None:
    tools, problems = read(f'[tools.good]\ncommand = "a"\n\n[tools.x]\n{text}\n')
    assert list(tools) == ["good"]
    assert [problem.key for problem in problems] == [f"tools.x.{key}"]
    assert isinstance(problems[0].line, int)
    assert problems[0].line >= 4


@pytest.mark.parametrize("default", ['"x"', "1", "[]"])
def test_a_default_that_does_not_fit_its_parameter_is_named(default: str) -> None:
    form = f'{{ type = "integer", minimum = 5, default = {default} }}'
    tools, problems = read(
        f'[tools.x]\ncommand = "a"\n[tools.x.parameters]\nok = {{ default = 3 }}\nq = {form}'
    )
    assert list(tools) == ["x"]
    assert [(problem.key, problem.line) for problem in problems] == [
        ("tools.x.parameters.q.default", 5)
    ]
    assert "`q`" in problems[0].message


@pytest.mark.parametrize("name", ["a b", "", "-a", "é", "a" * 65, "await", "a/b"])
def test_an_invalid_name_is_refused(name: str) -> None:
    tools, problems = read(f'[tools."{name}"]\ncommand = "a"\n[tools.good]\ncommand = "a"\n')
    assert list(tools) == ["good"]
    assert len(problems) == 1


def test_a_later_file_overrides_field_by_field() -> None:
    below = """
[tools.x]
command = ["a", "b"]
summary = "below"
rows = 10
env = { A = "1", B = "2" }
parameters.p = { type = "string", description = "one", required = true }
parameters.q = { type = "string" }
"""
    above = """
[tools.x]
command = ["c"]
rows = 20
env.B = "3"
parameters.p.description = "two"
"""
    tools, problems = read(below, above)
    definition = tools["x"]
    assert problems == []
    assert definition.command == Command(("c",))
    assert (definition.summary, definition.rows, definition.env) == (
        "below",
        20,
        {"A": "1", "B": "3"},
    )
    properties = definition.parameters["properties"]
    assert properties["p"] == {"type": "string", "description": "two"}
    assert definition.parameters["required"] == ["p"]
    assert "q" in properties


def test_an_invalid_override_keeps_the_overridden_definition() -> None:
    tools, problems = read('[tools.x]\ncommand = "a"\n', "[tools.x]\nrows = 0\n")
    assert tools["x"].rows == 24
    assert [(p.file, p.key, p.line) for p in problems] == [("1.toml", "tools.x.rows", 2)]


def test_an_override_alone_is_no_tool() -> None:
    tools, problems = read("[tools.x]\nrows = 3\n")
    assert tools == {}
    assert "needs a `command`" in problems[0].message


@pytest.mark.parametrize("text", ["tools = 3", "[conversation]\ntools = []", "[tools]\nx = 3"])
def test_a_section_of_another_kind_is_named(text: str) -> None:
    tools, problems = read(text)
    assert tools == {}
    assert len(problems) == 1


def test_defaults_for_all_tools_lie_below_each() -> None:
    text = '[tools."*"]\nrun = "ask"\n[tools.x]\ncommand = "a"\n[tools.y]\ncommand = "a"\nrun = "skip"\n'
    tools, problems = read(text)
    assert problems == []
    assert (tools["x"].run, tools["y"].run) == ("ask", "skip")
    assert "x" not in read('[tools."*"]\ncommand = "a"\n')[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("stdio", "outcome", ())),
        ("stateful = true", ("stdio", "raw", ("spawn", "fetch", "apply", "abort"))),
        ('actions = ["spawn", "fetch"]', ("stdio", "raw", ("spawn", "fetch"))),
        ('runtime = "pty"', ("pty", "raw", ())),
        ('runtime = "vfs"', ("vfs", "events", ())),
        (
            'stateful = true\noutput = "events"',
            ("stdio", "events", ("spawn", "fetch", "apply", "abort")),
        ),
    ],
)
def test_omitted_fields_follow_from_the_given_ones(text: str, expected: tuple[Any, ...]) -> None:
    definition = tool(f'[tools.x]\ncommand = "a"\n{text}\n')
    assert (definition.runtime, definition.output, definition.actions) == expected


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ('source = "builtin"', "source", "its own are ask_user, describe_tools"),
    ],
)
def test_an_unrunnable_definition_is_kept_with_the_reason(
    text: str, key: str, message: str
) -> None:
    tools, problems = read(f"[tools.x]\n{text}\n")
    assert tools["x"].unserved
    assert [p.key for p in problems] == [f"tools.x.{key}"]
    assert message in problems[0].message


def test_a_module_is_a_problem_without_its_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_names, "find_engine_folder", lambda: None)
    tools, problems = read('[tools.x]\ncommand = "plug/a.wasm b"\n')
    assert "install `haftd[wasm]`" in tools["x"].unserved
    assert [p.key for p in problems] == ["tools.x.runtime"]
    assert "install `haftd[wasm]`" in problems[0].message
    tools, _ = read('[tools.x]\ncommand = "plug/a.wasm"\nruntime = "vfs"\n')
    assert "install `haftd[wasm]`" in tools["x"].unserved


def test_a_command_that_ends_in_wasm_is_a_module_with_nothing() -> None:
    module = tool('[tools.x]\ncommand = "plug/a.wasm b"\n')
    assert (module.runtime, module.output, module.policy) == ("wasm", "outcome", NOTHING)
    module = tool(
        '[tools.x]\ncommand = "a"\nruntime = "wasm"\naccess.fs.read = ["."]\nunsafe = true\n'
    )
    assert module.policy is not None and module.policy.may("read", "/") is False
    assert module.policy.fs and module.policy.net == ()


@pytest.mark.parametrize(
    ("rules", "key", "why"),
    [
        ('access.net = [{ host = "*" }]', "access.net", "has no network"),
        ("access.commands = { git = {} }", "access.commands", "runs no programs"),
        ('access.fs.write = ["a"]', "access.fs", "without reading"),
        (
            'access.fs.read = ["."]\naccess.fs.update = ["a"]\nunsafe = true',
            "access.fs",
            "a part of `write`",
        ),
        ("limits.fuel = 1.5", "limits.fuel", "a whole number"),
    ],
)
def test_a_rule_that_no_module_can_have_is_refused(rules: str, key: str, why: str) -> None:
    tools, problems = read(f'[tools.x]\ncommand = "a.wasm"\n{rules}\n')
    assert not tools
    assert [problem.key for problem in problems] == [f"tools.x.{key}"]
    assert why in problems[0].message


def test_a_runtime_elsewhere_is_ignored_with_a_warning() -> None:
    tools, problems = read('[tools.x]\nsource = "mcp.a.b"\nruntime = "wasm"\nenable = false\n')
    assert tools["x"].runtime == "stdio"
    assert ["it is ignored" in problem.message for problem in problems] == [True]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("true", "on"),
        ("false", "off"),
        ('"always"', "on"),
        ('"off"', "off"),
        ("{ state = false, allow_toggle = true }", "off"),
    ],
)
def test_all_forms_of_enable_are_read(value: str, expected: str) -> None:
    assert tool(f'[tools.x]\ncommand = "a"\nenable = {value}\n').enable == expected


def test_a_whole_schema_is_kept_unchanged() -> None:
    definition: Tool = tool("""
[tools.x]
command = "a"
[tools.x.parameters]
type = "object"
additionalProperties = true
anyOf = [{ required = ["a"] }, { properties = { b = { const = 1 } } }]
properties.a = { type = "string" }
properties.b = { type = "object", properties = { c = { type = "null" } } }
""")
    schema = definition.parameters
    assert schema["additionalProperties"] is True
    assert schema["anyOf"] == [{"required": ["a"]}, {"properties": {"b": {"const": 1}}}]
    assert schema["properties"]["b"]["additionalProperties"] is False


def test_a_condition_closes_no_table_whose_siblings_name_more() -> None:
    definition: Tool = tool("""
[tools.x]
command = "a"
[tools.x.parameters]
type = "object"
properties.a = { type = "string" }
if = { properties = { a = { const = "b" } } }
dependentSchemas.a = { properties = { c = { type = "null" } } }
""")
    schema = definition.parameters
    assert schema["if"] == {"properties": {"a": {"const": "b"}}}
    assert schema["dependentSchemas"] == {"a": {"properties": {"c": {"type": "null"}}}}


def test_the_documented_example_is_valid() -> None:
    page = Path(__file__).parents[2] / "docs" / "definitions.md"
    text = page.read_text().partition("```toml\n")[2].partition("```")[0]
    definition = tool(text, "build")
    call = called(definition, {"targets": ["all", "-k"]}, "/r")
    assert call.launch.argv == ("make", "-C", ".", "--", "all", "-k")
    assert call.env_overlay == {"CFLAGS": "-O2", "MAKEFLAGS": None, "CI_TOKEN": True}
    assert call.launch.limits == {"wall_s": 600, "memory": 2 * 2**30}


def test_the_documentation_names_every_field() -> None:
    page = Path(__file__).parents[2] / "docs" / "definitions.md"
    table = page.read_text().partition("## Fields")[2]
    named = set(re.findall(r"`([a-z_]+)`", table))
    assert set(fields.READERS) - {"command", "format", "cancellation_response"} <= named


def test_the_form_that_has_the_rules_decides_about_kinds_without_rules() -> None:
    older = '[conversation.tools.x]\ncommand = "a"\naccess = { fs = [] }\n'
    tools, problems = read(older)
    assert problems == [] and tools["x"].access == {"fs": []}
    assert tools["x"].policy == AccessPolicy(fs=())
    tools, problems = read(older, "[tools.x]\nunsafe = true\n")
    assert problems == [] and tools["x"].policy is None
    tools, problems = read(older, "[tools.x]\naccess = { net = [] }\n")
    assert problems == [] and tools["x"].policy == AccessPolicy((), (), (), ())


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ('p.type = "strnig"', "p.type", "did you mean `string`?"),
        (
            'p.type = ["string", "nil"]',
            "p.type",
            "it is 'nil'; a type must be one of string, integer,",
        ),
        ("p.type = 5", "p.type", "it is 5"),
        ('p = { type = "array", items = { type = "int" } }', "p.items.type", "`integer`"),
        ('p = { anyOf = [{ type = "text" }] }', "p.anyOf.0.type", "it is 'text'"),
        ('p = { type = "object", properties.q.type = "x" }', "p.properties.q.type", "it is 'x'"),
        ('type = "object"\nproperties.p.type = "strin"', "properties.p.type", "`string`"),
        ('p = { type = "string", pattern = "(" }', "p.pattern", "does not make a schema"),
        ('p.minimum = "low"', "p.minimum", "does not make a schema"),
        (
            'type = "object"\nproperties.p.minimum = "low"',
            "properties.p.minimum",
            "not make a schema",
        ),
    ],
)
def test_an_invalid_schema_keyword_is_named_with_its_parameter(
    text: str, key: str, message: str
) -> None:
    tools, problems = read(f'[tools.x]\ncommand = "a"\n[tools.x.parameters]\n{text}\n')
    assert tools == {}
    assert [problem.key for problem in problems] == [f"tools.x.parameters.{key}"]
    assert message in problems[0].message


@pytest.mark.parametrize("timeout_s", [0, 0.5, 31_536_000])
def test_the_time_for_an_answer_is_up_to_a_year(timeout_s: float) -> None:
    tools, problems = read(f'[tools.x]\ncommand = "a"\nquestions.q.timeout_s = {timeout_s}\n')
    assert problems == [] and tools["x"].questions["q"].timeout_s == timeout_s
