"""The WebAssembly engine: wasmtime, of the extra `wasm`."""

from __future__ import annotations

import os
from functools import cache
from importlib.machinery import PathFinder

PACKAGE = "wasmtime"
REMEDY = (
    "modules of WebAssembly need the package wasmtime: install `haftd[wasm]`, then restart haftd"
)


@cache
def engine_folder() -> str | None:
    """Return the package's real folder, or None. Imports nothing of it."""
    spec = PathFinder.find_spec(PACKAGE)
    if spec is None or not spec.origin:
        return None
    return os.path.realpath(spec.origin).rpartition(f"/{PACKAGE}/")[0]


def engine_version() -> str:
    """Return the version by the metadata's name, or an empty string."""
    folder = engine_folder() or ""
    head, tail = f"{PACKAGE}-", ".dist-info"
    names = os.listdir(folder) if folder else []  # noqa: PTH208
    found = [name for name in names if name.startswith(head) and name.endswith(tail)]
    return max(found, default="").removeprefix(head).removesuffix(tail)
