"""Units of haftd as a user service: templates, with the command and the folders of this
installation."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from haft_protocol.paths import PathError, config_home, data_folder, state_folder

from ..errors import InvalidAddress
from ..installation import InstallationCopy, is_installed, unit_templates
from ..usermanager import UserManager

SOCKET, SERVICE = UNITS = ("haftd.socket", "haftd.service")


def service_copy() -> InstallationCopy | None:
    """Return the virtual environment to which a source tree is copied for the service, None for an
    installation from a wheel, from which the service runs itself.

    Raises `CopyFailed`, `InvalidAddress`.
    """
    return None if is_installed() else InstallationCopy(service_folder(os.environ))


def service_folder(env: Mapping[str, str]) -> str:
    """Return the folder of these virtual environments; raise `InvalidAddress`."""
    try:
        return data_folder(env)
    except PathError as fault:
        raise InvalidAddress(str(fault)) from fault


def service_python(copy: InstallationCopy | None) -> str:
    return sys.executable if copy is None else str(copy.python)


def unit_contents(manager: UserManager, copy: InstallationCopy | None) -> dict[Path, bytes]:
    """Return the units by path, with this shell's folders where the manager's differ.

    Raises `PathError` without a home.
    """
    # -P: no module from the working folder.
    lines = [f"ExecStart={quoted(service_python(copy), exec_start=True)} -P -m haftd"]
    for variable, folder in (
        ("XDG_CONFIG_HOME", config_home),
        ("XDG_STATE_HOME", lambda env: state_folder(env).removesuffix("/haft")),
    ):
        if (ours := folder(os.environ)) != folder(manager.environment):
            lines.append(f"Environment={quoted(f'{variable}={ours}')}")
    start_lines = "\n".join(lines) + "\n"
    return {manager.unit_folder / name: _unit(name, start_lines) for name in UNITS}


def _unit(name: str, start_lines: str) -> bytes:
    text = (unit_templates() / name).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    return "".join(
        start_lines if line.startswith("ExecStart=") else line for line in lines
    ).encode()


def quoted(text: str, *, exec_start: bool = False) -> str:
    """Quote a word for a unit; only a command line expands variables. See systemd.syntax(7)."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text.replace("$", "$$") if exec_start else text}"'
