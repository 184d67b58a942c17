"""The file of used ids."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from haftd.host.files import id_log
from haftd.host.files.id_log import IdLog, Use


def nothing() -> list[Use]:
    return []


def test_the_last_line_of_an_id_counts(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    log = IdLog(path, nothing)
    for use in (("s", "a", 1), ("s", "b", 1), ("t", "a", 7), ("s", "a", 2), ("s", "b", 0)):
        log.note(*use)
    log.close()
    assert IdLog(path, nothing).load() == [("t", "a", 7), ("s", "a", 2)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_truncated_line_damages_no_other(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    path.write_bytes(b'["s","a",1]\n["s","b')
    log = IdLog(path, nothing)
    assert log.load() == [("s", "a", 1)]
    log.note("s", "c", 1)
    assert IdLog(path, nothing).load() == [("s", "a", 1), ("s", "c", 1)]


def test_a_long_file_is_rewritten_with_the_known_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_log, "MAX_LINES", 10)
    known: dict[tuple[str, str], int] = {}
    path = tmp_path / "ids"
    log = IdLog(path, lambda: [(*key, generation) for key, generation in known.items()])
    for generation in range(1, 26):
        known["s", "a"] = generation
        log.note("s", "a", generation)
        assert len(path.read_bytes().splitlines()) <= 10
    assert IdLog(path, nothing).load() == [("s", "a", 25)]
    assert [one.name for one in tmp_path.iterdir()] == ["ids"]


def test_a_removed_file_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "ids"
    log = IdLog(path, nothing)
    log.note("s", "a", 1)
    path.unlink()
    log.note("s", "b", 1)
    assert log.load() == [("s", "b", 1)]


def test_a_reopened_file_leaves_no_descriptor(tmp_path: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    log = IdLog(tmp_path / "ids", nothing)
    for generation in (1, 2):
        log.note("s", "a", generation)
        (tmp_path / "ids").unlink()
    log.close()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_failed_write_fails_nothing_else(tmp_path: Path) -> None:
    log = IdLog(tmp_path / "missing" / "ids", nothing)
    log.note("s", "a", 1)
    assert log.load() == []
