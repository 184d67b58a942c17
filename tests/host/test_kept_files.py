"""Files of /proc that stay open for a second read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from haftd.host.input_state.kept_files import _MAX_KEPT, KeptFiles
from haftd.host.input_state.wait_snapshot import WaitSnapshot, take_snapshot


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_a_second_read_has_the_present_content_and_opens_nothing(tmp_path: Path) -> None:
    files = KeptFiles()
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert files.read(str(path)) == b"one"
    path.write_bytes(b"another")
    before = open_files()
    assert files.read(str(path)) == b"another" and open_files() == before
    files.close()


def test_the_file_of_an_ended_process_is_read_no_more() -> None:
    files = KeptFiles()
    with subprocess.Popen(["sleep", "60"]) as process:
        path = f"/proc/{process.pid}/stat"
        assert b"sleep" in files.read(path)
        process.kill()
    with pytest.raises(ProcessLookupError):
        files.read(path)
    files.close()


def test_few_files_stay_open_and_none_after_the_close(tmp_path: Path) -> None:
    files, before = KeptFiles(), open_files()
    paths = [tmp_path / str(number) for number in range(_MAX_KEPT + 5)]
    for path in paths:
        path.write_text(path.name)
    for _ in range(2):
        assert [files.read(str(path)).decode() for path in paths] == [path.name for path in paths]
        assert len(open_files()) == len(before) + _MAX_KEPT
    files.close()
    assert open_files() == before
    with pytest.raises(FileNotFoundError):
        files.read(str(tmp_path / "none"))
    assert open_files() == before


def test_a_snapshot_without_descriptors_raises_and_leaves_none_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that cannot be examined for lack of descriptors has not ended."""

    def no_descriptor(path: str, flags: int) -> int:
        raise OSError(24, "Too many open files")

    snapshot = WaitSnapshot()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_descriptor)
        with pytest.raises(OSError, match="Too many"):
            take_snapshot(snapshot, [os.getpid()], None, lambda facts: True)
    snapshot.close()
