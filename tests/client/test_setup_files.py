"""`haft setup completions man nvim`: files where programs look, and none left by --undo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from haft.__main__ import main
from haft.cli.manual import pages
from haft.installation import COMPLETIONS

Capture = pytest.CaptureFixture[str]
PARTS = ("completions", "man", "nvim")


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


def test_undo_leaves_nothing_but_folders_of_others(home: Path) -> None:
    main(["setup", *PARTS])
    assert main(["setup", *PARTS, "--undo"]) == 0
    assert files(home) == set()
    assert not list(home.rglob("haft"))


def test_a_dry_run_names_each_file_and_writes_none(home: Path, capsys: Capture) -> None:
    assert main(["setup", "completions", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("  write ") == len(COMPLETIONS)
    assert files(home) == set()
    assert main(["setup", "completions", "--dry-run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["steps"]) == len(COMPLETIONS)


def test_only_what_differs_is_written(home: Path, capsys: Capture) -> None:
    main(["setup", "completions"])
    path = home / ".config/fish/completions/haft.fish"
    path.write_text("an older version")
    capsys.readouterr()
    assert main(["setup", "completions"]) == 0
    assert "1 files written" in capsys.readouterr().err
    assert path.read_text() != "an older version"
    assert main(["setup", "completions"]) == 0
    assert "everything is set up already" in capsys.readouterr().err


def test_a_link_of_another_installation_is_left_alone(home: Path, capsys: Capture) -> None:
    folder = home / ".config/fish/completions"
    folder.mkdir(parents=True)
    (folder / "haft.fish").symlink_to("/elsewhere")
    assert main(["setup", "completions"]) == 1
    assert "is a link to /elsewhere" in capsys.readouterr().err
    assert main(["setup", "completions", "--undo"]) == 0
    assert (folder / "haft.fish").is_symlink()


def test_a_folder_that_cannot_be_written_is_one_sentence(home: Path, capsys: Capture) -> None:
    (home / ".config").write_text("a file")
    assert main(["setup", "completions"]) == 1
    error = capsys.readouterr().err
    assert "cannot be written" in error and error.count("\n") == 1


def test_an_unknown_part_names_the_known_ones(capsys: Capture) -> None:
    assert main(["setup", "completion"]) == 2
    assert "did you mean 'completions'" in capsys.readouterr().err.lower()
