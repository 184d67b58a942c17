"""Files that `haft setup` writes for other programs: completions, manual pages, the Neovim plugin.

They are written to the person's own data folders, where the programs look by themselves. A link in
the place of a file belongs to another installation, and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from haft_protocol.paths import config_home, data_folder

from ..errors import SetupFailed
from ..installation import completion, nvim_plugin
from .manual import page, pages

Texts = dict[Path, str]
"""Text by path."""


def _data_home(env: Mapping[str, str]) -> Path:
    return Path(data_folder(env)).parent


def _completions(env: Mapping[str, str]) -> Texts:
    data = _data_home(env)
    places = {
        "bash": data / "bash-completion" / "completions" / "haft",
        "zsh": data / "zsh" / "site-functions" / "_haft",
        "fish": Path(config_home(env)) / "fish" / "completions" / "haft.fish",
    }
    return {path: completion(shell).read_text() for shell, path in places.items()}


def _manual(env: Mapping[str, str]) -> Texts:
    return {_data_home(env) / "man" / "man1" / f"{name}.1": page(name) for name in pages()}


def _nvim(env: Mapping[str, str]) -> Texts:
    plugin = nvim_plugin()
    start = _data_home(env) / "nvim" / "site" / "pack" / "haft" / "start" / "haft"
    files = (file for file in sorted(plugin.rglob("*")) if file.suffix in (".lua", ".txt"))
    return {start / file.relative_to(plugin): file.read_text() for file in files}


PARTS: dict[str, Callable[[Mapping[str, str]], Texts]] = {
    "completions": _completions,
    "man": _manual,
    "nvim": _nvim,
}
REMARKS = {
    "completions": "zsh: add {data}/zsh/site-functions to fpath before compinit",
    "man": "",
    "nvim": "in Neovim: `:helptags ALL` once, then `:help haft`",
}
"""Further steps of the person."""


class SharedFiles:
    """One part's files, compared with those that are there."""

    def __init__(self, part: str, env: Mapping[str, str]) -> None:
        self._texts = PARTS[part](env)
        remark = REMARKS[part]
        self.remark = remark.format(data=_data_home(env)) if remark else ""

    def missing(self) -> list[Path]:
        """Return the files to write."""
        return [path for path, text in self._texts.items() if not _holds(path, text)]

    def present(self) -> list[Path]:
        """Return the files to remove."""
        return [path for path in self._texts if path.is_file() and not path.is_symlink()]

    def write(self) -> None:
        """Write the missing files. Raises SetupFailed."""
        for path in self.missing():
            if path.is_symlink():
                raise SetupFailed(f"{path} is a link to {path.readlink()}; remove it first")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(self._texts[path], encoding="utf-8")
            except OSError as fault:
                raise SetupFailed(f"{path} cannot be written: {fault.strerror}") from fault

    def remove(self) -> None:
        """Remove the files, and folders that are empty then. Raises SetupFailed."""
        for path in self.present():
            try:
                path.unlink()
            except OSError as fault:
                raise SetupFailed(f"{path} cannot be removed: {fault.strerror}") from fault
            for parent in _own_parents(path):
                try:
                    parent.rmdir()
                except OSError:
                    break


def _own_parents(path: Path) -> Iterator[Path]:
    """Yield the folders above a file that have the name of haft, the innermost first."""
    parents = list(path.parents)
    named = [number for number, parent in enumerate(parents) if parent.name == "haft"]
    yield from parents[: max(named, default=-1) + 1]


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False
