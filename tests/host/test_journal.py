"""`handles.lock`: a record is written whole or not at all, and no content prevents a start."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haftd.host.process.identity import Identity
from haftd.host.process.process_tag import ProcessTag
from haftd.host.recovery.journal import Journal, read_records
from haftd.host.recovery.record import VERSION, Record
from tests.effort import examples
from tests.faults.harness import record_of

HOME = "0123456789ab"


def record(n: int, **changed: object) -> Record:
    who = Identity(1000 + n, 7 * n, 10_000 + n, "boot", 4026531836)
    return record_of(who, ProcessTag(HOME, "aaaaaaaaaaaa", n), **changed)


def filled(path: Path, count: int = 5) -> list[Record]:
    """Write a file as a daemon leaves it: several starts, some of them ended."""
    journal = Journal.open(path)
    journal.compact()
    for n in range(count):
        journal.start(record(n))
    for n in range(0, count, 2):
        journal.end(record(n).mark)
    journal.close()
    return [record(n) for n in range(1, count, 2)]


def aside(path: Path) -> list[Path]:
    return sorted(path.parent.glob(path.name + ".bad-*"))


def test_started_and_not_ended_handles_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    assert Journal.open(path).records == []
    expected = filled(path)
    assert path.stat().st_mode & 0o777 == 0o600
    journal = Journal.open(path)
    assert journal.records == expected == read_records(path)
    assert journal.problems == [] and aside(path) == []
    journal.compact()
    assert journal.records == expected
    journal.close()
    assert Journal.open(path).records == expected


def test_a_closed_journal_touches_no_other_descriptor_and_a_start_opens_it_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "handles.lock"
    expected = filled(path)
    journal = Journal.open(path)
    journal.close()
    other = os.open(os.devnull, os.O_RDONLY)  # has the number that was the journal's
    journal.close()
    os.fstat(other)
    journal.start(record(9))
    journal.close()
    os.fstat(other)
    os.close(other)
    assert read_records(path) == [*expected, record(9)]


def test_a_rewrite_closes_the_file_before(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "handles.lock")
    journal.compact()
    held = len(os.listdir("/proc/self/fd"))
    journal.compact()
    assert len(os.listdir("/proc/self/fd")) == held
    journal.close()
    assert len(os.listdir("/proc/self/fd")) == held - 1


text = st.text(max_size=40)
number = st.integers(0, (1 << 64) - 1)
identities = st.builds(Identity, pid=number, ticks=number, inode=number, boot=text, ns=number)
records = st.builds(
    Record,
    n=number,
    pid=number,
    ticks=number,
    inode=number,
    boot=text,
    ns=number,
    sid=number,
    uid=number,
    mark=text,
    cgroup=text,
    session=text,
    id=text,
    tool=text,
    generation=number,
    command=st.text(st.characters(), max_size=40),
    at=st.floats(0, 1e12),
    others=st.lists(identities, max_size=3).map(tuple),
)


@settings(max_examples=examples(16), deadline=None)
@given(started=st.lists(records, max_size=6, unique_by=lambda one: one.mark))
def test_every_record_comes_back_as_it_was(
    started: list[Record], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("journal") / "handles.lock"
    journal = Journal.open(path)
    for one in started:
        journal.start(one._replace(others=()))
    journal.compact(started)
    journal.close()
    again = Journal.open(path)
    assert (again.records, again.problems) == (started, [])
    again.compact()
    again.close()
    assert read_records(path) == started


def _flip(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1 :]


MUTATIONS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": _flip,
    "truncate": lambda data, dice: data[: dice.randrange(len(data))],
    "head gone": lambda data, dice: data[dice.randrange(1, len(data)) :],
    "nuls": lambda data, dice: data + b"\0" * dice.randrange(1, 5000),
    "nuls inside": lambda data, dice: data[:400] + b"\0" * 4096 + data[400:],
    "random": lambda data, dice: dice.randbytes(dice.randrange(1, 3000)),
    "random inside": lambda data, dice: data[:500] + dice.randbytes(99) + data[500:],
    "torn line before": lambda data, dice: b"deadbeef {" + data,
    "long line": lambda data, dice: b"0" * 200_000 + b"\n" + data,
    "deep": lambda data, dice: _encode_line(b'{"t":' + b"[" * 20_000 + b"]" * 20_000 + b"}") + data,
    "numbers": lambda data, dice: data + _encode_line(b'{"t":"start","pid":' + b"9" * 9000 + b"}"),
    "words": lambda data, dice: data + _encode_line(b'{"t":"start","n":1,"pid":-1,"mark":3}'),
    "unknown": lambda data, dice: data + _encode_line(b'{"t":"mystery"}'),
    "kin": lambda data, dice: data + _encode_line(b'{"t":"kin","mark":"x","who":[[1,2]]}'),
    "lines": lambda data, dice: b"\n" * 5000 + data,
}


def _encode_line(body: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(body), body)


@pytest.mark.parametrize(
    "rounds", [20, pytest.param(700, marks=pytest.mark.soak)], ids=["short", "soak"]
)
@pytest.mark.parametrize("kind", MUTATIONS)
def test_P15_a_corrupt_file_is_set_aside_and_its_valid_lines_kept(
    kind: str, rounds: int, tmp_path: Path
) -> None:
    path = tmp_path / "handles.lock"
    for number_ in range(rounds):
        dice = random.Random(f"{kind}{number_}")
        expected = filled(path)
        whole = path.read_bytes()
        bad = MUTATIONS[kind](whole, dice)
        path.write_bytes(bad)
        begun = time.process_time()
        journal = Journal.open(path)
        assert time.process_time() - begun < 1.0
        # Nothing is made up: each is a written record, at worst of an ended handle.
        assert set(journal.records) <= {record(n) for n in range(5)}
        if kind not in ("flip", "truncate", "head gone", "random"):
            assert set(journal.records) >= set(expected) or kind in _GLUED
        if kind == "truncate" and bad.startswith(_encode_line(HEAD)):
            assert journal.problems == []  # as a kill in the middle of a line leaves the file
        elif bad and bad.count(b"\n") >= whole.count(b"\n"):
            assert journal.problems and aside(path)[-1].read_bytes() == bad
        journal.start(record(77))
        journal.compact()
        kept = journal.records
        journal.close()
        assert read_records(path) == kept and record(77) in kept
        again = Journal.open(path)
        assert again.problems == []
        again.close()
        for old in (path, *aside(path)):
            old.unlink()


HEAD = b'{"t":"head","v":%d}' % VERSION
_GLUED = ("torn line before", "nuls inside", "random inside")
"""Kinds that may cost the one line they stand in."""


def test_P15_one_flipped_bit_costs_one_line(tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    journal = Journal.open(path)
    for n in range(20):
        journal.start(record(n))
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[7] = lines[7].replace(b"start", b"stArt")
    path.write_bytes(b"".join(lines))
    assert read_records(path) == [record(n) for n in range(20) if n != 6]


@pytest.mark.parametrize("content", [b"", b"\0", b"\n", b"\xff\xfe", b"{}\n"])
def test_P15_the_daemon_starts_with_an_empty_or_foreign_file(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "handles.lock"
    path.write_bytes(content)
    journal = Journal.open(path)
    assert journal.records == [] and journal.problems
    journal.compact()
    journal.start(record(1))
    journal.close()
    assert read_records(path) == [record(1)]
    assert [one.read_bytes() for one in aside(path)] == [content]


@pytest.mark.parametrize("filling", ["hole", "newlines", "records"])
def test_P15_a_file_of_a_gigabyte_is_read_at_both_ends_within_a_second(
    filling: str, tmp_path: Path
) -> None:
    path = tmp_path / "handles.lock"
    filled(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(1 << 30)
        if filling != "hole":
            one = b"\n" if filling == "newlines" else _encode_line(b'{"t":"end","mark":"x"}')
            for end in (size, (1 << 30) - (3 << 20)):
                file.seek(end)
                file.write((one * (3 << 20))[: 3 << 20])
    with path.open("ab") as file:
        file.write(b"\n")
    journal = Journal.open(path)
    journal.start(record(9))
    journal.close()
    # Of this process: other load on the machine is not the law's subject.
    begun = time.process_time()
    journal = Journal.open(path)
    assert {record(1), record(3), record(9)} <= set(journal.records)
    journal.compact()
    assert time.process_time() - begun < 1.0
    journal.close()
    assert path.stat().st_size < 5000
    # The runtime folder is memory: a gigabyte is not kept there.
    assert [old.stat().st_size for old in aside(path)] == [1 << 20]


def test_P15_files_set_aside_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    for n in range(9):
        path.write_bytes(b"bad %d" % n)
        journal = Journal.open(path)
        journal.compact()
        journal.close()
    names = sorted(old.name for old in aside(path))
    assert names == [f"handles.lock.bad-{n}" for n in range(5, 10)]


def test_a_corrupt_file_stays_in_place_until_the_rewrite(tmp_path: Path) -> None:
    """P21: a start that dies in the middle has lost nothing, and sets a single copy aside."""
    path = tmp_path / "handles.lock"
    expected = filled(path)
    path.write_bytes(path.read_bytes() + b"junk")
    for _ in range(10):
        journal = Journal.open(path)
        assert journal.records == expected
        journal.close()
    assert len(aside(path)) == 1


def test_L08_an_older_version_is_read(tmp_path: Path) -> None:
    """Version 0 had neither session ids nor users in its records."""
    path = tmp_path / "handles.lock"
    path.write_bytes(
        _encode_line(b'{"t":"head","v":0}')
        + _encode_line(
            b'{"t":"start","n":1,"pid":5,"ticks":6,"inode":7,"boot":"b","ns":8,"mark":"m"}'
        )
    )
    journal = Journal.open(path)
    assert journal.problems == []
    assert journal.records == [Record(1, 5, 6, 7, "b", 8, sid=5, uid=os.getuid(), mark="m")]


def test_L08_a_newer_version_is_set_aside_unread(tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    filled(path)
    newer = path.read_bytes().splitlines(keepends=True)
    newer[0] = _encode_line(b'{"t":"head","v":%d}' % (VERSION + 1))
    path.write_bytes(b"".join(newer))
    journal = Journal.open(path)
    assert journal.records == []
    assert any("version" in problem for problem in journal.problems)
    journal.compact()
    journal.start(record(3))
    journal.close()
    assert read_records(path) == [record(3)]
    assert aside(path)[0].read_bytes() == b"".join(newer)


def test_fields_added_by_a_later_version_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    filled(path, 0)
    with path.open("ab") as file:
        file.write(
            _encode_line(
                b'{"t":"start","n":1,"pid":5,"ticks":6,"inode":7,"boot":"b","ns":8,"mark":"m","new":[1]}'
            )
        )
    assert [one.mark for one in Journal.open(path).records] == ["m"]


@pytest.mark.parametrize("kind", ["link", "folder", "fifo", "foreign"])
def test_a_non_file_at_the_path_is_moved_aside(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    target = tmp_path / "target"
    target.write_text("precious")
    if kind == "link":
        path.symlink_to(target)
    elif kind == "folder":
        path.mkdir()
        (path / "x").touch()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        if os.getuid() != 0:
            pytest.skip("only root can make a file of another user")
        path.write_text("theirs")
        os.chown(path, 65534, 65534)
    journal = Journal.open(path)
    assert journal.records == [] and journal.problems
    assert len(aside(path)) == 1 and not os.path.lexists(path)
    journal.start(record(1))
    journal.close()
    assert read_records(path) == [record(1)]
    assert target.read_text() == "precious"


def test_P16_a_short_write_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    filled(path)
    journal = Journal.open(path)
    before = path.read_bytes()
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for room in (0, 1, 20, 100):
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, hard))
            with pytest.raises(OSError, match=r"."):
                journal.start(record(6))
            assert path.read_bytes() == before
            assert record(6) not in journal.records
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    journal.start(record(7))
    journal.close()
    again = Journal.open(path)
    assert again.records[-1] == record(7) and again.problems == []


def test_P16_a_partial_line_that_stays_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "handles.lock"
    journal = Journal.open(path)
    journal.start(record(1))
    write = os.write

    def cut(fd: int, data: bytes) -> int:
        return write(fd, data[:30])

    def refuse(_fd: int, _size: int) -> None:
        raise OSError(5, "I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", cut)
        patch.setattr(os, "ftruncate", refuse)
        with pytest.raises(OSError, match="No space"):
            journal.start(record(2))
    journal.start(record(3))
    journal.close()
    assert read_records(path) == [record(1), record(3)]


def test_P16_an_unwritable_folder_refuses_only_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gone" / "handles.lock"
    journal = Journal.open(path)
    with pytest.raises(FileNotFoundError):
        journal.start(record(1))
    path.parent.mkdir()
    journal.start(record(2))
    assert read_records(path) == [record(2)]
    journal.close()


def test_a_vanished_file_is_rewritten_and_without_its_folder_none_is(
    tmp_path: Path,
) -> None:
    """L01: an unlinked file would be read by no process."""
    path = tmp_path / "haft" / "handles.lock"
    path.parent.mkdir()
    journal = Journal.open(path)
    journal.start(record(1))
    path.unlink()
    journal.start(record(2))
    assert read_records(path) == [record(1), record(2)]
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(FileNotFoundError):
        journal.start(record(3))
    assert journal.records == [record(1), record(2)]
    journal.close()


def test_the_file_does_not_grow_with_ended_handles(tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    journal = Journal.open(path)
    journal.start(record(0))
    for n in range(1, 3000):
        journal.start(record(n))
        journal.end(record(n).mark)
    assert path.stat().st_size < 400 << 10
    journal.close()
    assert read_records(path) == [record(0)]


WRITER = """
import sys
from pathlib import Path
from haftd.host.recovery.journal import Journal
from haftd.host.recovery.record import Record
def record(n): return Record(n, 1000 + n, 7 * n, 10_000 + n, "boot", 9, 1, 0, f"a.b.{n}")
journal = Journal.open(Path(sys.argv[1]))
journal.compact([])
print("writing", flush=True)
n = 0
while True:
    n += 1
    journal.start(record(n))
    if n > 3: journal.end(record(n - 3).mark)
    if n % 50 == 0: journal.compact()
"""


@pytest.mark.parametrize(
    "cycles", [12, pytest.param(300, marks=pytest.mark.soak)], ids=["short", "soak"]
)
def test_after_a_kill_at_any_moment_the_file_is_whole(cycles: int, tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    dice = random.Random(7)
    for _ in range(cycles):
        child = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"writing\n"
        time.sleep(dice.random() * 0.03)  # the moment of the kill, not a wait for anything
        child.kill()
        child.wait()
        child.stdout.close()
        journal = Journal.open(path)
        assert journal.problems == []
        assert len(journal.records) <= 4
        journal.close()


def test_a_stopped_handle_stays_stopped_after_a_rewrite(tmp_path: Path) -> None:
    path = tmp_path / "handles.lock"
    journal = Journal.open(path)
    journal.start(record(1))
    journal.start(record(2))
    journal.stopped(record(1).mark)
    journal.stopped("nobody's")
    assert [record.is_stopped for record in read_records(path)] == [True, False]
    journal.compact()
    assert [record.is_stopped for record in read_records(path)] == [True, False]
    journal.end(record(1).mark)
    assert [record.n for record in read_records(path)] == [2]
    journal.close()
