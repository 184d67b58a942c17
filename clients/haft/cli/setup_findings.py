"""Findings about the files of `haft setup`: of another version, units of a missing program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from ..errors import HaftError
from ..installation import CACHE_REMEDY, cache_folder
from ..usermanager import UserManager
from . import show
from .service_units import SERVICE, service_copy, unit_contents
from .setup_record import SetupRecord, read
from .shared_files import PARTS, SharedFiles

_PROGRAM = re.compile(r"path=(.*?) ;")


class SetupFinding(NamedTuple):
    check: str
    level: Literal["ok", "note", "problem"]
    message: str
    advice: str = ""


def setup_findings(env: Mapping[str, str]) -> Iterator[SetupFinding]:
    """Compare the recorded files with those of this version.

    Raises `PathError` without a home, `SetupFailed` for an unreadable record.
    """
    if (cache := cache_folder()) is not None:
        yield SetupFinding(
            "installation", "note", f"this haft runs from the cache {cache}", CACHE_REMEDY
        )
    record = SetupRecord(env)
    for part in PARTS:
        files = record.of_part(part)
        if not files:
            continue
        changes = SharedFiles(part, env, record).to_write()
        stale = [*changes.written, *changes.restored]
        versions = ", ".join(sorted({files[path].version for path in stale if path in files}))
        if stale:
            yield SetupFinding(
                part,
                "note",
                f"{show.counted(len(stale), 'file')} missing or of another installation"
                + (f" (haft {versions})" if versions else ""),
                f"`haft setup {part}` writes them",
            )
        elif changes.kept:
            path, why = next(iter(changes.kept.items()))
            yield SetupFinding(part, "note", f"{path} {why}")
        else:
            yield SetupFinding(part, "ok", f"{show.counted(len(files), 'file')}, of this version")


def unit_findings(manager: UserManager) -> Iterator[SetupFinding]:
    """Compare the loaded service with that of this installation."""
    match = _PROGRAM.search(manager.properties(SERVICE, "ExecStart").get("ExecStart", ""))
    program = match[1] if match else ""
    if program and not os.access(program, os.X_OK):
        yield SetupFinding(
            "service",
            "problem",
            f"{SERVICE} runs {program}, which is missing: it was updated or removed",
            "`haft setup service`",
        )
        return
    try:
        units = unit_contents(manager, service_copy())
    except HaftError:
        return  # This installation could not set a service up.
    stale = [unit for unit, content in units.items() if read(unit) not in (None, content)]
    if stale:
        names = " and ".join(unit.name for unit in stale)
        yield SetupFinding(
            "service",
            "note",
            f"{names} of {_folder(stale)} differ from those of this haft; the service runs {program}",
            "`haft setup service` writes them, `haft setup service --dry-run` shows it",
        )


def _folder(units: list[Path]) -> Path:
    return units[0].parent
