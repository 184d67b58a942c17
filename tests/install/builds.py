"""Builds of the distribution, with the build backend of pyproject.toml in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build(tree: Path, target: Path, kind: str) -> Path:
    """Build the `wheel` or the `sdist` of a source tree into a new folder; return its file."""
    env = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)],
        cwd=tree,
        env=env,
        check=True,
        capture_output=True,
    )
    (built,) = target.iterdir()
    return built


def unpacked_sdist(sdist: Path, target: Path) -> Path:
    """Unpack an sdist; return its source tree."""
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    (tree,) = target.iterdir()
    return tree


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())
