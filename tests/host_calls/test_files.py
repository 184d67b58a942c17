"""Files of mediated tools: the rules hold for the file that is opened, by whatever name and at whatever moment."""

from __future__ import annotations

import base64
import os
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from haftd.host_calls.files import (
    MAX_READ,
    Files,
    Metadata,
    Place,
    Read,
    Rename,
    Write,
)
from haftd.host_calls.messages import HostCallError
from haftd.host_calls.search import Grep, Search
from haftd.runtimes.vfs.mediated_call import RuleThroughLink, with_real_paths

from .rules import access_of

ALL = 'fs.read = ["."]\nfs.write = ["."]'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name in ("src", "open", "closed", "drop"):
        (root / name).mkdir(parents=True)
    (root / "src/a.py").write_text("print('é')\n")
    (root / "closed/key").write_text("secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/key").write_text("secret")
    return root


Opener = Callable[[str], Files]


@pytest.fixture
def files(root: Path) -> Iterator[Opener]:
    opened: list[Files] = []

    def open_files(rules: str) -> Files:
        one = Files(with_real_paths(access_of(rules, root)))
        one.open()
        opened.append(one)
        return one

    before = len(os.listdir("/proc/self/fd"))
    yield open_files
    assert len(os.listdir("/proc/self/fd")) == before + len(opened), "descriptors were left open"
    for file in opened:
        file.close()


def kind_of(work: Callable[[], Any]) -> str:
    """Return the kind of the error, and check that its sentence is one."""
    with pytest.raises(HostCallError) as caught:
        work()
    assert caught.value.message.endswith(".")
    assert "secret" not in caught.value.message
    return caught.value.kind


def grepped(files: Files, **params: Any) -> dict[str, Any]:
    return Search(files, Grep(**params), lambda: False).run()


def test_a_file_is_read_in_pieces_and_as_bytes(files: Opener) -> None:
    own = files('fs.read = ["src"]')
    assert own.read(Read("src/a.py")) == {"content": "print('é')\n", "size": 12}
    assert own.read(Read("src/a.py", offset=0, length=5))["content"] == "print"
    assert kind_of(lambda: own.read(Read("src/a.py", length=8))) == "not_text"
    piece = own.read(Read("src/a.py", offset=7, length=2, encoding="base64"))
    assert base64.b64decode(piece["content"]) == "é".encode()


@pytest.mark.parametrize("offset", [-1, 2**62, 2**63 - 1, 2**70])
def test_an_impossible_offset_is_invalid(files: Opener, offset: int) -> None:
    own = files('fs.read = ["."]')
    assert kind_of(lambda: own.read(Read("src/a.py", offset=offset, length=1))) == "invalid"
    assert own.read(Read("src/a.py", offset=2**62 - 1))["content"] == ""


def test_each_method_needs_its_right(files: Opener, root: Path) -> None:
    (root / "drop/old").write_text("x")
    by_right: dict[str, Callable[[Files], Any]] = {
        "read": lambda own: own.read(Read("drop/old")),
        "update": lambda own: own.write(Write("drop/old", "y")),
        "create": lambda own: own.write(Write("drop/new", "y")),
        "delete": lambda own: own.delete(Place("drop/old")),
    }
    for granted in by_right:
        own = files(f'fs.{granted} = ["drop"]')
        for right, work in by_right.items():
            if right == granted:
                work(own)
            else:
                assert kind_of(partial(work, own)) == "denied", (granted, right)
        (root / "drop/old").write_text("x")
        (root / "drop/new").unlink(missing_ok=True)


def test_the_longest_path_decides(files: Opener) -> None:
    own = files('fs = [{ path = ".", read = true }, { path = "closed", read = false }]')
    assert own.read(Read("src/a.py"))["size"]
    for work in (
        lambda: own.read(Read("closed/key")),
        lambda: own.read(Read("closed/missing")),
        lambda: own.read(Read("closed/missing/deep")),
        lambda: own.exists(Place("closed/key")),
        lambda: own.metadata(Metadata("closed/key")),
        lambda: own.metadata(Metadata("closed/key", follow=False)),
        lambda: own.list_dir(Place("closed")),
        lambda: grepped(own, pattern=".", path="closed"),
    ):
        assert kind_of(work) == "denied"
    assert {match["path"] for match in grepped(own, pattern=".")["matches"]} == {"src/a.py"}


def test_an_error_names_the_rule_and_the_path(files: Opener) -> None:
    own = files('fs = [{ path = ".", read = true }, { path = "closed", read = false }]')
    with pytest.raises(
        HostCallError, match=r"'closed/key' is not permitted: .* for 'closed' takes"
    ):
        own.read(Read("closed/key"))
    with pytest.raises(HostCallError, match=r"no rule of `access.fs` grants it: `fs.create = "):
        own.write(Write("src/new", ""))


@pytest.mark.parametrize(
    "path",
    ["../outside/key", "src/../../outside/key", "src/..", "{outside}/key", "/etc/passwd", "/"],
)
def test_no_path_leads_out_of_the_root(files: Opener, root: Path, path: str) -> None:
    own = files(ALL)
    path = path.format(outside=root.parent / "outside")
    assert kind_of(lambda: own.read(Read(path))) == "denied"
    assert kind_of(lambda: own.write(Write(path, "x"))) == "denied"
    assert kind_of(lambda: own.delete(Place(path))) == "denied"
    assert kind_of(lambda: own.rename(Rename("src/a.py", path))) == "denied"
    assert (root.parent / "outside/key").read_text() == "secret"


def test_an_absolute_path_within_the_root_is_one_of_the_root(files: Opener, root: Path) -> None:
    assert files(ALL).read(Read(f"{root}/src/a.py"))["size"] == 12


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "", "x" * 5000, "src/" + "y" * 300])
def test_an_impossible_name_is_invalid(files: Opener, path: str) -> None:
    own = files(ALL)
    assert kind_of(lambda: own.read(Read(path))) == "invalid"
    assert kind_of(lambda: own.write(Write(path, "x"))) == "invalid"


def test_a_link_out_of_the_root_is_not_followed(files: Opener, root: Path) -> None:
    outside = root.parent / "outside"
    (root / "file").symlink_to(outside / "key")
    (root / "folder").symlink_to("../outside")
    (root / "new").symlink_to(outside / "new")
    own = files(ALL)
    for path in ("file", "folder/key", "folder/none", "new"):
        assert kind_of(partial(own.read, Read(path))) == "denied"
        assert kind_of(partial(own.write, Write(path, "x"))) == "denied"
    assert kind_of(lambda: own.list_dir(Place("folder"))) == "denied"
    assert kind_of(lambda: own.delete(Place("folder/key"))) == "denied"
    assert kind_of(lambda: own.rename(Rename("src/a.py", "folder/a.py"))) == "denied"
    assert kind_of(lambda: own.working_folder("folder")) == "denied"
    assert os.listdir(outside) == ["key"]
    assert {entry["kind"] for entry in own.list_dir(Place())["entries"]} == {"folder", "link"}


def test_a_link_within_the_root_counts_as_its_target(files: Opener, root: Path) -> None:
    (root / "open/in").symlink_to("../closed/key")
    (root / "closed/out").symlink_to("../src/a.py")
    own = files('fs.read = ["open", "src"]\nfs.write = ["open"]')
    assert kind_of(lambda: own.read(Read("open/in"))) == "denied"
    assert kind_of(lambda: own.write(Write("open/in", "x"))) == "denied"
    assert own.read(Read("closed/out"))["size"] == 12
    assert grepped(own, pattern="secret", path="open")["matches"] == []
    own.delete(Place("open/in"))
    assert (root / "closed/key").read_text() == "secret"


def test_a_link_of_proc_is_not_followed(files: Opener, root: Path) -> None:
    (root / "self").symlink_to("/proc/self/root/etc/passwd")
    own = files(ALL)
    assert kind_of(lambda: own.read(Read("self"))) == "denied"
    (root / "fd").symlink_to(f"/proc/self/fd/{own._root}")
    assert kind_of(lambda: own.read(Read("fd/src/a.py"))) == "denied"


@pytest.mark.parametrize(
    "path", ["proc/self/environ", "proc/self/root/etc/passwd", "proc/1/comm", "sys/kernel/mm"]
)
def test_a_root_with_proc_shows_nothing_of_the_kernel(path: str) -> None:
    own = Files(access_of(ALL, "/"))
    own.open()
    try:
        assert kind_of(lambda: own.read(Read(path))) == "denied"
        assert kind_of(lambda: own.list_dir(Place(path.rpartition("/")[0]))) == "denied"
        assert kind_of(lambda: own.delete(Place(path))) == "denied"
    finally:
        own.close()


def test_a_fifo_a_socket_and_a_device_are_never_opened(files: Opener, root: Path) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        own = files(ALL)
        for path in ("fifo", "socket"):
            assert kind_of(partial(own.read, Read(path))) == "not_a_file"
            assert kind_of(partial(own.write, Write(path, "x"))) == "not_a_file"
            assert own.metadata(Metadata(path))["kind"] == "other"
        assert grepped(own, pattern="x")["matches"] == []
    device = Files(access_of(ALL, "/dev"))
    device.open()
    for path in ("zero", "null", "tty", "random"):
        assert kind_of(partial(device.read, Read(path))) == "not_a_file"
    device.close()


def test_the_root_itself_has_metadata_without_following_links(files: Opener) -> None:
    own = files('fs.read = ["."]')
    assert own.metadata(Metadata(".", follow=False))["kind"] == "folder"


def test_a_large_file_is_read_in_pieces_only(files: Opener, root: Path) -> None:
    with open(root / "large", "wb") as large:
        large.truncate(1 << 40)
    own = files(ALL)
    assert kind_of(lambda: own.read(Read("large"))) == "too_large"
    assert kind_of(lambda: own.read(Read("large", length=MAX_READ + 1))) == "too_large"
    assert own.read(Read("large", offset=(1 << 40) - 2, length=100))["content"] == "\0\0"
    assert kind_of(lambda: own.write(Write("new", "x" * (MAX_READ + 1)))) == "too_large"
    assert kind_of(lambda: own.read(Read("large", offset=-1))) == "invalid"


def test_a_name_that_is_no_utf8_is_counted(files: Opener, root: Path) -> None:
    (root / os.fsdecode(b"open/\xff")).write_text("hit")
    own = files(ALL)
    assert own.list_dir(Place("open")) == {"entries": [], "unnameable": 1}
    assert grepped(own, pattern="hit", path="open")["matches"] == []


def test_a_full_folder_is_cut(files: Opener, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("haftd.host_calls.files.MAX_ENTRIES", 3)
    for number in range(4):
        (root / f"open/{number}").touch()
    listed = files(ALL).list_dir(Place("open"))
    assert len(listed["entries"]) == 3 and listed["truncated"]


def test_writes_make_replace_and_append(files: Opener, root: Path) -> None:
    own = files(ALL)
    assert own.write(Write("open/new", "one")) == {"created": True}
    assert own.write(Write("open/new", "2")) == {"created": False}
    assert own.write(Write("open/new", "AA==", encoding="base64", mode="append")) == {
        "created": False
    }
    assert (root / "open/new").read_bytes() == b"2\0"
    assert kind_of(lambda: own.write(Write("open/new", "x", mode="create"))) == "exists"
    assert kind_of(lambda: own.write(Write("no/new", "x"))) == "not_found"
    assert kind_of(lambda: own.write(Write("src/a.py/x", "x"))) == "not_a_folder"
    assert kind_of(lambda: own.write(Write("src", "x"))) == "not_a_file"
    assert kind_of(lambda: own.write(Write("x", "?", encoding="base64"))) == "invalid"
    own.write(Write("a/b/c", "deep", parents=True))
    assert (root / "a/b/c").read_text() == "deep"


def test_folders_are_made_only_where_granted(files: Opener, root: Path) -> None:
    own = files('fs.create = ["open"]')
    assert kind_of(lambda: own.write(Write("made/x", "x", parents=True))) == "denied"
    assert not (root / "made").exists()
    (root / "open/link").symlink_to("../closed")
    assert kind_of(lambda: own.write(Write("open/link/a/b", "x", parents=True))) == "denied"
    assert os.listdir(root / "closed") == ["key"]


def test_a_link_to_nothing_makes_no_file(files: Opener, root: Path) -> None:
    (root / "open/link").symlink_to("../closed/made")
    own = files(ALL)
    assert kind_of(lambda: own.write(Write("open/link", "x"))) == "denied"
    assert kind_of(lambda: own.write(Write("open/link", "x", mode="create"))) == "exists"
    assert os.listdir(root / "closed") == ["key"]
    assert own.exists(Place("open/link")) is False


def test_deletion_removes_files_links_and_empty_folders(files: Opener, root: Path) -> None:
    (root / "open/link").symlink_to("../closed")
    own = files(ALL)
    own.delete(Place("open/link"))
    assert (root / "closed/key").exists()
    assert kind_of(lambda: own.delete(Place("closed"))) == "not_empty"
    own.delete(Place("src/a.py"))
    own.delete(Place("src"))
    assert kind_of(lambda: own.delete(Place("src"))) == "not_found"
    assert kind_of(lambda: own.delete(Place("."))) == "denied"


def test_a_rename_replaces_only_when_asked(files: Opener, root: Path) -> None:
    (root / "src/b.py").write_text("b")
    own = files(ALL)
    assert kind_of(lambda: own.rename(Rename("src/b.py", "src/a.py"))) == "exists"
    own.rename(Rename("src/b.py", "src/a.py", overwrite=True))
    assert (root / "src/a.py").read_text() == "b"
    assert kind_of(lambda: own.rename(Rename("src/b.py", "src/c.py"))) == "not_found"
    (root / "link").symlink_to("src/a.py")
    own.rename(Rename("src/a.py", "link", overwrite=True))
    assert (root / "link").read_text() == "b" and not (root / "link").is_symlink()


def test_a_rename_gains_no_right(files: Opener, root: Path) -> None:
    (root / "drop/file").write_text("unreadable")
    own = files('fs.write = ["drop", "open"]\nfs.read = ["open"]')
    assert kind_of(lambda: own.rename(Rename("drop/file", "open/file"))) == "denied"
    own.write(Write("open/mine", "x"))
    own.rename(Rename("open/mine", "drop/mine"))
    own = files(
        'fs = [{ path = ".", read = true, write = true }, { path = "closed", read = false }]'
    )
    for source, target in (
        ("closed", "moved"),
        ("closed/key", "key"),
        ("src", "closed"),
        (".", "x"),
    ):
        move = partial(own.rename, Rename(source, target, overwrite=True))
        assert kind_of(move) in ("denied", "not_empty")
    assert (root / "closed/key").exists()


def test_a_folder_with_rules_within_is_not_moved(files: Opener, root: Path) -> None:
    (root / "top").mkdir()
    (root / "closed").rename(root / "top/closed")
    own = files(
        'fs = [{ path = ".", read = true, write = true }, { path = "top/closed", read = false }]'
    )
    assert kind_of(lambda: own.rename(Rename("top", "other"))) == "denied"
    assert (root / "top/closed/key").exists()


def test_a_rule_through_a_link_is_refused(root: Path) -> None:
    """A tool could have placed it, so as to widen the rules of the next call."""
    (root / "open/link").symlink_to("../closed")
    for rule in ("open/link", "open/link/key"):
        with pytest.raises(RuleThroughLink, match="goes through a link"):
            with_real_paths(access_of(f'fs.read = ["{rule}"]', root))


def test_a_root_by_a_link_is_its_target(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    access = with_real_paths(access_of('fs.read = ["src"]', link))
    assert access.root == str(root)
    assert access.policy.may_read(f"{root}/src/a.py")


def test_a_folder_swapped_for_a_link_in_a_loop_leads_nowhere(files: Opener, root: Path) -> None:
    """The folder is exchanged for a link out of the root, and for one to a closed place, all the time."""
    outside = root.parent / "outside"
    (root / "open/d").mkdir()
    (root / "open/d/key").write_text("mine")
    (root / "out").symlink_to(outside)
    (root / "in").symlink_to("closed")
    over = threading.Event()

    def swap() -> None:
        at = root / "open/d"
        while not over.is_set():
            for link in ("out", "in"):
                os.rename(at, root / "aside")
                os.rename(root / link, at)
                os.rename(at, root / link)
                os.rename(root / "aside", at)

    own = files('fs.read = ["open"]\nfs.write = ["open"]')
    thread = threading.Thread(target=swap)
    thread.start()
    kinds = set()
    try:
        for number in range(1500):
            try:
                if number % 3 == 0:
                    assert own.read(Read("open/d/key"))["content"] == "mine"
                elif number % 3 == 1:
                    own.write(Write("open/d/key", "mine"))
                else:
                    own.write(Write(f"open/d/n{number}", "", mode="create"))
            except HostCallError as error:
                kinds.add(error.kind)
    finally:
        over.set()
        thread.join()
    assert kinds <= {"denied", "not_found", "exists", "not_a_folder", "failed"}
    assert os.listdir(outside) == ["key"] and os.listdir(root / "closed") == ["key"]
    assert (outside / "key").read_text() == (root / "closed/key").read_text() == "secret"


def test_a_file_exchanged_for_a_fifo_never_blocks(files: Opener, root: Path) -> None:
    own = files(ALL)
    (root / "file").write_text("x")
    os.mkfifo(root / "fifo")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "file", root / "aside")
            os.rename(root / "fifo", root / "file")
            os.rename(root / "file", root / "fifo")
            os.rename(root / "aside", root / "file")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(500):
            try:
                own.read(Read("file"))
                own.write(Write("file", "x"))
            except HostCallError as error:
                assert error.kind in ("not_a_file", "not_found", "failed")
    finally:
        over.set()
        thread.join()


def test_a_closed_root_stays_open_while_a_thread_uses_it(root: Path) -> None:
    own = Files(access_of(ALL, root))
    own.open()
    with own.use():
        own.close()
        assert own.read(Read("src/a.py"))["size"] == 12
    with pytest.raises(HostCallError), own.use():
        pass


def test_a_search_is_bounded(files: Opener, root: Path) -> None:
    (root / "src/b.txt").write_text("x\n" * 5000)
    (root / "src/c.bin").write_bytes(b"\0x\n")
    own = files(ALL)
    found = grepped(own, pattern="^x$", limit=3)
    assert found["truncated"] == "limit" and [match["line"] for match in found["matches"]] == [
        1,
        2,
        3,
    ]
    assert grepped(own, pattern="X", name="*.py", ignore_case=True)["matches"] == []
    assert grepped(own, pattern="print", path="src/a.py")["matches"][0]["path"] == "src/a.py"
    assert kind_of(lambda: grepped(own, pattern="(")) == "invalid"
    assert kind_of(lambda: grepped(own, pattern=r"(a)\1")) == "invalid"
    assert kind_of(lambda: grepped(own, pattern="x", limit=10_000)) == "invalid"
    assert kind_of(lambda: grepped(own, pattern="x", name="[a-z]" * 200_000)) == "invalid"
    stopped = Search(own, Grep("x"), lambda: True).run()
    assert stopped == {"matches": [], "truncated": "time"}
    assert grepped(own, pattern="$", path="src/a.py")["matches"] == [
        {"path": "src/a.py", "line": 1, "text": "print('é')"}
    ]


@pytest.mark.parametrize("pattern", ["0$", "^0", r"\b0", r"0\b"])
def test_the_cut_of_a_long_line_is_not_its_end(
    files: Opener, root: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setattr("haftd.host_calls.search._PIECE", 8)
    (root / "open/file").write_text("x" + "0" * 200 + "x\n0\n")
    assert grepped(files(ALL), pattern=pattern, path="open")["matches"] == [
        {"path": "open/file", "line": 2, "text": "0"}
    ]


def test_a_search_numbers_lines_across_pieces(
    files: Opener, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("haftd.host_calls.search._PIECE", 8)
    lines = [f"line {number}" if number % 3 else f"hit {number}" for number in range(1, 40)]
    lines[20] = "hit " + "x" * 50
    own = files(ALL)
    for text in ("\n".join(lines), "\n".join(lines) + "\n", "\n\n" + "\n".join(lines)):
        (root / "open/file").write_text(text)
        found = grepped(own, pattern="^hit", path="open")["matches"]
        expected = [
            number for number, line in enumerate(text.split("\n"), 1) if line.startswith("hit")
        ]
        assert [match["line"] for match in found] == expected
