"""Names of runtimes: the daemon's own, of which `wasm` needs an engine, and those that packages add
by the entry point `haft.runtimes`. A package replaces no runtime of the daemon."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.machinery import PathFinder

from haft_protocol.errors import shown
from haft_protocol.methods import Problem

from .document import problem
from .entry_points import EntryPoint, find_entry_points

GROUP = "haft.runtimes"
_OWN = ("stdio", "pty", "vfs", "wasm")
MEDIATED = "vfs"
"""Runtime with host calls; its process has no direct access."""
_RESERVED = (*_OWN, "builtin", "mcp")
_ENGINE = "wasmtime"
_NO_ENGINE = (
    "modules of WebAssembly need the package wasmtime: install `haftd[wasm]`, then restart haftd"
)


@cache
def find_engine_folder() -> str | None:
    """Return the real path of the folder with the engine's package; None if it is not installed.
    Imports nothing of it."""
    spec = PathFinder.find_spec(_ENGINE)
    if spec is None or not spec.origin:
        return None
    return os.path.realpath(spec.origin).rpartition(f"/{_ENGINE}/")[0]


def find_engine_version() -> str:
    """Return the engine's version, from the name of its metadata folder; empty if unknown."""
    folder = find_engine_folder() or ""
    head, tail = f"{_ENGINE}-", ".dist-info"
    names = os.listdir(folder) if folder else []  # noqa: PTH208
    matching = [name for name in names if name.startswith(head) and name.endswith(tail)]
    return max(matching, default="").removeprefix(head).removesuffix(tail)


@cache
def find_added_runtimes() -> Mapping[str, EntryPoint]:
    """Return the packages' runtimes by name; read once in a process."""
    return {entry.name: entry for entry in _find_entries() if not _find_fault(entry)}


def find_runtime_problems() -> Iterable[Problem]:
    """Yield the faults of packages' runtimes, which are left out."""
    for entry in _find_entries():
        if why := _find_fault(entry):
            yield problem(entry.file, f"{GROUP}.{entry.name}", why, entry.line)


def list_served_names() -> tuple[str, ...]:
    """Return the runtimes that this daemon can run."""
    own = _OWN if find_engine_folder() else [name for name in _OWN if name != "wasm"]
    return (*own, *find_added_runtimes())


def explain_unserved_runtime(runtime: str) -> str:
    """Return the reason why this daemon has no such runtime."""
    if runtime == "wasm":
        return _NO_ENGINE
    *names, last = (f"`{name}`" for name in list_served_names())
    return f"this version runs only {', '.join(names)} and {last}"


def read_names() -> tuple[str, ...]:
    """Return the runtimes that a definition may name: `wasm` also without its engine, as the error about
    that follows where such a tool is used."""
    return (*_OWN, *find_added_runtimes())


def _find_entries() -> list[EntryPoint]:
    return find_entry_points(GROUP, sys.path)


def _find_fault(entry: EntryPoint) -> str:
    if entry.name in _RESERVED:
        return f"haftd has its own runtime {shown(entry.name)}, which cannot be replaced"
    if not entry.name.replace("_", "").replace("-", "").isalnum():
        return f"{shown(entry.name)} is not a name for a runtime: letters, digits, `_`, `-`"
    if not entry.object:
        return 'an entry point for a runtime must name what makes it: "module:object"'
    return ""
