"""The files of the wheel and the sdist, and the wheel's data where no source tree is near."""

from __future__ import annotations

import configparser
import email
import importlib
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.install.builds import ROOT, build, names, unpacked_sdist

PACKAGES = ("daemon/haftd", "protocol/haft_protocol", "clients/haft")
DATA = {"haft/systemd": "systemd", "haft/nvim": "clients/nvim"}
SHARED = {
    "bash-completion/completions/haft",
    "zsh/site-functions/_haft",
    "fish/vendor_completions.d/haft.fish",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PREFIX = f"haftd-{PROJECT['version']}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="module")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's packages, unpacked."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def tree_files(folder: str) -> set[str]:
    root = ROOT / folder
    files = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(root)) for path in files}


def test_the_wheel_has_the_packages_and_their_data_and_nothing_else(wheel: Path) -> None:
    expected = {f"{Path(root).name}/{file}" for root in PACKAGES for file in tree_files(root)}
    expected |= {f"{place}/{file}" for place, root in DATA.items() for file in tree_files(root)}
    expected |= {f"{PREFIX}.data/data/share/{name}" for name in SHARED}
    metadata = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    expected |= {f"{PREFIX}.dist-info/{name}" for name in metadata}
    assert names(wheel) == expected


def test_a_wheel_built_from_the_sdist_is_the_same_file(wheel: Path, tmp_path: Path) -> None:
    sdist = build(ROOT, tmp_path / "sdist", "sdist")
    tree = unpacked_sdist(sdist, tmp_path / "tree")
    assert build(tree, tmp_path / "wheel", "wheel").read_bytes() == wheel.read_bytes()
    assert {path.name for path in tree.iterdir()} >= {"tests", "docs", "Makefile", "LICENSE"}


def test_the_metadata_names_licence_extras_and_programs_that_exist(alone: Path) -> None:
    folder = alone / f"{PREFIX}.dist-info"
    metadata = email.message_from_string((folder / "METADATA").read_text())
    assert metadata["License-Expression"] == "MIT" and metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == PROJECT["requires-python"]
    assert "llm" in metadata.get_all("Provides-Extra", [])
    points = configparser.ConfigParser()
    points.read(folder / "entry_points.txt")
    programs = dict(points["console_scripts"])
    assert set(programs) == {"haft", "haftd", "haft-askpass"}
    for program in programs.values():
        module, _, function = program.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_an_unpacked_wheel_finds_its_data_in_itself(alone: Path, tmp_path: Path) -> None:
    script = (
        "import haft.installation as i\n"
        "print(i.is_installed(), i.unit_templates(), i.nvim_plugin(), i.completion('zsh'))\n"
    )
    env = {"PYTHONPATH": str(alone), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd="/", capture_output=True, text=True, check=True
    )
    site = alone / "haft"
    places = (site / "systemd", site / "nvim", site / "completions" / "_haft")
    assert done.stdout.split() == ["True", *map(str, places)]
    assert all(place.exists() for place in places)


def test_a_source_tree_finds_its_data_beside_the_packages() -> None:
    from haft import installation

    assert not installation.is_installed()
    assert installation.unit_templates() == ROOT / "systemd"
    assert (installation.nvim_plugin() / "plugin" / "haft.lua").is_file()


def test_completions_are_installed_for_each_shell_that_haft_completes(alone: Path) -> None:
    from haft.installation import COMPLETIONS

    shared = alone / f"{PREFIX}.data" / "data" / "share"
    installed = sorted((shared / name).read_bytes() for name in SHARED)
    assert installed == sorted(
        (alone / "haft" / "completions" / name).read_bytes() for name in COMPLETIONS.values()
    )
