"""The manifest of the extension matches its source and the daemon. Needs no npm."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.running_daemon import RunningDaemon
from tests.vscode import manifest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "clients" / "vscode"
SOURCE = "\n".join(path.read_text() for path in sorted((FOLDER / "src").rglob("*.ts")))
PACKAGE: dict[str, Any] = json.loads((FOLDER / "package.json").read_text())
CONTRIBUTES: dict[str, Any] = PACKAGE["contributes"]


def _commands() -> set[str]:
    return {entry["command"] for entry in CONTRIBUTES["commands"]}


def test_every_contributed_command_is_registered_and_no_other() -> None:
    registered = set(re.findall(r'\bcommand\("(haft\.\w+)"', SOURCE))
    for names in re.findall(r"for \(const \[name, readOnly\] of (\[.*?\]) as const\)", SOURCE):
        registered |= set(re.findall(r'"(haft\.\w+)"', names))
    assert registered == _commands()


def test_every_command_in_a_menu_a_key_or_a_row_is_contributed() -> None:
    used = {entry["command"] for menu in CONTRIBUTES["menus"].values() for entry in menu}
    used |= {entry["command"] for entry in CONTRIBUTES["keybindings"]}
    for welcome in CONTRIBUTES["viewsWelcome"]:
        used |= set(re.findall(r"command:(haft\.\w+)", welcome["contents"]))
    used |= set(re.findall(r'command: "(haft\.\w+)"', SOURCE))
    assert used <= _commands()


def test_every_read_setting_is_declared_with_its_default_and_no_other() -> None:
    read = dict(re.findall(r'(?:\.get|isOffered)\("(\w+)", ("[^"]*"|\w+)\)', SOURCE))
    declared = CONTRIBUTES["configuration"]["properties"]
    assert {f"haft.{key}": json.loads(value) for key, value in read.items()} == {
        name: entry["default"] for name, entry in declared.items()
    }


def test_views_profiles_and_providers_are_those_of_the_source() -> None:
    views = {view["id"] for group in CONTRIBUTES["views"].values() for view in group}
    assert set(re.findall(r'createTreeView\("([\w.]+)"', SOURCE)) == views
    profiles = {profile["id"] for profile in CONTRIBUTES["terminal"]["profiles"]}
    assert set(re.findall(r'registerTerminalProfileProvider\("([\w.]+)"', SOURCE)) == profiles
    servers = {server["id"] for server in CONTRIBUTES["mcpServerDefinitionProviders"]}
    assert set(re.findall(r'registerMcpServerDefinitionProvider\("([\w.]+)"', SOURCE)) == servers


def test_the_core_does_not_know_the_editor() -> None:
    for path in (FOLDER / "src" / "core").glob("*.ts"):
        assert 'from "vscode"' not in path.read_text(), path


def test_dependencies_are_pinned_and_there_is_no_lock_file() -> None:
    assert all(
        re.fullmatch(r"\d+\.\d+\.\d+", version) for version in PACKAGE["devDependencies"].values()
    )
    assert PACKAGE["engines"]["vscode"] == f"^{PACKAGE['devDependencies']['@types/vscode']}"
    assert "package-lock.json" in (ROOT / ".gitignore").read_text().split()
    assert "dependencies" not in PACKAGE


def test_the_version_is_that_of_haft() -> None:
    assert f'\nversion = "{PACKAGE["version"]}"\n' in (ROOT / "pyproject.toml").read_text()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Any:
    running = RunningDaemon(tmp_path_factory.mktemp("vscode")).start()
    yield running
    running.close()


def test_the_language_model_tools_are_those_of_the_daemon(daemon: RunningDaemon) -> None:
    assert CONTRIBUTES["languageModelTools"] == manifest.language_model_tools(daemon), (
        "package.json is stale: run `python -m tests.vscode.manifest`"
    )
