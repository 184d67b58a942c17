"""Installed distribution of this process, and copies of it.

A copy has the same versions of all requirements, is made without a network, and named by a digest
of its content. A folder without the file `complete` is an interrupted copy.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import sys
import sysconfig
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from haft_protocol.paths import cache_above

from .errors import SetupFailed

_DISTRIBUTION = "haftd"
_PACKAGES = ("haft", "haft_protocol", "haftd")
_REQUIRED_NAME = re.compile(r"[A-Za-z0-9._-]+")
_METADATA = ("METADATA", "entry_points.txt")

# A `#!` line cannot have a path with a space or of more than 127 bytes. Line 2 is a command to `sh` and
# a string to Python.
_SCRIPT = """\
#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys

from {module} import {function}

sys.exit({function}())
"""


class CopyFailed(SetupFailed):
    """The installation cannot be copied; the message gives the reason."""


def is_installed() -> bool:
    """True for code from a wheel, not from a source tree (editable or not)."""
    return _packaged("systemd").is_dir()


CACHE_REMEDY = "install it: `uv tool install haftd` or `pipx install haftd`"


def cache_folder() -> str | None:
    """Return the cache that this process runs from, as with `uvx` and `pipx run`."""
    return cache_above(sys.prefix, os.path.exists)


def unit_templates() -> Path:
    return _data("systemd", "systemd")


COMPLETIONS = {"bash": "haft.bash", "zsh": "_haft", "fish": "haft.fish"}


def completion(shell: str) -> Path:
    return _packaged("completions") / COMPLETIONS[shell]


def nvim_plugin() -> Path:
    return _data("nvim", "clients/nvim")


def _packaged(name: str) -> Path:
    return Path(str(files("haft"))) / name


def _data(name: str, source: str) -> Path:
    """Return a folder of data: in the package of a wheel, beside the packages of a source tree."""
    packaged = _packaged(name)
    return packaged if packaged.is_dir() else _packaged("").parents[1] / source


class InstallationCopy:
    """A virtual environment below `folder` that holds a copy of this installation."""

    def __init__(self, folder: str) -> None:
        """Read the installation and name the copy, without a write; raise `CopyFailed`."""
        self._required = [*_closure(_DISTRIBUTION)]
        self._folder = Path(folder)
        self.path = self._folder / f"env-{_digest(self._required)}"
        self.python = self.path / "bin" / "python"

    @property
    def is_complete(self) -> bool:
        return (self.path / "complete").exists()

    def create(self) -> None:
        """Make the copy unless complete, or wait for the process that makes it. Raises
        `CopyFailed`."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            turn = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(turn, fcntl.LOCK_EX)
                if not self.is_complete:
                    self._copy()
            finally:
                os.close(turn)
        except OSError as fault:
            raise CopyFailed(f"{self.path} cannot be made: {fault}") from fault

    def _copy(self) -> None:
        try:
            venv.EnvBuilder(clear=True, symlinks=True, with_pip=False).create(self.path)
            site = Path(sysconfig.get_path("purelib", "venv", {"base": str(self.path)}))
            for package in _PACKAGES:
                shutil.copytree(_source(package), site / package, ignore=_IGNORED)
            shutil.copytree(unit_templates(), site / "haft" / "systemd", dirs_exist_ok=True)
            for required in self._required:
                _copy_distribution(required, site)
            self._write_scripts()
            (self.path / "complete").touch()
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def others(self) -> list[Path]:
        return [path for path in self._folder.glob("env-*") if path != self.path]

    def _write_scripts(self) -> None:
        for point in distribution(_DISTRIBUTION).entry_points.select(group="console_scripts"):
            script = self.path / "bin" / point.name
            python = re.sub(r'([\\"$`])', r"\\\1", str(self.python))
            text = _SCRIPT.format(python=python, module=point.module, function=point.attr)
            script.write_text(text, encoding="utf-8")
            script.chmod(0o755)


_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")


def _closure(name: str, seen: set[str] | None = None) -> Iterator[Distribution]:
    """Yield the distribution and its requirements; a marker ruled out an uninstalled one."""
    seen = set() if seen is None else seen
    # Before the lookup, as each attribute parses the metadata again.
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in seen:
        return
    seen.add(key)
    try:
        package = distribution(name)
    except PackageNotFoundError:
        if name == _DISTRIBUTION:
            raise CopyFailed(
                f"the package {name} is not installed, so it cannot be copied; install it with "
                "`pip install` first"
            ) from None
        return
    yield package
    for line in package.requires or ():
        requirement, _, marker = line.partition(";")
        needed = _REQUIRED_NAME.match(requirement)
        if needed is not None and "extra ==" not in marker:
            yield from _closure(needed[0], seen)


def _source(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CopyFailed(f"the package {package} is not installed beside this one")
    return Path(spec.submodule_search_locations[0])


def _digest(required: list[Distribution]) -> str:
    digest = hashlib.sha256(f"{sys.version}\n{os.path.realpath(sys.executable)}\n".encode())
    for package in required:
        metadata = package.metadata
        digest.update(f"{metadata['Name']} {metadata['Version']}\n".encode())
    for folder in (*map(_source, _PACKAGES), unit_templates()):
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                name = os.fsencode(file.relative_to(folder))
                digest.update(b"%b\0%b\0" % (name, file.read_bytes()))
    return digest.hexdigest()[:16]


def _copy_distribution(package: Distribution, site: Path) -> None:
    name = package.name
    if package.files is None:
        raise CopyFailed(f"the package {name} does not list its installed files")
    for file in package.files:
        is_own = name == _DISTRIBUTION and file.name not in _METADATA
        if is_own or file.is_absolute() or ".." in file.parts or "__pycache__" in file.parts:
            continue  # copied already; scripts are rewritten
        source = Path(str(file.locate()))
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
