"""`__all__` stands where others import from, and nowhere else. Numbers that are decisions are recorded."""

from __future__ import annotations

import re
from pathlib import Path

from .fixed_values import fixed_values, read_record

ROOT = Path(__file__).parent.parent

PUBLIC = {
    *(ROOT / "protocol/haft_protocol").glob("[!_]*.py"),
    ROOT / "clients/haft/__init__.py",
    ROOT / "clients/haft/aio.py",
    ROOT / "clients/haft/client.py",
    ROOT / "clients/haft/errors.py",
    ROOT / "clients/haft/tools/__init__.py",
    ROOT / "clients/haft/tools/host.py",
    ROOT / "daemon/haftd/runtimes/base.py",
    ROOT / "daemon/haftd/runtimes/no_process.py",
    ROOT / "daemon/haftd/schemas/__init__.py",
    ROOT / "daemon/haftd/testing.py",
}
"""The wire for another client, the Python clients, the author of a tool or of a runtime; and one room's facade."""


def lists_its_names(module: Path) -> bool:
    return re.search(r"^__all__\b", module.read_text(), re.MULTILINE) is not None


def test_the_public_modules_list_their_names_and_no_others_do() -> None:
    roots = ("daemon", "protocol", "clients", "tests")
    modules = {module for root in roots for module in (ROOT / root).rglob("*.py")}
    listing = {module for module in modules if lists_its_names(module)}
    assert {str(one.relative_to(ROOT)) for one in listing ^ PUBLIC} == set()


def test_limits_times_and_defaults_are_the_recorded_ones() -> None:
    """No other test could say that a limit of 80 is right and one of 81 wrong: each change shows in the record."""
    recorded, found = read_record(), fixed_values()
    changed = {
        name: f"{recorded.get(name)} -> {found.get(name)}"
        for name in recorded.keys() | found.keys()
        if recorded.get(name) != found.get(name)
    }
    assert not changed, f"if this is meant, run `python -m tests.fixed_values`: {changed}"
