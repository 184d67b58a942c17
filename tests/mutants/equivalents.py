"""Faults that no test can see, because the program does the same with them, each with the reason.

They stand in `equivalents.toml`. An entry holds while its line of source does: a changed line is judged anew.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from .fault_sample import Key

_FILE = Path(__file__).with_name("equivalents.toml")


@dataclass(frozen=True, slots=True)
class Equivalent:
    """One fault of one line, and the reason why the program does the same with it."""

    key: Key
    reason: str


def read_equivalents() -> list[Equivalent]:
    """Read the list."""
    entries = tomllib.loads(_FILE.read_text())["equivalent"]
    return [
        Equivalent(
            Key(entry["file"], entry["scope"], entry["line"], entry["was"], entry["becomes"]),
            entry["reason"],
        )
        for entry in entries
    ]
