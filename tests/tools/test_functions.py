"""Names and fields of Python functions are read from source and metadata, without an import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from haft_protocol.methods import Problem
from haftd.launch_spec import shown_command
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.document import UnreadableFile
from haftd.tools.definitions.entry_points import find_entry_points
from haftd.tools.definitions.functions import find_packaged_functions, read_functions

HEAD = "from haft.tools import tool\nimport haft.tools as ht\n"


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(HEAD + text)
    return path


def test_decorated_functions_are_definitions(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "raise AssertionError('it is not run')\n"
        "@tool\ndef a(): ...\n"
        "@ht.tool(name='b.c', stateful=True, limits={'wall_s': 5}, summary=None)\n@other\nasync def b(): ...\n"
        "@other\ndef c(): ...\nclass D:\n    @tool\n    def d(self): ...\n",
    )
    document = read_functions(path)
    command = [sys.executable, "-P", "-m", "haft.tools", str(path), "{{ context.action }}"]
    own = {"output": "events", "command": command}
    assert document.data == {
        "tools": {"a": own, "b.c": {"stateful": True, "limits": {"wall_s": 5}, **own}}
    }
    assert document.lines == {("tools", "a"): 5, ("tools", "b.c"): 8}


def test_the_command_of_a_function_is_shown_by_its_name_and_file(tmp_path: Path) -> None:
    document = read_functions(write(tmp_path, "@tool\ndef a(): ...\n"))
    argv = [*document.data["tools"]["a"]["command"][:-1], "run"]
    assert shown_command(argv, "a") == f"a in {tmp_path}/mine.py"
    assert (
        shown_command([*argv[:4], "--entry", "pack:a", "--path", "/x", "run"], "a") == "a in pack:a"
    )
    assert shown_command(["python3", "-c", "a b"], "run") == "python3 -c 'a b'"
    assert shown_command(argv[:4], "run") == " ".join(argv[:4]), "a user's own command"


FAULTS = [
    ("def f(:\n", "it is not valid Python", 3),
    ("@tool(name=NAME)\ndef f(): ...\n", "`name` of a tool is not a literal", 4),
    ("@tool(**more)\ndef f(): ...\n", "`**` of a tool is not a literal", 4),
    ("@tool(options={[]: 1})\ndef f(): ...\n", "`options` of a tool is not a literal", 4),
    ("@tool(command='rm')\ndef f(): ...\n", "`command` of a tool that is a function cannot be set", 4),
    ("@tool\ndef f(): ...\n@tool\ndef f(): ...\n", "two tools with the name 'f'", 6),
    ("(" * 100_000 + ")" * 100_000, "it is not valid Python", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why", "line"), FAULTS, ids=range(len(FAULTS)))
def test_a_fault_is_named_with_its_line(
    tmp_path: Path, text: str, why: str, line: int | None
) -> None:
    with pytest.raises(UnreadableFile) as unreadable:
        read_functions(write(tmp_path, text))
    assert why in unreadable.value.message
    assert line is None or unreadable.value.line == line


def test_a_file_without_tools_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("this is no Python, and names no tools\n")
    write(tmp_path, "x = 1\n")
    catalogue = Catalogue([tmp_path], toolpack=())
    assert (len(catalogue), catalogue.problems) == (0, ())


def test_a_file_writable_by_others_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, "@tool\ndef f(): ...\n")
    path.chmod(0o666)
    catalogue = Catalogue([tmp_path], toolpack=())
    assert len(catalogue) == 0
    assert "writable by everybody" in catalogue.problems[0].message


def test_an_invalid_field_leaves_only_that_tool_out(tmp_path: Path) -> None:
    write(tmp_path, "@tool(statefull=True)\ndef f(): ...\n@tool\ndef g(): ...\n")
    catalogue = Catalogue([tmp_path], toolpack=())
    assert len(catalogue) == 1
    assert "did you mean `stateful`" in catalogue.problems[0].message


def install(folder: Path, text: str, name: str = "acme-1.dist-info") -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "entry_points.txt").write_text(text)
    return folder


def test_entry_points_are_read_from_metadata(tmp_path: Path) -> None:
    first = install(
        tmp_path / "a", "[x]\nf = no:f\n[haft.tools]\n# no\n f = acme.one : f [extra]\ng=acme:A.g\n"
    )
    second = install(tmp_path / "b", "[haft.tools]\nf = later:f\n", "other.egg-info")
    folders = [str(first), "", str(tmp_path / "missing"), str(second), str(first)]
    found = find_entry_points("haft.tools", folders)
    assert [(one.name, one.module, one.object, one.line) for one in found] == [
        ("f", "acme.one", "f", 5),
        ("g", "acme", "A.g", 6),
    ]


def test_changed_metadata_are_read_anew(tmp_path: Path) -> None:
    folder = install(tmp_path, "[haft.tools]\nf = acme:f\n")
    assert [one.name for one in find_entry_points("haft.tools", [str(folder)])] == ["f"]
    assert find_entry_points("haft.runtimes", [str(folder)]) == []
    (folder / "acme-1.dist-info" / "entry_points.txt").write_text("[haft.tools]\nother = acme:f\n")
    assert [one.name for one in find_entry_points("haft.tools", [str(folder)])] == ["other"]


def test_a_taken_or_invalid_name_is_a_problem(tmp_path: Path) -> None:
    folder = install(
        tmp_path, "[haft.tools]\nrun = a:b\nno name = a:b\nmodule = a\nbrace = a:{b\nok = a:b\n"
    )
    problems: list[Problem] = []
    documents = find_packaged_functions([str(folder)], {"run"}, problems)
    assert [list(one.data["tools"]) for one in documents] == [["ok"]]
    assert [problem.key for problem in problems] == [
        "haft.tools.run",
        "haft.tools.no name",
        "haft.tools.module",
        "haft.tools.brace",
    ]
