"""`haft init`: a definition that works as it is, and as its comments say."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from haft.__main__ import main
from haft.cli.commands.init import HAFTS_OWN, definition
from haftd.tools.catalogue import TOOLPACK, USER_SHELL
from haftd.tools.definitions.definition import BUILTIN
from haftd.tools.definitions.fields import RESERVED
from tests.tools.definition_kit import called, read, tool

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", ["x", "a-b", "9", "a.b"])
def test_the_definition_is_valid_and_runs(name: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\n")
    call = called(tool(definition(name), name), {"files": ["f"]}, str(tmp_path))
    assert subprocess.check_output(call.launch.argv, cwd=call.launch.cwd) == b"2 f\n"


def test_each_setting_that_is_turned_off_is_valid_alone_and_with_the_others() -> None:
    text = definition("x")
    off = re.findall(r"^#\w.*$", text, re.MULTILINE)
    assert len(off) > 7
    for line in off:
        assert read(text.replace(line, line[1:]))[1] == [], line
    assert read(re.sub(r"^#(?=\w)", "", text, flags=re.MULTILINE))[1] == []
    example = re.search(r"(command = \{.*\})$", text, re.MULTILINE)
    assert example is not None
    assert read(re.sub(r"^command = .*$", example[1], text, flags=re.MULTILINE))[1] == []


def test_a_file_is_written_once_and_never_over_another(tmp_path: Path, capsys: Capture) -> None:
    words = ["init", "build", "--root", str(tmp_path)]
    file = tmp_path / ".haft/tools/build.toml"
    assert main(words) == 0
    assert capsys.readouterr().out == f"{file}\n" and file.read_text() == definition("build")
    file.write_text("mine")
    assert main(words) == 1
    assert "exists already" in capsys.readouterr().err and file.read_text() == "mine"
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert main(words) == 1 and not (tmp_path / "elsewhere").exists()


def test_the_next_step_of_a_projects_definition_is_trust(tmp_path: Path, capsys: Capture) -> None:
    assert main(["init", "x", "--root", str(tmp_path)]) == 0
    assert "`haft trust`" in capsys.readouterr().err


def test_a_name_of_hafts_own_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert {*TOOLPACK, USER_SHELL, *BUILTIN, *RESERVED} == HAFTS_OWN
    for more in (["--root", str(tmp_path)], ["--user"], ["--print"]):
        assert main(["init", "run", *more]) == 2
        assert "haft itself has a tool 'run'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_users_definition_is_beside_the_configuration(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["init", "--user", "--json"]) == 0
    path = json.loads(capsys.readouterr().out)["path"]
    assert path == str(tmp_path / "haft/tools/example.toml")
    assert not Path(path).stat().st_mode & 0o022
    assert main(["init", "other", "--user"]) == 0
    assert "`haft reload`" in capsys.readouterr().err


def test_printing_writes_no_file(tmp_path: Path, capsys: Capture) -> None:
    assert main(["init", "x", "--print", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out == definition("x") and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["", "-", "a/b", "..", "a b", "x" * 65, "ä"])
def test_a_name_that_no_tool_has_is_refused(name: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["init", "--root", str(tmp_path), "--", name]) == 2
    assert not [*tmp_path.iterdir()] and capsys.readouterr().err.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / ".haft").write_text("a file")
    assert main(["init", "--root", str(tmp_path)]) == 1
    assert str(tmp_path / ".haft") in capsys.readouterr().err
