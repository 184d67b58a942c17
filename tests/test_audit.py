"""The audit log's file."""

from __future__ import annotations

import json
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from haftd.audit import MAX_FILE_SIZE, Audit, make_input_fields


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


@contextmanager
def no_longer_than(size: int) -> Iterator[None]:
    """Limit files of this process to `size`, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_record_is_one_line_readable_by_the_user_only(path: Path) -> None:
    audit = Audit(str(path), clock=lambda: 12.34567)
    audit.record("apply", handle="a", input="x\ny\u2028")
    audit.record("abort", handle="a")
    assert read(path) == [
        {"at": 12.346, "event": "apply", "handle": "a", "input": "x\ny\u2028"},
        {"at": 12.346, "event": "abort", "handle": "a"},
    ]
    assert path.read_bytes().count(b"\n") == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert audit.problems == ()


def test_a_record_is_one_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = Audit(str(path))
    written: list[bytes] = []
    write = os.write

    def watched(fd: int, data: bytes) -> int:
        written.append(data)
        return write(fd, data)

    monkeypatch.setattr(os, "write", watched)
    audit.record("apply", input="x" * 4000)
    assert len(written) == 1 and written[0].endswith(b"\n")


def test_a_log_readable_by_others_is_made_private(path: Path) -> None:
    path.write_text("")
    path.chmod(0o644)
    Audit(str(path)).record("abort")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "no folder"])
def test_a_foreign_file_is_refused_named_and_harms_nothing(path: Path, kind: str) -> None:
    other = path.with_name("other")
    other.write_text("mine")
    match kind:
        case "link":
            path.symlink_to(other)
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path = path / "none" / "audit.jsonl"
    audit = Audit(str(path))
    audit.record("abort")
    (problem,) = audit.problems
    assert problem.file == str(path) and "cannot be written" in problem.message
    assert "1 records are missing" in problem.message
    if kind == "link":
        assert "symbolic link" in problem.message
    assert other.read_text() == "mine"


def test_a_file_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text("")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    audit = Audit(str(path))
    audit.record("abort")
    assert "belongs to the user" in audit.problems[0].message and path.read_text() == ""


def test_the_log_is_bounded_and_one_older_file_is_kept(path: Path) -> None:
    audit = Audit(str(path), limit=1000)
    for n in range(100):
        audit.record("apply", n=n)
    older = path.with_name("audit.jsonl.1")
    assert path.stat().st_size <= 1000 and older.stat().st_size <= 1000
    kept = [record["n"] for record in read(older) + read(path)]
    assert kept == list(range(100 - len(kept), 100)) and len(kept) > 20
    assert sorted(one.name for one in path.parent.iterdir()) == ["audit.jsonl", "audit.jsonl.1"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert MAX_FILE_SIZE == 8 * 1024 * 1024


def test_two_daemons_share_the_log_and_lose_only_the_oldest_records(path: Path) -> None:
    both = [Audit(str(path), limit=2000) for _ in range(2)]
    for n in range(60):
        both[n % 2].record("apply", n=n)
    kept = [record["n"] for record in read(path.with_name("audit.jsonl.1")) + read(path)]
    assert kept == list(range(60 - len(kept), 60)) and len(kept) > 25


def test_a_moved_log_is_begun_anew(path: Path) -> None:
    audit = Audit(str(path))
    audit.record("one")
    path.rename(path.with_name("kept"))
    audit.record("two")
    path.unlink()
    audit.record("three")
    assert [record["event"] for record in read(path)] == ["three"]
    assert [record["event"] for record in read(path.with_name("kept"))] == ["one"]


def test_on_a_full_disk_work_goes_on_and_the_gap_is_named(path: Path) -> None:
    audit = Audit(str(path))
    audit.record("before")
    with capture_logs() as entries, no_longer_than(path.stat().st_size + 10):
        for _ in range(3):
            audit.record("missing")
        (problem,) = audit.problems
        assert "3 records are missing" in problem.message
    assert len(entries) == 1, "the log hears of it once"
    audit.record("after")
    assert audit.problems == ()
    good = [line for line in path.read_text().splitlines() if line.endswith("}")]
    events = [json.loads(line) for line in good]
    assert [event["event"] for event in events] == ["before", "lost", "after"]
    assert events[1]["records"] == 3


def test_a_torn_line_of_an_earlier_daemon_spoils_no_other(path: Path) -> None:
    path.write_bytes(b'{"at":1,"eve')
    Audit(str(path)).record("next")
    assert json.loads(path.read_text().splitlines()[-1])["event"] == "next"


@pytest.mark.parametrize(
    ("form", "kept"),
    [
        ("y\n", {"input": "y\n"}),
        ({"line": "ls"}, {"input": {"line": "ls"}}),
        ({"keys": ["C-c", "Up"]}, {"input": {"keys": ["C-c", "Up"]}}),
        (True, {"input": True}),
        ("x" * 5000, {"input": "x" * 4096, "length": 5000}),
        ({"paste": "x" * 5000}, {"input": {"paste": "x" * 4096}, "length": 5000}),
        ({"keys": ["a"] * 100}, {"input": {"keys": ["a"] * 64}, "length": 100}),
    ],
)
def test_an_input_is_recorded_unchanged_and_a_long_one_cut(
    form: object, kept: dict[str, object]
) -> None:
    assert make_input_fields(form) == kept
