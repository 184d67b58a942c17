from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import jsonschema_rs
import pytest

from haft_protocol.errors import RpcError
from haftd.tools.catalogue import TOOLPACK, Catalogue
from haftd.tools.definitions.approval_policy import find_mode
from haftd.tools.definitions.document import MAX_DOCUMENT_BYTES
from haftd.tools.lists.tool_list import AWAIT, info
from tests.host.sandbox_attempts import in_child_as

from .definition_kit import packed, tool


def names(catalogue: Catalogue) -> list[str]:
    return [known.name for known in catalogue.list_tools("generic")[0]]


def test_the_packed_tools_are_valid_definitions() -> None:
    catalogue = Catalogue()
    assert catalogue.problems == ()
    assert names(catalogue) == sorted(("await", *TOOLPACK))
    assert all(catalogue.find(name).stateful for name in TOOLPACK)


def test_only_enabled_tools_are_there() -> None:
    assert names(Catalogue(toolpack=("run",))) == ["await", "run"]
    assert names(Catalogue(toolpack=())) == []
    with pytest.raises(RpcError) as caught:
        Catalogue(toolpack=("run",)).find("shell")
    assert caught.value.code == -32003
    assert "run" in caught.value.message


def test_files_are_read_in_name_order_and_other_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[tools.x]\ncommand = "a"\nsummary = "config"\n')
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "b.toml").write_text('[tools.x]\nsummary = "b"\n')
    (folder / "a.toml").write_text('[tools.x]\nsummary = "a"\nrows = 7\n')
    (folder / "c.txt").write_text('[tools.x]\nsummary = "c"\n')
    catalogue = Catalogue((tmp_path / "config.toml", folder), ())
    assert catalogue.problems == ()
    assert (catalogue.find("x").summary, catalogue.find("x").rows) == ("b", 7)


def test_missing_files_are_no_problem(tmp_path: Path) -> None:
    catalogue = Catalogue((tmp_path / "config.toml", tmp_path / "tools"), ())
    assert catalogue.problems == ()


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"[tools.x\n", 1, "it is not valid TOML"),
        (b'[tools.x]\ncommand = "a"\n\xff\n', None, "it is not UTF-8"),
        (
            b"a = 1\na = 2\n",
            2,
            "it is not valid TOML: Cannot overwrite a value; a key or a table can be set only once",
        ),
        (b"a = " + b"[" * 5000, None, "it is"),
        (b"#" * (MAX_DOCUMENT_BYTES + 1), None, "it is larger than"),
        (b"\0", 1, "it is not valid TOML"),
        (b"a = " + b"9" * 5000, None, "a number in it is larger"),
        (b"a = [{b = 0x" + b"9" * 5000 + b"}]", None, "a number in it is larger"),
        (b"a = 9223372036854775808", None, "a number in it is larger"),
    ],
)
def test_an_unreadable_file_is_named_and_the_others_are_read(
    tmp_path: Path, content: bytes, line: int | None, message: str
) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    (tmp_path / "b.toml").write_text('[tools.good]\ncommand = "a"\n')
    catalogue = Catalogue((tmp_path,), ())
    assert names(catalogue) == ["good"]
    assert [problem.file for problem in catalogue.problems] == [str(tmp_path / "a.toml")]
    assert catalogue.problems[0].message.startswith(message)
    if line is not None:
        assert catalogue.problems[0].line == line


def modes(tools: Path, spoil: Path, mode: int) -> dict[str, str]:
    """Return the problems with what cannot be read, and the modes of two tools, before and afterwards."""
    (tools / "more").mkdir(parents=True)
    (tools / "more/strict.toml").write_text("[tools.'*']\nrun = 'ask'\n")
    (tools / "own.toml").write_text("[tools.own]\ncommand = ['true']\nrun = 'unattended'\n")
    catalogue = Catalogue([tools])
    found: dict[str, str] = {}
    for moment in ("before", "afterwards"):
        for name in ("own", "run"):
            try:
                found[f"{name} {moment}"] = find_mode(catalogue.find(name), "spawn")
            except RpcError:
                found[f"{name} {moment}"] = "missing"
        spoil.chmod(mode)
        catalogue.reload()
    spoil.chmod(0o700)
    found["problems"] = str([entry.message for entry in catalogue.problems])
    catalogue.reload()
    found["own at last"] = find_mode(catalogue.find("own"), "spawn")
    return found


@pytest.mark.parametrize(
    ("path", "mode", "message"),
    [
        ("more/strict.toml", 0o666, "is writable by everybody"),
        ("more", 0o777, "its folder is writable by everybody"),
        ("more/strict.toml", 0, "Permission denied"),
        ("more", 0, "it cannot be listed"),
        (".", 0, "it cannot be listed"),
    ],
)
def test_every_start_asks_while_a_file_is_kept_from_being_read(
    tmp_path: Path, path: str, mode: int, message: str
) -> None:
    """A sandboxed tool may change the modes of files, and so would rid itself of an approval."""
    if mode == 0 and os.geteuid() == 0:  # root reads everything
        base = Path(tempfile.mkdtemp(prefix="haft-"))
        os.chown(base, 65534, 65534)
        found = in_child_as(65534, lambda: modes(base / "tools", base / "tools" / path, mode))
        shutil.rmtree(base)
    else:
        found = modes(tmp_path / "tools", tmp_path / "tools" / path, mode)
    assert found["own before"] == "unattended" and found["run before"] == "ask"
    assert found["own afterwards"] == ("missing" if path == "." else "ask")
    assert found["run afterwards"] == "ask"
    assert message in found["problems"] and "every start asks for approval" in found["problems"]
    assert found["own at last"] == "unattended"


def test_a_device_a_pipe_and_a_broken_link_are_named_and_harm_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.toml").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "b.toml")
    (tmp_path / "c.toml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "d.toml").write_text('[tools.good]\ncommand = "a"\n')
    catalogue = Catalogue((tmp_path,), ())
    assert names(catalogue) == ["good"]
    assert len(catalogue.problems) == 3


def test_a_reload_replaces_everything(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[tools.x]\ncommand = "a"\n[tools.y]\nrows = 0\n')
    catalogue = Catalogue((tmp_path,), ("run",))
    before = catalogue.find("x")
    assert len(catalogue.problems) == 1
    file.write_text('[tools.z]\ncommand = "a"\n')
    assert catalogue.find("x") is before
    assert catalogue.reload() == (2, ())
    assert names(catalogue) == ["await", "run", "z"]
    assert catalogue.reload(toolpack=()) == (1, ())


def test_a_users_definition_replaces_a_packed_tool_whole(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        '[conversation.tools.shell]\ncommand = "mine"\n[tools.run]\nrows = 9\n'
    )
    catalogue = Catalogue((tmp_path,))
    assert catalogue.problems == ()
    mine = catalogue.find("shell")
    assert (mine.runtime, mine.stateful, mine.env) == ("stdio", False, {})
    assert catalogue.find("run").rows == 9
    assert catalogue.find("run").stateful


@pytest.mark.parametrize(
    ("enable", "listed", "found"),
    [("true", True, True), ("false", False, False), ('"explicit"', False, True)],
)
def test_enable_decides_which_tools_are_listed_and_found(
    tmp_path: Path, enable: str, listed: bool, found: bool
) -> None:
    (tmp_path / "a.toml").write_text(f'[tools.x]\ncommand = "a"\nenable = {enable}\n')
    catalogue = Catalogue((tmp_path,), ())
    assert (names(catalogue) == ["x"]) == listed
    assert len(catalogue) == found, "those are counted that can be called"
    if found:
        assert catalogue.find("x").name == "x"
    else:
        with pytest.raises(RpcError):
            catalogue.find("x")


def test_an_unrunnable_tool_is_found_but_not_listed(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[tools.x]\nsource = "mcp.a.b"\n')
    catalogue = Catalogue((tmp_path,), ())
    assert names(catalogue) == []
    assert catalogue.find("x").unserved
    (problem,) = catalogue.server_problems
    assert problem.key == "tools.x" and "[mcp.a]" in problem.message


def test_await_exists_only_beside_a_stateful_tool(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[tools.x]\ncommand = "a"\n')
    assert names(Catalogue((tmp_path,), ())) == ["x"]


def variants(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the variants by action; that without an action by an empty text."""
    found = {}
    for branch in schema["oneOf"]:
        found[branch["properties"].get("action", {}).get("const", "")] = branch
    return found


def test_a_stateful_tool_has_a_variant_per_supported_action() -> None:
    found = variants(info(packed("run")).parameters)
    assert list(found) == ["spawn", "fetch", "apply", "abort", ""]
    assert not {"action", "id", "wait"} & found[""]["properties"].keys()
    spawn = found["spawn"]
    assert list(spawn["properties"])[:3] == ["action", "id", "argv"]
    assert spawn["required"] == ["action", "id"]
    assert spawn["oneOf"] == [{"required": ["argv"]}, {"required": ["command"]}]
    for action in ("spawn", "fetch", "apply"):
        assert {"wait", "pattern", "timeout_ms", "view"} <= set(found[action]["properties"])
    assert set(found["abort"]["properties"]) == {"action", "id"}
    assert found["apply"]["required"] == ["action", "id", "input"]
    some = tool('[tools.x]\ncommand = "a"\nactions = ["spawn", "fetch"]\n')
    assert list(variants(info(some).parameters)) == ["spawn", "fetch"]


CALLS = [
    ({"action": "spawn", "id": "a", "argv": ["x"]}, True),
    ({"action": "spawn", "id": "a", "command": "x", "cwd": "y", "terminal": True}, True),
    ({"command": "x"}, True),
    ({"argv": ["x"], "terminal": False}, True),
    ({"argv": ["x"], "command": "x"}, False),
    ({"action": "spawn", "id": "a"}, False),
    ({"action": "spawn", "id": "a", "argv": ["x"], "command": "x"}, False),
    ({"action": "spawn", "id": "a", "command": "x", "shell": True}, False),
    ({"action": "spawn", "id": "-a", "argv": ["x"]}, False),
    ({"action": "spawn", "argv": ["x"]}, False),
    ({"action": "fetch", "id": "a", "wait": "pattern", "pattern": "x", "timeout_ms": 3}, True),
    ({"action": "fetch", "id": "a", "argv": ["x"]}, False),
    ({"action": "apply", "id": "a", "input": {"line": "x"}, "view": "screen"}, True),
    ({"action": "apply", "id": "a"}, False),
    ({"action": "abort", "id": "a"}, True),
    ({"action": "abort", "id": "a", "wait": "none"}, False),
    ({"action": "stop", "id": "a"}, False),
    ({"id": "a"}, False),
]


@pytest.mark.parametrize(("call", "right"), CALLS)
def test_the_schema_accepts_exactly_the_valid_calls(call: dict[str, Any], right: bool) -> None:
    schema = info(packed("run")).parameters
    assert jsonschema_rs.is_valid(schema, call) == right
    assert jsonschema.Draft202012Validator(schema).is_valid(call) == right


def test_every_schema_is_valid() -> None:
    for one in (*Catalogue().list_tools("generic")[0], AWAIT):
        jsonschema.Draft202012Validator.check_schema(one.parameters)
        assert one.description


def test_definitions_referenced_by_parameters_stay_within_reach() -> None:
    own = tool("""
[tools.x]
command = "a"
stateful = true
[tools.x.parameters]
type = "object"
properties.v = { "$ref" = "#/$defs/n" }
[tools.x.parameters."$defs"]
n = { type = "integer" }
""")
    schema = info(own).parameters
    assert jsonschema_rs.is_valid(schema, {"action": "spawn", "id": "a", "v": 3})
    assert not jsonschema_rs.is_valid(schema, {"action": "spawn", "id": "a", "v": "x"})


def test_a_one_shot_tool_has_its_plain_schema() -> None:
    own = tool("""
[tools.x]
command = "a"
summary = "Short."
description = "Long."
parameters.v = { type = "string", required = true, summary = "One.", description = "Two." }
""")
    assert info(own).parameters == {
        "type": "object",
        "properties": {"v": {"type": "string", "description": "One."}},
        "required": ["v"],
        "additionalProperties": False,
    }
    assert info(own).description == "Short."


def test_changing_a_listed_tool_changes_no_catalogue_entry() -> None:
    own = tool('[tools.x]\ncommand = "a"\nparameters.v = { type = "string" }\n')
    info(own).parameters["properties"].clear()
    assert "v" in own.parameters["properties"]


def test_an_unused_tool_is_refused_with_the_fault_of_its_definition(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        '[tools.deploy]\ncommand = "deploy"\nlimits.wall = 3\n'
        '[conversation.tools.older]\nsource = "local"\n'
        '[tools.away]\ncommand = "true"\nenable = false\n'
    )
    catalogue = Catalogue((tmp_path,), ("run",))

    def refusal(name: str) -> str:
        with pytest.raises(RpcError) as caught:
            catalogue.find(name)
        assert (caught.value.kind, caught.value.data["tool"]) == ("tool_not_found", name)
        return caught.value.message

    at = f"There is no tool 'deploy': its definition was refused ({file}:3, `tools.deploy.limits.wall`: "
    assert refusal("deploy").startswith(at)
    assert "`conversation.tools.older.command`: a local tool needs a `command`" in refusal("older")
    assert f"its definition in {file}:6 turns it off (`enable`)" in refusal("away")
    assert refusal("nothing") == "There is no tool 'nothing'; the tools are: await, run."
    file.write_text("[tools.deploy\n")
    catalogue.reload()
    assert f"no definition in {file} is used (it is not valid TOML" in refusal("deploy")


def test_definitions_in_subfolders_are_read_in_path_order(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "tools", tmp_path / "elsewhere"
    for name, summary in (
        ("a.toml", "top"),
        ("git/a.toml", "below"),
        ("git/deep/z.toml", "deep"),
        (".hidden/z.toml", "hidden"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f'[tools.x]\ncommand = "a"\nsummary = "{summary}"\n')
    elsewhere.mkdir()
    (elsewhere / "l.toml").write_text('[tools.linked]\ncommand = "a"\n')
    (folder / "linked").symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(folder)
    catalogue = Catalogue((folder,), ())
    assert catalogue.problems == ()
    assert names(catalogue) == ["linked", "x"]
    assert catalogue.find("x").summary == "deep"


def test_wrong_rules_of_access_are_problems_of_the_list(tmp_path: Path) -> None:
    """Also those of `'*'`, without which every tool runs as its user."""
    file = tmp_path / "a.toml"
    file.write_text(
        "[tools.'*']\nsandbox = 'root'\n[tools.x]\ncommand = 'a'\naccess.fs = 1\n[tools.y]\nbad = 1\n"
    )
    keys = [problem.key for problem in Catalogue([file]).undescribed()]
    assert keys == ["tools.*.sandbox", "tools.x.access.fs"]
