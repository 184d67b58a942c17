from __future__ import annotations

from typing import Any

import pytest

from haft_protocol.approvals import PolicedAction
from haftd.methods.approval_gate import definition_key
from haftd.tools.definitions.approval_policy import find_mode, render, run_modes
from haftd.tools.definitions.definition import Command, Each, Tool
from tests.tools.definition_kit import read

ACTIONS: tuple[PolicedAction, ...] = ("spawn", "call", "fetch", "apply", "abort")


@pytest.mark.parametrize(
    ("run", "modes"),
    [
        (None, ("unattended",) * 5),
        ("ask", ("ask", "ask", "unattended", "unattended", "unattended")),
        ("skip", ("skip", "skip", "unattended", "unattended", "unattended")),
        ({"spawn": "ask"}, ("ask", "ask", "unattended", "unattended", "unattended")),
        ({"call": "edit"}, ("edit", "edit", "unattended", "unattended", "unattended")),
        (
            {"call": "edit", "spawn": "unattended"},
            ("unattended", "edit", "unattended", "unattended", "unattended"),
        ),
        ({"default": "ask"}, ("ask",) * 5),
        (
            {"default": "ask", "fetch": "unattended", "apply": "skip"},
            ("ask", "ask", "unattended", "skip", "ask"),
        ),
    ],
)
def test_each_action_has_its_mode(run: Any, modes: tuple[str, ...]) -> None:
    tool = Tool(name="t", file="t.toml", run=run)
    assert tuple(find_mode(tool, action) for action in ACTIONS) == modes
    on_handles = dict(zip(ACTIONS[2:], modes[2:], strict=True))
    assert run_modes(tool) == {k: v for k, v in on_handles.items() if v != "unattended"}


@pytest.mark.parametrize(
    ("definition", "is_confined"),
    [
        ("", False),
        ('sandbox = "root"', True),
        ("access.fs.read = ['.']", True),
        ("access.net = []", True),
        ("access.fs.read = ['.']\nunsafe = true", False),
        ('runtime = "vfs"', True),
        ('runtime = "vfs"\nunsafe = true', False),
    ],
)
def test_sandboxed_asks_for_a_tool_that_no_sandbox_holds(
    definition: str, is_confined: bool
) -> None:
    tool = read(f'[tools.t]\ncommand = "c"\nrun = "sandboxed"\n{definition}\n')[0]["t"]
    assert tool.is_confined is is_confined
    assert find_mode(tool, "spawn") == ("unattended" if is_confined else "ask")


@pytest.mark.parametrize(
    ("rules", "is_confined"),
    [
        ('[[conversation.tools.t.access.fs]]\npath = "."\nread = true', False),
        (
            (
                '[[conversation.tools.t.access.fs]]\npath = "."\nread = true\n'
                '[[conversation.tools.t.access.net]]\nhost = "a.example"'
            ),
            True,
        ),
    ],
)
def test_a_kind_that_the_older_form_leaves_open_confines_nothing(
    rules: str, is_confined: bool
) -> None:
    text = f'[conversation.tools.t]\ncommand = "c"\nrun = "sandboxed"\n{rules}\n'
    assert read(text)[0]["t"].is_confined is is_confined


def test_a_result_is_not_released_by_a_sandbox() -> None:
    (problem,) = read('[tools.t]\ncommand = "c"\nresult = "sandboxed"\n')[1]
    assert problem.key == "tools.t.result"


def test_arguments_are_shown_whole_with_invisible_characters_escaped() -> None:
    values = {"a": "x\u202ey\u200b\x1b[2J", "b": [1, None]}
    assert render({}, "t", values) == (
        '{\n  "a": "x\\u202ey\\u200b\\u001b[2J",\n  "b": [\n    1,\n    null\n  ]\n}'
    )
    shown = render({"parameters": "function_call"}, "t", values)
    assert shown == 't(a="x\\u202ey\\u200b\\u001b[2J", b=[1, null])'
    assert render({"parameters": "off"}, "t", values) == ""
    assert render({"parameters": Command(("x",))}, "t", values) == render({}, "t", values)


def test_arguments_too_long_to_show_are_reported() -> None:
    shown = render({"parameters": "function_call"}, "t", {"a": "x" * 20_000})
    assert len(shown) < 17_000 and shown.endswith("… 3623 more characters are not shown")


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ('"json"', "json"),
        ('"off"', "off"),
        ('"show --as {{ tool.name }}"', Command(("show", "--as", "{{ tool.name }}"))),
        ('["show", { each = "tool.arguments.x" }]', Command(("show", Each("tool.arguments.x")))),
        ('{ program = "show", args = ["-v"] }', Command(("show", "-v"))),
        ('{ program = "show | sort", shell = true }', Command(("show | sort",), "sh")),
    ],
)
def test_arguments_are_rendered_by_a_style_or_a_command(written: str, read_as: object) -> None:
    tools, problems = read(
        f'[tools.x]\ncommand = "true"\nstyle.parameters = {written}\nparameters.x = {{}}\n'
    )
    assert problems == [] and tools["x"].style["parameters"] == read_as


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("3", "style.parameters"),
        ('""', "style.parameters"),
        ('{ args = ["x"] }', "style.parameters.program"),
        ('{ program = "x", wat = 1 }', "style.parameters.wat"),
        ('["x", "{{ tool. }}"]', "style.parameters.1"),
    ],
)
def test_an_impossible_style_is_named(written: str, key: str) -> None:
    tools, problems = read(f'[tools.x]\ncommand = "true"\nstyle.parameters = {written}\n')
    assert tools == {} and [problem.key for problem in problems] == [f"tools.x.{key}"]


def test_a_style_is_replaced_and_not_merged() -> None:
    text = '[tools."*".style]\nother = 1\nparameters = { program = "show", args = ["-v"] }\n'
    tools, problems = read(f'{text}[tools.x]\ncommand = "true"\nstyle.parameters.program = "s"\n')
    assert problems == []
    assert tools["x"].style == {"other": 1, "parameters": Command(("s",))}


def test_a_result_is_reviewed_by_its_own_setting() -> None:
    for word in ("ask", "edit", "skip", "unattended"):
        tools, problems = read(
            f'[tools.x]\ncommand = "true"\nrun = {{ default = "edit" }}\nresult = "{word}"\n'
        )
        assert problems == [] and find_mode(tools["x"], "result") == word
    tools, _ = read('[tools.x]\ncommand = "true"\nrun = { default = "edit" }\n')
    assert find_mode(tools["x"], "result") == "unattended"


def test_a_terminal_has_no_result_to_review() -> None:
    text = '[tools.x]\ncommand = "true"\nruntime = "pty"\nresult = "{}"\n'
    tools, problems = read(text.format("ask"))
    assert tools == {} and [problem.key for problem in problems] == ["tools.x.result"]
    tools, problems = read(text.format("unattended"))
    assert problems == [] and "x" in tools


def test_a_table_has_actions_and_modes_only() -> None:
    for run in ('{ spwan = "ask" }', '{ spawn = "maybe" }', '"maybe"'):
        _, problems = read(f'[tools.x]\ncommand = "true"\nrun = {run}\n')
        assert len(problems) == 1
    tools, problems = read('[tools.x]\ncommand = "true"\nrun = { default = "ask" }\n')
    assert problems == [] and find_mode(tools["x"], "call") == "ask"


@pytest.mark.parametrize(
    "more",
    [
        {"command": Command(("y",))},
        {"env": {"A": "2"}},
        {"cwd": "/elsewhere"},
        {"file": "other.toml"},
        {"runtime": "pty"},
    ],
    ids=str,
)
def test_a_remembered_decision_covers_everything_that_determines_the_run(
    more: dict[str, Any],
) -> None:
    said: dict[str, Any] = {"file": "t.toml", "command": Command(("x",)), "env": {"A": "1"}}
    assert definition_key(Tool(name="t", **said)) == definition_key(Tool(name="t", **said))
    assert definition_key(Tool(name="t", **{**said, **more})) != definition_key(
        Tool(name="t", **said)
    )
