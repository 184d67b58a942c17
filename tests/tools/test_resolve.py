"""From arguments to the command: any value is one argument, or is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from haft_protocol.errors import RpcError
from haftd.launch_spec import Sandbox
from haftd.tools.calls.resolve import CallContext, ResolvedCall, resolve
from haftd.tools.definitions.access import NOTHING, AccessPolicy
from tests.effort import examples

from .definition_kit import called, packed, program, read, refused, run, tool
from .test_shelltext import PAYLOADS

ONE = """
[tools.x]
command = "printf '[%s]' {{ tool.arguments.v }}"
parameters.v = { type = "string" }
"""
MANY = """
[tools.x]
command = ["printf", "[%s]", { each = "tool.arguments.v" }]
parameters.v = { type = "array" }
"""
LONGEST = 131_071


def test_X01_payloads_are_one_argument_each(tmp_path: Path) -> None:
    """The whole corpus at once, as the arguments of a real program: none of it runs."""
    done = run(called(tool(MANY), {"v": PAYLOADS}, str(tmp_path)))
    assert done.stdout.decode() == "".join(f"[{payload}]" for payload in PAYLOADS)
    assert list(tmp_path.iterdir()) == []
    definition = tool(ONE)
    for payload in PAYLOADS:
        assert called(definition, {"v": payload}).launch.argv == ("printf", "[%s]", payload)


def test_X01_payloads_in_a_split_text_are_words(tmp_path: Path) -> None:
    """`split` cuts a text into words; no shell sees them."""
    splitting = tool(
        '[tools.x]\ncommand = [{ each = "split(tool.arguments.v)" }]\nparameters.v = {}'
    )
    text = "printf '[%s]' $(touch pwned) `id`;"
    done = run(called(splitting, {"v": text}, str(tmp_path)))
    assert done.stdout == b"[$(touch][pwned)][`id`;]"
    assert list(tmp_path.iterdir()) == []


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_any_text_is_one_argument(value: str) -> None:
    assert called(tool(ONE), {"v": value}).launch.argv == ("printf", "[%s]", value)
    assert called(tool(MANY), {"v": [value, value]}).launch.argv == ("printf", "[%s]", value, value)


def test_X02_a_leading_dash_is_an_operand() -> None:
    """Behind `--`, or refused."""
    for value in ("-x", "--output=/etc/x", "--", "-"):
        argv = called(packed("git_stage"), {"paths": [value, "a"]}).launch.argv
        assert argv[-3:] == ("--", value, "a")
        error = refused(packed("git_rebase"), {"onto": value})
        assert error.data["problems"][0]["path"] == "onto"


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"argv": ["a", "b\0c"]}, "argv[1]"),
        ({"argv": ["\0"]}, "argv[0]"),
        ({"command": "a\0b"}, "command"),
        ({"argv": ["a"], "cwd": "x\0y"}, "cwd"),
    ],
)
def test_X03_a_nul_is_refused_and_named(args: dict[str, object], path: str) -> None:
    error = refused(packed("run"), args)
    assert error.code == -32005
    assert [problem["path"] for problem in error.data["problems"]] == [path]
    assert "NUL" in error.message


def test_X03_a_nul_is_refused_in_scripts_and_environment() -> None:
    script = tool("""
[tools.x]
command = { program = "echo {{ tool.arguments.v }}", shell = true }
parameters.v = { type = "string" }
""")
    env = tool("""
[tools.x]
command = "env"
env.V = "{{ tool.arguments.v }}"
parameters.v = { type = "string" }
""")
    for one in (script, env):
        assert "NUL" in refused(one, {"v": "a\0b"}).message


def test_X03_newlines_arrive(tmp_path: Path) -> None:
    assert run(called(tool(ONE), {"v": "\na\r\n\n"}, str(tmp_path))).stdout == b"[\na\r\n\n]"


@pytest.mark.parametrize("size", [LONGEST + 1, 2 * 1024 * 1024])
@pytest.mark.parametrize("letter", ["x", "é"])
def test_X03_an_argument_over_the_limit_is_refused_with_size_and_limit(
    size: int, letter: str
) -> None:
    value = letter * (size // len(letter.encode()) + 1)
    error = refused(packed("run"), {"argv": ["true", value]})
    assert error.data == {"kind": "limit_exceeded", "limit": "argument_bytes", "value": LONGEST}
    assert str(len(value.encode())) in error.message
    assert str(LONGEST) in error.message


def test_RB_075_the_longest_argument_starts(tmp_path: Path) -> None:
    done = run(called(packed("run"), {"argv": ["printf", "%s", "x" * LONGEST]}, str(tmp_path)))
    assert len(done.stdout) == LONGEST


@pytest.mark.parametrize("shells", [("bash", "sh"), ("sh",)])
@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
def test_RB_075_a_shell_text_of_any_size_runs(
    tmp_path: Path, shells: tuple[str, ...], letter: str
) -> None:
    """Also without bash, as any other script: lines, arguments, exit status."""
    for shell in shells:
        (tmp_path / shell).symlink_to(f"/bin/{shell}")
    long = f": {letter * (400_000 // len(letter.encode()))}"
    text = f'{long}\necho $# "$*" ${{HAFT_SCRIPT-unset}}\nread x <<E\na  b\nE\necho "$x"\nexit 7'
    done = run(called(packed("run"), {"command": text}, str(tmp_path), path=str(tmp_path)))
    assert (done.stdout, done.stderr, done.returncode) == (b"0  unset\na  b\n", b"", 7)


def test_a_short_shell_text_is_run_unchanged() -> None:
    argv = called(packed("run"), {"command": "a | b"}).launch.argv
    assert argv[1:] == ("-c", "a | b")


def test_the_root_is_the_folder_and_cwd_is_relative_to_it() -> None:
    for folder, expected in (
        (None, "/r"),
        (".", "/r"),
        ("sub/dir", "/r/sub/dir"),
        ("/elsewhere", "/elsewhere"),
        ("link/..", "/r/link/.."),
    ):
        args = {"argv": ["a"]} | ({} if folder is None else {"cwd": folder})
        assert called(packed("run"), args, "/r").launch.cwd == expected


def test_a_definitions_relative_program_is_found_from_the_root(tmp_path: Path) -> None:
    program(tmp_path, "prog", "#!/bin/sh\npwd\n")
    (tmp_path / "sub").mkdir()
    own = tool('[tools.x]\ncommand = "./prog"\ncwd = "sub"\n')
    assert run(called(own, {}, str(tmp_path))).stdout.decode().strip() == str(tmp_path / "sub")
    theirs = called(packed("run"), {"argv": ["./prog"], "cwd": "sub"}, str(tmp_path))
    assert theirs.launch.argv == ("./prog",)


def test_argument_dependent_fields_are_templates() -> None:
    plain = called(packed("run"), {"argv": ["a"]})
    assert (plain.launch.terminal, plain.launch.rows, plain.launch.cols, plain.launch.limits) == (
        False,
        24,
        80,
        {},
    )
    args = {"argv": ["a"], "terminal": True, "rows": 50, "cols": 132, "timeout_s": 2.5}
    full = called(packed("run"), args)
    assert (full.launch.terminal, full.launch.rows, full.launch.cols) == (True, 50, 132)
    assert full.launch.limits == {"wall_s": 2.5}
    assert full.launch.output == "raw"


def test_input_is_a_pipe_only_for_tools_that_take_it() -> None:
    """X10: no input is inherited, and a tool without input has none."""
    for text, expected in (
        ('command = "a"', "null"),
        ('command = "a"\nstateful = true', "pipe"),
        ('command = "a"\nactions = ["spawn", "fetch"]', "null"),
        ('command = "a"\nruntime = "pty"', "pipe"),
        ('command = "a"\noutput = "events"', "pipe"),
    ):
        assert called(tool(f"[tools.x]\n{text}\n"), {}).launch.stdin == expected


def test_the_call_is_passed_on_as_the_protocol_defines() -> None:
    own = tool("""
[tools.x]
command = "a {{context}} {{tool}}"
options = { image = "i" }
access = { fs = [] }
unsafe = true
parameters.v = { type = "array" }
""")
    context = CallContext(root="/r", session="s", handle="h", action="run", answers={"q": True})
    found = resolve(own, {"v": [1]}, context)
    call = json.loads(found.context_json)
    assert call == {
        "tool": {
            "name": "x",
            "arguments": {"v": [1]},
            "answers": {"q": True},
            "options": {"image": "i"},
        },
        "context": {
            "action": "run",
            "root": "/r",
            "session": "s",
            "handle": "h",
            "access": {"fs": []},
            "vars": {},
        },
    }
    assert [json.loads(word) for word in found.launch.argv[1:]] == [call["context"], call["tool"]]


def test_a_definitions_environment_is_set() -> None:
    own = tool("""
[tools.x]
command = "a"
env = { A = "{{ tool.arguments.v }}", B = "<{{ tool.arguments.v }}>", C = true, D = false }
parameters.v = { type = "string" }
""")
    given = called(own, {"v": "$(x)"}).env_overlay
    assert given == {"A": "$(x)", "B": "<$(x)>", "C": True, "D": None}
    assert called(own, {}).env_overlay == {"A": None, "B": "<null>", "C": True, "D": None}


def test_values_of_a_script_are_in_its_environment_and_not_in_its_arguments() -> None:
    """X06: argv is visible to every user of the machine."""
    own = tool("""
[tools.x]
command = { program = "login {{ tool.arguments.v }}", shell = true }
parameters.v = { type = "string" }
""")
    found = called(own, {"v": "canary"})
    assert "canary" not in "".join(found.launch.argv)
    assert found.env_overlay == {"HAFT_VALUE_0": "canary"}
    assert found.launch.argv[1] == "-c"
    assert "canary" not in repr(found)


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ('command = [{ each = "tool.arguments.v" }]', {"v": []}, "does not name a program"),
        ('command = [{ each = "tool.arguments.v" }]', {"v": [""]}, "does not name a program"),
        ('command = ["a", { each = "tool.arguments.v" }]', {"v": {}}, "takes an array"),
        ('command = "a"\nrows = "{{ tool.arguments.v }}"', {"v": "many"}, "from 1 to 1000"),
        ('command = "a"\nrows = "{{ tool.arguments.v }}"', {"v": "9" * 5000}, "from 1 to 1000"),
        ('command = "a"\nlimits.wall_s = "{{ tool.arguments.v }}"', {"v": "x"}, "must be a number"),
        ('command = "a"\nlimits.memory = "{{ tool.arguments.v }}"', {"v": -1}, "size"),
        (
            "command = \"{{ which('nope-a', 'nope-b') }}\"",
            {},
            "none of these programs is installed",
        ),
    ],
)
def test_a_fault_of_the_arguments_is_refused_as_theirs(
    text: str, args: dict[str, object], message: str
) -> None:
    error = refused(tool(f"[tools.x]\n{text}\nparameters.v = {{}}\n"), args)
    assert error.code == -32005
    assert message in error.message


def test_a_fault_of_the_definition_is_reported_as_its() -> None:
    own = tool('[tools.x]\ncommand = "a {{ tool.arguments.v.x() }}"\nparameters.v = {}\n')
    error = refused(own, {"v": "canary"})
    assert error.code == -32012
    assert "`command` of the definition of 'x'" in error.message
    assert "canary" not in error.message


@pytest.mark.parametrize(
    ("text", "runtime"),
    [
        ('command = "a"\nruntime = "{{ \'wasm\' }}"', "wasm"),
        ('command = "a"\nruntime = "{{ \'mongo\' }}"', "mongo"),
        ('source = "mcp.a.b"', "mcp.a.b"),
    ],
)
def test_a_missing_runtime_is_a_clear_error(text: str, runtime: str) -> None:
    tools, _ = read(f"[tools.x]\n{text}\n")
    error = refused(tools["x"], {})
    assert error.code == -32014
    assert repr(runtime) in error.message


@settings(max_examples=examples(24), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "argv": st.lists(st.text(), max_size=3),
            "command": st.text(),
            "cwd": st.sampled_from([".", "a", "/tmp"]) | st.text(),
            "terminal": st.booleans(),
            "rows": st.integers(),
            "timeout_s": st.floats(allow_nan=False),
        },
    )
    | st.fixed_dictionaries(
        {"argv": st.lists(st.text(min_size=1), min_size=1, max_size=3)},
        optional={"cwd": st.text(), "terminal": st.booleans()},
    )
)
@example({"argv": ["true"]})
@example({"command": "true", "cwd": "a"})
def test_any_arguments_of_run_give_a_call_or_an_error(args: dict[str, object]) -> None:
    try:
        found = called(packed("run"), args)
    except RpcError as error:
        assert error.kind in ("invalid_arguments", "limit_exceeded")
    else:
        assert found.launch.argv[0]
        assert all("\0" not in word for word in (*found.launch.argv, found.launch.cwd))
        assert found.launch.cwd.startswith("/")


def test_a_command_text_over_the_limit_is_refused_with_size_and_limit() -> None:
    text = "x " * (1024 * 1024) + "y"
    error = refused(packed("run"), {"command": text})
    assert error.code == -32005
    assert "2097153 bytes" in error.message
    assert "the limit is 2097152" in error.message


def test_a_servers_tool_is_refused_by_its_source_and_not_by_a_runtime() -> None:
    tools, _ = read('[tools.x]\nsource = "mcp.github.create_issue"')
    error = refused(tools["x"], {})
    assert error.kind == "unsupported_runtime"
    assert error.message == (
        "Tool 'x' has the source 'mcp.github.create_issue', which cannot be used here: its server "
        "has not been asked for its tools yet."
    )
    assert error.data["source"] == "mcp.github.create_issue"
    assert "runtime" not in error.data


def mediated(rules: str, **fields: str) -> ResolvedCall:
    text = "".join(f"{name} = {value}\n" for name, value in fields.items())
    own = tool(f'[tools.x]\nruntime = "vfs"\ncommand = "a"\nparameters = {{}}\n{text}{rules}')
    return called(own, {}, root="/r")


def test_a_mediated_process_gets_the_places_to_execute_and_nothing_else() -> None:
    call = mediated(
        'access.fs.read = ["."]\naccess.fs.write = ["made"]\naccess.net = [{ host = "*" }]'
    )
    assert call.launch.output == "events"
    assert call.launch.sandbox == Sandbox("/r", ())
    call = mediated('access.fs.execute = [".", "/opt/python", "bin"]')
    assert call.launch.sandbox is not None
    assert [grant.path for grant in call.launch.sandbox.grants or ()] == ["/opt/python", "/r/bin"]
    assert {grant.rights for grant in call.launch.sandbox.grants or ()} == {
        frozenset({"read", "execute"})
    }


def test_a_mediated_tool_without_rules_may_do_nothing_unless_unsafe() -> None:
    assert mediated("").policy == NOTHING
    unsafe = mediated("", unsafe="true")
    assert unsafe.policy == AccessPolicy() and unsafe.launch.sandbox == Sandbox("/r", ())


def test_rules_for_a_mediated_tools_programs_may_lie_outside_of_the_root() -> None:
    outside = 'access.fs.read = ["/etc"]\n'
    own = tool(f'[tools.x]\nruntime = "vfs"\ncommand = "a"\nparameters = {{}}\n{outside}')
    assert "outside of the root" in refused(own, {}, "/r").message
    call = mediated(outside + "access.commands.ls = {}")
    assert call.launch.sandbox == Sandbox("/r", ())


def test_a_place_that_the_kernel_cannot_take_away_is_refused() -> None:
    inner = '[[tools.x.access.fs]]\npath = "/opt/py"\nexecute = true\n[[tools.x.access.fs]]\npath = "/opt/py/x"\n'
    text = f'[tools.x]\nruntime = "vfs"\ncommand = "a"\nparameters = {{}}\n{inner}read = false\n'
    assert "Landlock" in refused(tool(text), {}, "/r").message
    rules = 'access.fs = [{ path = ".", read = true }, { path = "x", read = false }]\n'
    head = '[tools.x]\nruntime = "vfs"\ncommand = "a"\nparameters = {}\n'
    assert mediated(rules).policy is not None
    tools, problems = read(f"{head}{rules}access.commands.ls = {{}}\n")
    assert not tools and "programs of `access.commands`" in problems[0].message
