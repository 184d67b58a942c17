"""A result of `haft doctor`."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["ok", "note", "problem"]
"""`haft doctor` fails for a `problem`, not for a `note`."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of one check."""

    check: str
    """Name of the check, the first column of the output."""
    level: Level
    message: str
    advice: str = ""
    """Remedy, usually a command."""
