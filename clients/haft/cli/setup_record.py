"""Record of the files that `haft setup` has written, so that `--undo` restores each byte.

The record is saved first: after an interruption, a recorded file has the new content, the former
content, or is missing. A file with other content was changed by the person.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from haft_protocol.paths import data_folder

from .. import __version__
from ..errors import SetupFailed

NAME = "setup.json"


class WrittenFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of a part."""

    part: str
    digest: str
    version: str
    before: bytes | None = None
    """Content that was replaced; None if there was no file before."""


class _Content(msgspec.Struct, omit_defaults=True):
    files: dict[str, WrittenFile] = {}
    folders: list[str] = []
    """Folders that setup made, outermost first."""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class SetupRecord:
    def __init__(self, env: Mapping[str, str]) -> None:
        """Read the record; raise `SetupFailed` if it cannot be read, `PathError` without a home."""
        self._file = Path(data_folder(env)) / NAME
        try:
            self._content = msgspec.json.decode(self._file.read_bytes(), type=_Content)
        except (FileNotFoundError, NotADirectoryError):
            self._content = _Content()
        except (OSError, msgspec.MsgspecError) as fault:
            reason = fault.strerror if isinstance(fault, OSError) else fault
            raise SetupFailed(
                f"{self._file}, the list of files that setup wrote, cannot be read: {reason}; move it away"
            ) from fault

    def of_part(self, part: str) -> dict[Path, WrittenFile]:
        files = self._content.files.items()
        return {Path(path): file for path, file in files if file.part == part}

    def find(self, path: Path) -> WrittenFile | None:
        return self._content.files.get(str(path))

    def is_untouched(self, path: Path) -> bool:
        """True if a recorded file is as written, as before, or missing."""
        file = self.find(path)
        if file is None or path.is_symlink():
            return False
        content = read(path)
        return content is None or content == file.before or digest(content) == file.digest

    def write(self, part: str, contents: Mapping[Path, bytes]) -> None:
        """Write files of a part, and remember what they replace; raise `SetupFailed`."""
        for path, content in contents.items():
            record = self.find(path)
            before = read(path)
            if record is not None and (before is None or digest(before) == record.digest):
                before = record.before
            self._content.files[str(path)] = WrittenFile(part, digest(content), __version__, before)
        self._make_folders([self._file, *contents])
        self._save()
        for path, content in contents.items():
            _replace(path, content)

    def restore(self, paths: list[Path]) -> None:
        """Put back the replaced files and remove the new files, with emptied folders; raise
        `SetupFailed`."""
        for path in paths:
            file = self._content.files[str(path)]
            if file.before is not None:
                _replace(path, file.before)
            else:
                _remove(path)
            del self._content.files[str(path)]
        self._save()
        self._remove_folders()

    def make_folder(self, folder: Path) -> None:
        """Make a folder and those above it; `restore` removes them when they are empty."""
        self._make_folders([folder / "_"])

    def _make_folders(self, files: list[Path]) -> None:
        for path in files:
            missing = []
            folder = path.parent
            while not folder.exists() and not folder.is_symlink():
                missing.append(folder)
                folder = folder.parent
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as fault:
                raise SetupFailed(f"{path} cannot be written: {fault.strerror}") from fault
            self._content.folders += [str(each) for each in reversed(missing)]

    def _remove_folders(self) -> None:
        kept = []
        for folder in reversed(self._content.folders):
            try:
                Path(folder).rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                kept.append(folder)
        self._content.folders = kept[::-1]
        if self._file.exists() and self._content.files:
            self._save()

    def _save(self) -> None:
        if self._content.files:
            _replace(self._file, msgspec.json.format(msgspec.json.encode(self._content)) + b"\n")
        else:
            _remove(self._file)


def read(path: Path) -> bytes | None:
    """Return a file's content, also through a link; None where no file can be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            beside.write_bytes(content)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as fault:
        raise SetupFailed(f"{path} cannot be written: {fault.strerror}") from fault


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as fault:
        raise SetupFailed(f"{path} cannot be removed: {fault.strerror}") from fault
