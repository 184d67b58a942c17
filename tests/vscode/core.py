"""The extension's core as a program, which `npm run compile` has built; Node is the one that `make` installs."""

from __future__ import annotations

import sys
from pathlib import Path

_NODE = Path(sys.executable).parents[1] / ".node" / "node"
_BUILT = Path(__file__).parents[2] / "clients" / "vscode" / "dist"


def core_command(name: str = "driver") -> list[str] | None:
    """Return the command of a program in `test/`, the core behind an emulator; None where it is not built."""
    program = _BUILT / f"{name}.js"
    return [str(_NODE), str(program)] if _NODE.exists() and program.exists() else None
