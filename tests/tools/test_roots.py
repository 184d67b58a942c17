"""Definitions in a project root: bounded, and refused by name where untrustworthy."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haftd.tools.projects import roots
from haftd.tools.projects.roots import (
    MAX_FILE_BYTES,
    MAX_FILES,
    Folder,
    HashedFile,
    RefusedFile,
    find_project,
    hash_data,
    resolve_root,
)


def later() -> int:
    """Return a time 1,000 s from now: the modules of a long run are imported before it."""
    return time.time_ns() + 10**12


def folder_of(root: Path) -> Path:
    folder = root / ".haft" / "tools"
    folder.mkdir(parents=True)
    return folder


def settled(root: Path) -> Folder:
    """A folder whose current content counts as settled."""
    return Folder(resolve_root(str(root)), later)


def names(look: tuple[HashedFile | RefusedFile, ...]) -> dict[str, str]:
    return {file.name: file.why if isinstance(file, RefusedFile) else "" for file in look}


def test_files_are_found_by_name_with_their_hashed_content(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "b.toml").write_bytes(b"b")
    (folder / "a.toml").write_bytes(b"a")
    (folder / "c.txt").write_bytes(b"c")
    look = settled(tmp_path).read_files()
    assert [(file.name, file.data) for file in look if isinstance(file, HashedFile)] == [
        ("a.toml", b"a"),
        ("b.toml", b"b"),
    ]
    assert all(
        isinstance(file, HashedFile) and file.digest == hash_data(file.data) for file in look
    )


def test_files_in_subfolders_are_found_and_bounded_together(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    for name in ("z.toml", "git/a.toml", "git/deep/b.toml", "cargo/c.toml", ".git/d.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1")
    look = settled(tmp_path)
    found = look.read_files()
    assert list(names(found)) == ["cargo/c.toml", "git/a.toml", "git/deep/b.toml", "z.toml"]
    assert [file.path for file in found] == [str(folder / file.name) for file in found]
    (folder / "git" / "deep" / "b.toml").write_text("x = 2")
    assert {file.name: file.data for file in look.read_files() if isinstance(file, HashedFile)}[
        "git/deep/b.toml"
    ] == b"x = 2"
    for number in range(MAX_FILES):
        (folder / "cargo" / f"{number}.toml").write_text("")
    (file,) = look.read_files()
    assert isinstance(file, RefusedFile) and str(MAX_FILES) in file.why


def test_a_folders_project_is_the_nearest_root_with_definitions(
    tmp_path: Path,
) -> None:
    outer, inner = tmp_path / "outer", tmp_path / "outer" / "inner"
    folder_of(outer)
    (inner / "src" / "deep").mkdir(parents=True)
    assert find_project(str(inner / "src" / "deep")) == str(outer)
    assert find_project(str(inner / "gone" / "deep")) == str(outer)
    folder_of(inner)
    assert find_project(str(inner / "src" / "deep")) == find_project(str(inner)) == str(inner)
    assert find_project(str(outer)) == str(outer)
    (tmp_path / "link").symlink_to(inner / "src")
    assert find_project(str(tmp_path / "link")) == str(inner)
    alone = tmp_path / "alone"
    alone.mkdir()
    assert find_project(str(alone)) == str(alone)


def test_definitions_of_another_user_above_a_folder_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "outer" / "below"
    folder = folder_of(tmp_path / "outer")
    below.mkdir()
    owner = folder.stat().st_uid
    monkeypatch.setattr("haftd.tools.projects.roots.os.geteuid", lambda: owner + 1)
    if owner == 0:
        os.chown(folder, 12345, -1)
    assert find_project(str(below)) == str(below)
    assert find_project(str(tmp_path / "outer")) == str(tmp_path / "outer")


@pytest.mark.parametrize("made", ["nothing", "a file", "a file inside", "gone"])
def test_a_root_without_the_folder_has_nothing(tmp_path: Path, made: str) -> None:
    root = tmp_path / "root"
    if made == "a file":
        root.write_text("x")
    elif made == "a file inside":
        root.mkdir()
        (root / ".haft").write_text("x")
    elif made == "nothing":
        root.mkdir()
    assert settled(root).read_files() == ()


def test_a_non_file_is_refused_by_name_and_harms_no_other(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    folder = folder_of(root)
    (tmp_path / "outside.toml").write_text("x = 1")
    (tmp_path / "rooted.toml").write_text("x = 1")
    (root / "inside.toml").write_text("y = 1")
    (folder / "dir").symlink_to(root / ".haft")
    os.mkfifo(folder / "fifo.toml")
    (folder / "good.toml").write_text("z = 1")
    (folder / "lost.toml").symlink_to(tmp_path / "nowhere")
    (folder / "loop.toml").symlink_to("loop.toml")
    (folder / "out.toml").symlink_to(tmp_path / "outside.toml")
    (folder / "in.toml").symlink_to(root / "inside.toml")
    (folder / "beside.toml").symlink_to("../../../rooted.toml")
    (folder / "null.toml").symlink_to("/dev/null")
    (folder / "open.toml").write_text("")
    (folder / "open.toml").chmod(0o666)
    (folder / "\u202etxt.toml").write_text("")
    (folder / "large.toml").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with (folder / "huge.toml").open("wb") as huge:
        huge.truncate(100 * 1024 * 1024)
    found = names(settled(root).read_files())
    assert {name for name, why in found.items() if not why} == {"good.toml", "in.toml"}
    assert "leads out of the root" in found["out.toml"]
    assert "leads out of the root" in found["beside.toml"]
    assert "leads to no file" in found["lost.toml"] and "leads to no file" in found["loop.toml"]
    assert found["dir"] == "it is a link to a folder, which is not followed"
    for name in ("fifo.toml", "null.toml"):
        assert found[name] == "it is not a regular file"
    assert "chmod o-w" in found["open.toml"]
    assert "larger" in found["large.toml"] and "larger" in found["huge.toml"]
    assert "unprintable" in found["\\u202etxt.toml"]


@pytest.mark.parametrize("link", [".haft", ".haft/tools"])
def test_a_symlinked_folder_outside_the_root_gives_nothing(tmp_path: Path, link: str) -> None:
    other = folder_of(tmp_path / "other")
    (other / "a.toml").write_text("")
    root = tmp_path / "root"
    place = root / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "other" / link)
    (file,) = settled(root).read_files()
    assert isinstance(file, RefusedFile) and "leads out" in file.why


def test_a_root_with_the_same_name_prefix_is_outside(tmp_path: Path) -> None:
    other = folder_of(tmp_path / "root2")
    (other / "a.toml").write_text("")
    folder = folder_of(tmp_path / "root")
    (folder / "a.toml").symlink_to(other / "a.toml")
    (file,) = settled(tmp_path / "root").read_files()
    assert isinstance(file, RefusedFile)


@pytest.mark.parametrize("ending", ["toml", "txt"])
def test_ten_thousand_files_are_refused_at_once(tmp_path: Path, ending: str) -> None:
    folder = folder_of(tmp_path)
    (folder / "zero").write_bytes(b"")
    for number in range(10_000):
        os.link(folder / "zero", folder / f"{number}.{ending}")
    began = time.process_time()
    (file,) = settled(tmp_path).read_files()
    assert time.process_time() - began < 0.5
    assert isinstance(file, RefusedFile) and str(MAX_FILES) in file.why


def test_files_over_the_total_size_are_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    for number in range(20):
        (folder / f"{number}.toml").write_bytes(b"#" * MAX_FILE_BYTES)
    (file,) = settled(tmp_path).read_files()
    assert isinstance(file, RefusedFile) and "larger" in file.why


def test_unchanged_files_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder_of(tmp_path) / "a.toml").write_text("a")
    folder = settled(tmp_path)
    first = folder.read_files()
    monkeypatch.setattr("haftd.tools.projects.roots.os.open", None)
    assert folder.read_files() is first


@pytest.mark.parametrize(
    ("age_ns", "is_read"), [(0, True), (50_000_000, True), (50_000_001, False)]
)
def test_recently_changed_files_are_read_again_despite_equal_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_ns: int, is_read: bool
) -> None:
    """A file's time has the resolution of a tick: two writes in one tick look the same."""
    file = folder_of(tmp_path) / "a.toml"
    file.write_bytes(b"a = 1")
    found = file.stat()
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    folder = Folder(resolve_root(str(tmp_path)), lambda: changed + age_ns)
    monkeypatch.setattr(roots, "_make_signature", lambda found: "of the same tick")
    folder.read_files()
    file.write_bytes(b"a = 2")
    (one,) = folder.read_files()
    assert isinstance(one, HashedFile) and one.data == (b"a = 2" if is_read else b"a = 1")


@pytest.mark.parametrize("clock", [later, time.time_ns])
def test_every_change_is_detected(tmp_path: Path, clock: object) -> None:
    """Of the same length too, right after a read, and with the times set back."""
    file = folder_of(tmp_path) / "a.toml"
    file.write_bytes(b"a = 1")
    os.utime(file, ns=(1, 1))
    folder = Folder(resolve_root(str(tmp_path)), clock)  # type: ignore[arg-type]
    before = folder.read_files()
    assert folder.read_files() is before
    if clock is not time.time_ns:
        # A change within one tick of the file clock is for the other form.
        seen, probe = file.stat().st_ctime_ns, tmp_path / "probe"
        while not probe.exists() or probe.stat().st_ctime_ns <= seen:
            probe.write_bytes(b"x")
    file.write_bytes(b"a = 2")
    os.utime(file, ns=(1, 1))
    (one,) = folder.read_files()
    assert isinstance(one, HashedFile) and one.data == b"a = 2"
    file.unlink()
    assert folder.read_files() == ()


@given(st.lists(st.sampled_from(["write", "remove", "block", "look"]), max_size=12))
def test_a_later_read_equals_a_first_read(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    root = tmp_path_factory.mktemp("root")
    tools = folder_of(root)
    folder = Folder(resolve_root(str(root)))
    for number, step in enumerate(steps):
        if step == "write":
            (tools / "a.toml").write_bytes(b"%d" % (number % 3))
        elif step == "remove":
            (tools / "a.toml").unlink(missing_ok=True)
        elif step == "block":
            tools.parent.rename(root / ".was")
            tools.parent.write_text("")
            assert folder.read_files() == ()
            tools.parent.unlink()
            (root / ".was").rename(tools.parent)
        assert folder.read_files() == Folder(resolve_root(str(root))).read_files()
