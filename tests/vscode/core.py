"""The extension's core as a program, which `npm run compile` has built; Node is the one that `make` installs."""

from __future__ import annotations

import sys
from pathlib import Path

_NODE = Path(sys.executable).parents[1] / ".node" / "node"
_DRIVER = Path(__file__).parents[2] / "clients" / "vscode" / "dist" / "driver.js"


def core_command() -> list[str] | None:
    """Return the command of the core behind an emulator; None where it is not built."""
    return [str(_NODE), str(_DRIVER)] if _NODE.exists() and _DRIVER.exists() else None
