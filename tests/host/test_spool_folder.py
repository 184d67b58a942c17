"""Spool files have no name until linked, and a daemon sweeps up its own."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from haftd.host.files.spool_folder import SpoolFolder, sweep


def test_a_file_without_a_name_can_be_linked(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path, "home", lambda: False)
    fd = folder.open()
    try:
        assert list(tmp_path.iterdir()) == []
        os.write(fd, b"all of it")
        path = Path(folder.link(fd))
    finally:
        os.close(fd)
    assert path.read_bytes() == b"all of it" and path.parent == tmp_path
    assert path.stat().st_mode & 0o777 == 0o600 and not path.is_symlink()
    folder.unlink(str(path))
    folder.unlink(str(path))
    assert list(tmp_path.iterdir()) == []


def test_a_daemon_sweeps_up_only_its_own_files(tmp_path: Path) -> None:
    for name in ("mine.0", "mine.1", "other.0", "mine2.0"):
        (tmp_path / name).touch()
    sweep(tmp_path, "mine")
    assert {path.name for path in tmp_path.iterdir()} == {"other.0", "mine2.0"}
    sweep(tmp_path / "none", "mine")


@pytest.mark.parametrize("room", [True, False])
def test_too_few_descriptors_is_retried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: bool
) -> None:
    real = os.open
    tried: list[int] = []

    def opened(*args: object) -> int:
        tried.append(1)
        if len(tried) == 1:
            raise OSError(errno.EMFILE, "too many open files")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr("haftd.host.files.spool_folder.os.open", opened)
    folder = SpoolFolder(tmp_path, "home", lambda: room)
    if room:
        os.close(folder.open())
    else:
        with pytest.raises(OSError, match="too many"):
            folder.open()
    assert len(tried) == 1 + room
