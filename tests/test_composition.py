"""Values that the daemon is composed of."""

from __future__ import annotations

import site
import sys
from pathlib import Path

import pytest

from haftd.composition import _installation, _programs
from haftd.executions.calls import find_askpass


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_users_site_packages_are_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, is_enabled: bool
) -> None:
    """Python looks there before the installation, so a tool could plant a module for the next start."""
    monkeypatch.setattr(site, "ENABLE_USER_SITE", is_enabled)
    monkeypatch.setattr(site, "USER_SITE", "/home/me/.local/lib/python3/site-packages")
    assert (str(site.USER_SITE) in list(_installation())) is is_enabled


@pytest.mark.parametrize("place", ["executable", "argv"])
def test_the_programs_beside_the_interpreter_or_the_script_are_part_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    names = ("haft", "haftd", "haft-askpass")
    for name in names:
        (tmp_path / name).touch(mode=0o755)
    program = str(tmp_path / "haftd")
    monkeypatch.setattr(sys, "executable", program if place == "executable" else "/none/python")
    monkeypatch.setattr(sys, "argv", ["haftd" if place == "executable" else program, "--socket"])
    assert {str(tmp_path / name) for name in names} <= set(_installation())
    assert find_askpass(_programs()) == str(tmp_path / "haft-askpass")
