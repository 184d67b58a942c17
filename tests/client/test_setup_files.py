"""`haft setup completions man nvim`: files where programs look, and none left by --undo."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import cast

import pytest

from haft import __version__
from haft.__main__ import main
from haft.cli import setup_findings, setup_record
from haft.cli.manual import pages
from haft.cli.setup_findings import check_setup_files
from haft.cli.setup_record import SetupRecord
from haft.installation import COMPLETIONS, completion
from haft.usermanager import UserManager

Capture = pytest.CaptureFixture[str]
PARTS = ("completions", "man", "nvim")
RECORD = ".local/share/haft/setup.json"


def env_of(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "HAFT_HANDLE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_each_part_is_written_where_its_program_looks(home: Path) -> None:
    assert main(["setup", *PARTS]) == 0
    written = files(home)
    data = ".local/share"
    assert f"{data}/bash-completion/completions/haft" in written
    assert f"{data}/zsh/site-functions/_haft" in written
    assert ".config/fish/completions/haft.fish" in written
    assert {f"{data}/man/man1/{name}.1" for name in pages()} < written
    plugin = f"{data}/nvim/site/pack/haft/start/haft"
    assert {f"{plugin}/plugin/haft.lua", f"{plugin}/doc/haft.txt"} < written
    assert len(written) >= len(COMPLETIONS) + len(pages()) + 10


def test_undo_leaves_the_home_as_it_was(home: Path) -> None:
    (home / ".local" / "share").mkdir(parents=True)
    before = sorted(home.rglob("*"))
    main(["setup", *PARTS])
    assert main(["setup", *PARTS, "--undo"]) == 0
    assert sorted(home.rglob("*")) == before


def test_undo_of_one_part_leaves_the_others(home: Path) -> None:
    main(["setup", "completions"])
    before = files(home) - {RECORD}
    main(["setup", "man"])
    assert main(["setup", "man", "--undo"]) == 0
    assert files(home) - {RECORD} == before
    assert not (home / ".local/share/man").exists()


def test_a_file_that_was_changed_is_kept_and_named(home: Path, capsys: Capture) -> None:
    main(["setup", "completions"])
    path = home / ".config/fish/completions/haft.fish"
    path.write_text("mine")
    capsys.readouterr()
    assert main(["setup", "completions", "--dry-run"]) == 0
    assert f"keep {path}: it was changed since haft wrote it" in capsys.readouterr().out
    assert main(["setup", "completions", "--undo", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("  remove ") == len(COMPLETIONS) - 1
    for words in ([], ["--undo"]):
        assert main(["setup", "completions", *words]) == 1
        error = capsys.readouterr().err
        assert f"{path} is kept" in error and "--replace" in error
        assert path.read_text() == "mine"
    assert files(home) == {RECORD, str(path.relative_to(home))}, "undo takes back the others"


@pytest.mark.parametrize("undo", [False, True])
def test_a_kept_file_of_one_part_holds_up_no_other_part(
    home: Path, capsys: Capture, undo: bool
) -> None:
    main(["setup", "completions"] if not undo else ["setup", *PARTS])
    changed = home / ".local/share/bash-completion/completions/haft"
    changed.write_text("# mine\n")
    capsys.readouterr()
    assert main(["setup", *PARTS, *(["--undo"] if undo else [])]) == 1
    assert f"{changed} is kept" in capsys.readouterr().err
    assert (home / ".local/share/man/man1/haft.1").exists() is not undo
    assert (home / ".local/share/nvim/site/pack/haft/start/haft/plugin").exists() is not undo


def test_a_replaced_file_is_put_back_byte_for_byte(home: Path) -> None:
    path = home / ".config/fish/completions/haft.fish"
    path.parent.mkdir(parents=True)
    mine = b"mine\r\n\xff"
    path.write_bytes(mine)
    before = sorted(home.rglob("*"))
    assert main(["setup", "completions"]) == 1
    assert path.read_bytes() == mine
    assert main(["setup", "completions", "--replace"]) == 0
    assert path.read_bytes() == completion("fish").read_bytes()
    assert main(["setup", "completions", "--undo"]) == 0
    assert path.read_bytes() == mine and sorted(home.rglob("*")) == before


def test_an_interrupted_setup_is_finished_or_undone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = setup_record._replace

    def killed(path: Path, content: bytes) -> None:
        if path.name == "haft.fish":
            raise KeyboardInterrupt
        replace(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(setup_record, "_replace", killed)
        assert main(["setup", "completions"]) != 0
    assert {path.rpartition("/")[2] for path in files(home)} == {"setup.json", "haft", "_haft"}
    assert main(["setup", "completions"]) == 0
    assert main(["setup", "completions", "--undo"]) == 0
    assert files(home) == set()


def test_a_dry_run_names_each_file_and_writes_none(home: Path, capsys: Capture) -> None:
    assert main(["setup", "completions", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("  write ") == len(COMPLETIONS)
    assert files(home) == set()
    assert main(["setup", "completions", "--dry-run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["steps"]) == len(COMPLETIONS)


def older(home: Path, *paths: Path) -> None:
    """Make these files those of an older version, whose setup also wrote one that is no more."""
    gone = home / ".local/share/man/man1/haft-gone.1"
    record = SetupRecord(env_of(home))
    record.write("man", {**dict.fromkeys(paths, b"older"), gone: b"older"})
    text = (home / RECORD).read_text()
    (home / RECORD).write_text(text.replace(__version__, "0.0.1"))


def test_only_what_differs_is_written(home: Path, capsys: Capture) -> None:
    main(["setup", "man"])
    path = home / ".local/share/man/man1/haft-ps.1"
    older(home, path)
    capsys.readouterr()
    assert main(["setup", "man"]) == 0
    assert "2 files written" in capsys.readouterr().err, "one is new, one is removed"
    assert path.read_bytes() != b"older" and not path.with_name("haft-gone.1").exists()
    assert main(["setup", "man"]) == 0
    assert "everything is set up already" in capsys.readouterr().err


def test_pages_of_another_date_are_the_same(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(["setup", "man"])
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert levels() == {"man": "ok"}


def levels() -> dict[str, str]:
    return {finding.check: finding.level for finding in check_setup_files(os.environ)}


def test_the_doctor_finds_files_of_another_version(home: Path) -> None:
    assert levels() == {}
    main(["setup", "man", "completions"])
    assert levels() == {"man": "ok", "completions": "ok"}
    older(home, home / ".local/share/man/man1/haft-ps.1")
    (finding,) = [each for each in check_setup_files(os.environ) if each.check == "man"]
    assert finding.level == "note" and finding.message == (
        "1 file missing or of another installation, 1 file that this version does not have (haft 0.0.1)"
    )
    assert "`haft setup man`" in finding.advice
    (home / ".config/fish/completions/haft.fish").unlink()
    assert levels()["completions"] == "note"


def test_the_doctor_finds_an_installation_in_a_cache(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "uv" / "archive" / "x").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(home / "uv" / "archive" / "x"))
    (home / "uv" / "archive" / "x" / "CACHEDIR.TAG").touch()
    assert levels() == {}, "uv marks each environment"
    (home / "uv" / "CACHEDIR.TAG").touch()
    (finding,) = check_setup_files(os.environ)
    assert str(home / "uv") in finding.message and "uv tool install haftd" in finding.advice


def test_an_unreadable_record_is_one_sentence(home: Path, capsys: Capture) -> None:
    (home / RECORD).parent.mkdir(parents=True)
    (home / RECORD).write_text("{")
    assert main(["setup", "man"]) == 1
    error = capsys.readouterr().err
    assert RECORD in error and "move it away" in error and error.count("\n") == 1


def test_a_link_of_another_installation_is_left_alone(home: Path, capsys: Capture) -> None:
    folder = home / ".config/fish/completions"
    folder.mkdir(parents=True)
    (folder / "haft.fish").symlink_to("/elsewhere")
    assert main(["setup", "completions"]) == 1
    assert "is a link to /elsewhere" in capsys.readouterr().err
    assert main(["setup", "completions", "--undo"]) == 0
    assert (folder / "haft.fish").is_symlink()


def test_a_link_to_the_same_file_is_set_up_already(home: Path, capsys: Capture) -> None:
    """As pipx makes them."""
    link = home / ".config/fish/completions/haft.fish"
    link.parent.mkdir(parents=True)
    link.symlink_to(completion("fish"))
    assert main(["setup", "completions", "--dry-run"]) == 0
    assert str(link) not in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_one_sentence(home: Path, capsys: Capture) -> None:
    (home / ".config").write_text("a file")
    assert main(["setup", "completions"]) == 1
    error = capsys.readouterr().err
    assert "cannot be written" in error and error.count("\n") == 1


def test_an_unknown_part_names_the_known_ones(capsys: Capture) -> None:
    assert main(["setup", "completion"]) == 2
    assert "did you mean 'completions'" in capsys.readouterr().err.lower()


class LoadedUnits:
    def __init__(self, program: str) -> None:
        self._program = program

    def properties(self, unit: str, *names: str) -> dict[str, str]:
        value = f"{{ path={self._program} ; argv[]={self._program} -m haftd ; ignore_errors=no }}"
        return {"ExecStart": value} if self._program else {}


@pytest.mark.parametrize(
    ("program", "stale", "level", "words"),
    [
        ("/gone/python", 0, "problem", "runs /gone/python, which is missing"),
        (sys.executable, 0, "", ""),
        (sys.executable, 1, "note", f"from this installation's; the service runs {sys.executable}"),
        (sys.executable, 2, "note", "a.socket and a.service in "),
        ("", 1, "note", "a.socket in {folder} differs from this installation's"),
    ],
)
def test_the_doctor_compares_units_on_disk_with_those_of_this_installation(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    stale: int,
    level: str,
    words: str,
) -> None:
    units = {tmp_path / name: b"new" for name in ("a.socket", "a.service", "missing.service")}
    for number, path in enumerate(list(units)[:2]):
        path.write_bytes(b"old" if number < stale else b"new")
    monkeypatch.setattr(setup_findings, "unit_contents", lambda manager, copy: units)
    monkeypatch.setattr(setup_findings, "service_copy", lambda: None)
    found = list(setup_findings.check_units(cast(UserManager, LoadedUnits(program))))
    assert [finding.level for finding in found] == ([level] if level else [])
    assert all(words.format(folder=tmp_path) in finding.message for finding in found)
    assert not any(finding.message.endswith("runs ") for finding in found)
