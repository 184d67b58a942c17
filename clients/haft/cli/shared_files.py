"""Files that `haft setup` writes to the person's data folders for other programs: completions,
manual pages, the Neovim plugin.

A file that the person has changed is kept, and named, until its replacement is asked for. A link in
the place of a file belongs to another installation, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from haft_protocol.paths import config_home, data_folder

from ..installation import completion, nvim_plugin
from .manual import page, pages
from .setup_record import SetupRecord, read

Contents = dict[Path, bytes]
"""Content by path."""

_HELP_TAG = re.compile(r"(?:^|(?<=[ \t]))\*([^*\s|]+)\*(?=[ \t\n])", re.MULTILINE)
_MAN_DATE = re.compile(rb"\A(\.TH \S+ \S+) \S+")


def _data_home(env: Mapping[str, str]) -> Path:
    return Path(data_folder(env)).parent


def _completions(env: Mapping[str, str]) -> Contents:
    data = _data_home(env)
    places = {
        "bash": data / "bash-completion" / "completions" / "haft",
        "zsh": data / "zsh" / "site-functions" / "_haft",
        "fish": Path(config_home(env)) / "fish" / "completions" / "haft.fish",
    }
    return {path: completion(shell).read_bytes() for shell, path in places.items()}


def _manual(env: Mapping[str, str]) -> Contents:
    folder = _data_home(env) / "man" / "man1"
    return {folder / f"{name}.1": page(name).encode() for name in pages()}


def _nvim(env: Mapping[str, str]) -> Contents:
    plugin = nvim_plugin()
    start = _data_home(env) / "nvim" / "site" / "pack" / "haft" / "start" / "haft"
    files = (file for file in sorted(plugin.rglob("*")) if file.suffix in (".lua", ".txt"))
    contents = {start / file.relative_to(plugin): file.read_bytes() for file in files}
    helps = sorted(plugin.glob("doc/*.txt"))
    contents[start / "doc" / "tags"] = help_tags({file.name: file.read_text() for file in helps})
    return contents


def help_tags(helps: Mapping[str, str]) -> bytes:
    """Return the file of tags that `:helptags` writes for these help files, by name.

    With it `:help haft` works at once, and a later `:helptags ALL` changes no file of ours.
    """
    lines = []
    for name, text in helps.items():
        for tag in _HELP_TAG.findall(text):
            pattern = tag.replace("\\", "\\\\").replace("/", "\\/")
            lines.append(f"{tag}\t{name}\t/*{pattern}*\n".encode())
    return b"".join(sorted(lines))


PARTS: dict[str, Callable[[Mapping[str, str]], Contents]] = {
    "completions": _completions,
    "man": _manual,
    "nvim": _nvim,
}
REMARKS = {
    "completions": "bash: the package bash-completion loads it; "
    "zsh: add {data}/zsh/site-functions to fpath before compinit",
    "man": "",
    "nvim": "in Neovim: `:help haft`",
}
"""Further steps of the person."""


class Changes(msgspec.Struct, frozen=True):
    """Changes of an update or an undo; a `kept` file is left alone for the reason."""

    to_write: list[Path]
    to_restore: list[Path]
    """Files to replace by what they replaced, or to remove."""
    kept: dict[Path, str]

    def steps(self, record: SetupRecord) -> list[str]:
        files = ((path, record.find(path)) for path in self.to_restore)
        return [
            *(f"write {path}" for path in self.to_write),
            *(
                f"{'remove' if file is None or file.before is None else 'put back'} {path}"
                for path, file in files
            ),
            *(f"keep {path}: it {why}" for path, why in self.kept.items()),
        ]


class SharedFiles:
    """One part's files, compared with those on disk."""

    def __init__(self, part: str, env: Mapping[str, str], record: SetupRecord) -> None:
        self._part = part
        self._contents = PARTS[part](env)
        self._record = record
        remark = REMARKS[part]
        self.remark = remark.format(data=_data_home(env)) if remark else ""

    def plan_update(self, *, replace: bool = False) -> Changes:
        """Compare the files with those on disk; files that the person has changed are written only if
        `replace`."""
        changes = Changes([], [], {})
        for path, content in self._contents.items():
            if _is_same(read(path), content):
                continue
            if path.is_symlink():
                changes.kept[path] = f"is a link to {path.readlink()}; remove it first"
            elif not path.exists() or self._record.is_untouched(path) or replace:
                changes.to_write.append(path)
            elif self._record.find(path) is None:
                changes.kept[path] = "was not written by `haft setup`; --replace replaces it"
            else:
                changes.kept[path] = (
                    "was changed since haft wrote it; --replace replaces it, and --undo puts it back"
                )
        for path in self._record.of_part(self._part):
            if path not in self._contents and self._record.is_untouched(path):
                changes.to_restore.append(path)
        return changes

    def plan_undo(self, *, replace: bool = False) -> Changes:
        """Compare the recorded files with those on disk; files that the person has changed are restored
        only if `replace`."""
        changes = Changes([], [], {})
        for path in self._record.of_part(self._part):
            if self._record.is_untouched(path) or (replace and not path.is_symlink()):
                changes.to_restore.append(path)
            else:
                changes.kept[path] = "was changed since haft wrote it; --replace removes it"
        return changes

    def apply(self, changes: Changes) -> None:
        """Carry the changes out; raise SetupFailed."""
        if changes.to_write:
            self._record.write(
                self._part, {path: self._contents[path] for path in changes.to_write}
            )
        if changes.to_restore:
            self._record.restore(changes.to_restore)


def _is_same(present: bytes | None, content: bytes) -> bool:
    """Compare contents, except for the date of a manual page."""
    if present is None:
        return False
    return present == content or _MAN_DATE.sub(rb"\1", present) == _MAN_DATE.sub(rb"\1", content)
