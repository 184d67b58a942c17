"""The names of the runtimes: the daemon's own, and those that packages add by the entry point `haft.runtimes`.

Rules: names only; nothing is loaded here. They are a fact of the installation, read once. A package can add one of
the names that are read and not served (`vfs`, `wasm`), and takes none of the daemon's own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache

from haft_protocol.errors import shown
from haft_protocol.methods import Problem

from .document import problem
from .entry_points import EntryPoint, entry_points

GROUP = "haft.runtimes"
_OWN = ("stdio", "pty")
_TAKEN = (*_OWN, "builtin", "mcp")
_UNSERVED = ("vfs", "wasm")


@cache
def added_runtimes() -> Mapping[str, EntryPoint]:
    """Return the runtimes of packages by name."""
    return {entry.name: entry for entry in _entries() if not _fault(entry)}


def runtime_problems() -> Iterable[Problem]:
    """Say which entry points are passed over."""
    for entry in _entries():
        if why := _fault(entry):
            yield problem(entry.file, f"{GROUP}.{entry.name}", why, entry.line)


def served_names() -> tuple[str, ...]:
    """Return the names of the runtimes that can run a local tool."""
    return (*_OWN, *added_runtimes())


def unserved_runtime() -> str:
    """Return a clause about a runtime that is not served."""
    *names, last = (f"`{name}`" for name in served_names())
    return f"this version runs {', '.join(names)} and {last} only"


def read_names() -> tuple[str, ...]:
    """Return the names that a definition may have."""
    return tuple(dict.fromkeys((*_OWN, *_UNSERVED, *added_runtimes())))


def _entries() -> list[EntryPoint]:
    return entry_points(GROUP, sys.path)


def _fault(entry: EntryPoint) -> str:
    if entry.name in _TAKEN:
        return f"haftd has a runtime {shown(entry.name)} of its own, which stays"
    if not entry.name.replace("_", "").replace("-", "").isalnum():
        return f"{shown(entry.name)} is no name for a runtime: letters, digits, `_`, `-`"
    if not entry.object:
        return 'an entry point for a runtime names what makes it: "module:object"'
    return ""
