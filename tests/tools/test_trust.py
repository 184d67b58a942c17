"""The store of trust."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from haftd.tools.projects import trust
from haftd.tools.projects.trust import Trust, TrustedFile, TrustedRoot, TrustFault


def one(digest: str = "d", text: str = "t", name: str = "a.toml") -> TrustedRoot:
    return TrustedRoot(1.5, {name: TrustedFile(digest, text)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trust.json"


def test_a_grant_is_visible_to_all_until_revoked(path: Path) -> None:
    here, there = Trust(str(path)), Trust(str(path))
    assert here.files("/r") == {} and here.problems == ()
    here.grant("/r", one())
    here.grant("/s", one("e"))
    assert there.files("/r") == {"a.toml": TrustedFile("d", "t")}
    assert set(there.roots()) == {"/r", "/s"}
    assert there.revoke("/r") and not there.revoke("/r")
    assert here.files("/r") == {} and here.files("/s")["a.toml"].digest == "e"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(file.name for file in path.parent.iterdir()) == ["trust.json", "trust.json.lock"]


def test_the_repr_of_a_file_shows_no_text() -> None:
    assert repr(TrustedFile("0123456789abcdef", "hunter2")) == "TrustedFile(0123456789ab…)"


def test_a_grant_is_for_these_files_and_no_others(path: Path) -> None:
    store = Trust(str(path))
    store.grant("/r", one(name="a.toml"))
    store.grant("/r", one(name="b.toml"))
    assert list(store.files("/r")) == ["b.toml"]


GOOD = b'{"version":1,"roots":{"/r":{"at":1,"files":{"a.toml":{"digest":"d","text":""}}}}}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        GOOD[:-1],
        b"[]",
        b"\xff",
        GOOD.replace(b'"version":1', b'"version":2'),
        GOOD.replace(b'"d"', b"7"),
        GOOD.replace(b'"at":1', b'"at":1e308'),  # in no calendar
        GOOD.replace(b'"at":1', b'"at":-1e308'),
        b"[" * 100_000,
    ],
)
def test_a_broken_store_trusts_nothing_is_named_and_set_aside(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    store = Trust(str(path))
    assert store.files("/r") == {}
    (problem,) = store.problems
    assert problem.file == str(path) and "no root is trusted" in problem.message
    store.grant("/s", one())
    assert set(store.roots()) == {"/s"} and store.problems == ()
    assert Path(f"{path}.bad").read_bytes() == content


@pytest.mark.parametrize("how", ["others write", "link", "folder", "pipe", "large"])
def test_a_store_accessible_to_others_trusts_nothing(path: Path, how: str) -> None:
    if how == "others write":
        path.write_bytes(GOOD)
        path.chmod(0o622)
    elif how == "link":
        (path.parent / "other").write_bytes(GOOD)
        path.symlink_to(path.parent / "other")
    elif how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path, 0o600)
    else:
        path.write_bytes(GOOD)
        os.truncate(path, trust.MAX_STORE_BYTES + 1)
        path.chmod(0o600)
    store = Trust(str(path))
    assert store.files("/r") == {} and len(store.problems) == 1
    store.grant("/s", one())
    assert set(store.roots()) == {"/s"}
    if how == "link":
        assert (path.parent / "other").read_bytes() == GOOD


def test_an_unwritable_store_is_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Trust(str(path))
    store.grant("/r", one())
    before = path.read_bytes()
    monkeypatch.setattr(trust, "MAX_STORE_BYTES", 200)
    with pytest.raises(TrustFault, match="larger than 200 bytes"):
        store.grant("/s", one(text="x" * 200))
    monkeypatch.undo()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("haftd.tools.projects.trust.os.fsync", full)
    with pytest.raises(TrustFault, match="No space left"):
        store.revoke("/r")
    assert path.read_bytes() == before and "/r" in store.roots()


def test_a_concurrent_writer_gets_an_error_without_waiting(path: Path) -> None:
    store = Trust(str(path))
    with store._lock(), pytest.raises(TrustFault, match="try again"):
        Trust(str(path)).grant("/r", one())
    store.grant("/r", one())


def test_under_the_lock_the_store_is_read_whatever_its_times(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written in the same tick, of the same size, on the same inode: the file looks unchanged."""
    here, there = Trust(str(path)), Trust(str(path))
    here.grant("/a", one())
    assert set(here.roots()) == {"/a"}
    before = path.stat()
    there.grant("/b", one())
    with monkeypatch.context() as patch:
        patch.setattr("haftd.tools.projects.trust.os.stat", lambda path, **how: before)
        here.grant("/c", one())
    assert set(Trust(str(path)).roots()) == {"/a", "/b", "/c"}


def granter(path: str, number: int) -> None:
    store = Trust(path)
    for at in range(20):
        while True:
            try:
                store.grant(f"/{number}/{at}", one())
                break
            except TrustFault:
                continue


def test_nothing_is_lost_between_several_writers(path: Path) -> None:
    # A tracker of `spawn` would stay as a child of the process that runs the tests.
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=granter, args=(str(path), n)) for n in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
        assert writer.exitcode == 0
    assert len(Trust(str(path)).roots()) == 40


WRITES = """
import sys
from haftd.tools.projects.trust import Trust, TrustedFile, TrustedRoot
store = Trust(sys.argv[1])
print("up", flush=True)
for number in range(10**9):
    text = "x" * (number % 50 * 1000)
    store.grant("/r", TrustedRoot(number, {"a.toml": TrustedFile("d", text)}))
"""


def test_a_writer_killed_while_writing_leaves_the_store_whole(path: Path) -> None:
    env: dict[str, Any] = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for pause in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITES, str(path)], stdout=subprocess.PIPE, env=env
        )
        assert writer.stdout is not None and writer.stdout.readline() == b"up\n"
        store = Trust(str(path))
        while len(store.roots()) == 0:
            pass
        for _ in range(pause * 7):
            assert store.files("/r")["a.toml"].digest == "d" and store.problems == ()
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert json.loads(path.read_bytes())["version"] == 1
        store = Trust(str(path))
        assert list(store.files("/r")) == ["a.toml"] and store.problems == ()
        store.grant("/s", one())


def test_a_group_writable_store_is_not_believed(path: Path) -> None:
    store = Trust(str(path))
    store.grant("/r", one())
    path.chmod(0o620)
    assert store.files("/r") == {} and "writable by other users" in store.problems[0].message
