"""The tests near a module, found by names alone: those that mirror or import the module, and those of its room."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_ROOMS = {"haft": "client", "haft_protocol": "protocol", "haft/tools": "client/tools"}
"""Folders of tests that are not named after the room."""
_WHOLE = ("bench", "cases", "e2e", "faults")
"""Rooms of tests that run a whole daemon, whatever they import."""
_DAEMON = "RunningDaemon"
"""The type of the fixtures that run one."""


def mirrors_of(file: str) -> list[str]:
    """Return the test files named after a module, or after the package for its `__init__`."""
    path = Path(file)
    stem = (path.parent.name if path.stem == "__init__" else path.stem).strip("_")
    named = re.compile(rf"test_(\w+_)?{re.escape(stem)}(_\w+)?\.py")
    names = [str(test.relative_to(ROOT)) for test in (ROOT / "tests").glob("test_*.py")]
    return sorted({name for name in names + room_of(file) if named.fullmatch(Path(name).name)})


def record_of(file: str) -> list[str]:
    """Return the test of the record of values and options (`tests/fixed_values.txt`), which is near to each module."""
    return ["tests/test_surface.py"]


def room_of(file: str) -> list[str]:
    """Return all test files of a module's room; none for a module of the top level that has no room."""
    _, source, *rooms = Path(file).parts[:-1]
    folder = _ROOMS.get("/".join((source, *rooms[:1])))
    if folder is None:
        folder = rooms[0] if rooms and (ROOT / "tests" / rooms[0]).is_dir() else _ROOMS.get(source)
    if folder is None:
        return []
    tests = (ROOT / "tests" / folder).rglob("test_*.py")
    return sorted(str(test.relative_to(ROOT)) for test in tests)


def importers_of(file: str) -> list[str]:
    """Return the test files that import a module, but for those of a whole daemon."""
    _, *parts = Path(file).with_suffix("").parts
    if parts[-1] == "__init__":
        parts.pop()
    package, name = ".".join(parts[:-1]), parts[-1]
    dotted = rf"\b{re.escape('.'.join(parts))}\b"
    pattern = re.compile(rf"{dotted}|\bfrom {re.escape(package)} import .*\b{re.escape(name)}\b")
    return [test for test, text in _texts().items() if pattern.search(text)]


@cache
def _texts() -> dict[str, str]:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    texts = {
        str(file.relative_to(ROOT)): file.read_text()
        for file in files
        if file.relative_to(ROOT).parts[1] not in _WHOLE
    }
    return {name: text for name, text in texts.items() if _DAEMON not in text}
