"""A private folder in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from haftd.host.files import memory_folder
from haftd.host.files.memory_folder import is_in_memory, open_memory_folder


def test_a_path_is_in_memory_on_a_tmpfs_only() -> None:
    assert is_in_memory(Path("/dev/shm"))
    assert not is_in_memory(Path("/proc"))
    assert not is_in_memory(Path("/dev/shm/missing"))


def test_a_folder_of_another_or_open_to_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_folder, "is_in_memory", lambda path: True)
    folder = tmp_path / "calls"
    assert open_memory_folder([folder]) == folder and folder.stat().st_mode & 0o777 == 0o700
    assert open_memory_folder([folder]) == folder
    folder.chmod(0o750)
    with pytest.raises(PermissionError):
        open_memory_folder([folder])
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(PermissionError):
        open_memory_folder([tmp_path / "link"])
