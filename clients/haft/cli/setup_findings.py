"""Checks of `haft doctor` on the files of `haft setup`: files that differ from those of this installation, and a
service whose program is missing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import HaftError
from ..installation import CACHE_REMEDY, cache_folder
from ..usermanager import UserManager
from . import show
from .finding import Finding
from .service_units import SERVICE, service_copy, unit_contents
from .setup_record import SetupRecord, WrittenFile, read
from .shared_files import PARTS, Changes, SharedFiles

# `systemctl show` prints the struct of ExecStart, org.freedesktop.systemd1(5), as
# `{ path=/usr/bin/python3 ; argv[]=/usr/bin/python3 -P -m haftd ; … }`.
_PROGRAM = re.compile(r"path=(.*?) ;")


def check_setup_files(env: Mapping[str, str]) -> Iterator[Finding]:
    """Compare the files of each part that was set up with those of this installation.

    Raises `PathError` without a home, `SetupFailed` for an unreadable record.
    """
    if (cache := cache_folder()) is not None:
        yield Finding(
            "installation", "note", f"this haft runs from the cache {cache}", CACHE_REMEDY
        )
    record = SetupRecord(env)
    for part in PARTS:
        recorded = record.of_part(part)
        if not recorded:
            continue
        changes = SharedFiles(part, env, record).plan_update()
        if stale := _describe_stale(changes, recorded):
            yield Finding(part, "note", stale, f"`haft setup {part}` updates the files")
        if changes.kept:
            path, why = next(iter(changes.kept.items()))
            others = len(changes.kept) - 1
            more = f" (and {show.counted(others, 'file')} more)" if others else ""
            yield Finding(part, "note", f"{path} {why}{more}")
        if not stale and not changes.kept:
            yield Finding(part, "ok", f"{show.counted(len(recorded), 'file')}, of this version")


def _describe_stale(changes: Changes, recorded: Mapping[Path, WrittenFile]) -> str:
    """Return how many files an update would write and remove, an empty text if none."""
    parts = []
    if changes.to_write:
        count = show.counted(len(changes.to_write), "file")
        parts.append(f"{count} missing or of another installation")
    if changes.to_restore:
        parts.append(
            f"{show.counted(len(changes.to_restore), 'file')} that this version does not have"
        )
    paths = [*changes.to_write, *changes.to_restore]
    versions = ", ".join(sorted({recorded[path].version for path in paths if path in recorded}))
    return ", ".join(parts) + (f" (haft {versions})" if versions else "")


def check_units(manager: UserManager) -> Iterator[Finding]:
    """Check that the program of the loaded service exists, and compare the unit files with those of this
    installation."""
    match = _PROGRAM.search(manager.properties(SERVICE, "ExecStart").get("ExecStart", ""))
    program = match[1] if match else ""
    if program and not os.access(program, os.X_OK):
        yield Finding(
            "service",
            "problem",
            f"{SERVICE} runs {program}, which is missing: the installation was updated or removed",
            "`haft setup service`",
        )
        return
    try:
        contents = unit_contents(manager, service_copy())
    except HaftError:
        return  # This installation could not set a service up.
    # Unlike a missing file, a missing unit is not a finding: the loaded unit is of another folder then, such
    # as a package's, and `haft setup` did not write it.
    stale = [path for path, content in contents.items() if read(path) not in (None, content)]
    if stale:
        names = " and ".join(path.name for path in stale)
        differ = "differs" if len(stale) == 1 else "differ"
        runs = f"; the service runs {program}" if program else ""
        yield Finding(
            "service",
            "note",
            f"{names} in {stale[0].parent} {differ} from this installation's{runs}",
            "`haft setup service` writes the units, `haft setup service --dry-run` shows the steps",
        )
