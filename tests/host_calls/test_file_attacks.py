"""Attempts of a mediated tool to reach files that its rules keep, as this user and as another one.

The tool may do everything in its root but in `closed`; nothing of `outside` is in the root.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from haftd.host_calls.files import Files, Metadata, Place, Read, Rename, Write
from haftd.host_calls.messages import HostCallError
from haftd.host_calls.search import Grep, Search
from haftd.runtimes.vfs.mediated_call import with_real_paths
from tests.host.sandbox_attempts import in_child_as

from .rules import access_of

ANOTHER = 65534
RULES = """
fs = [
    { path = ".", read = true, write = true },
    { path = "closed", read = false, write = false },
    { path = "above/closed", read = false, write = false },
]
"""
SECRET = "secret"
Attempt = Callable[[Files, Path], Any]
ATTEMPTS: dict[str, Attempt] = {
    # Out of the root.
    "read by dots": lambda own, root: own.read(Read("../outside/key")),
    "read by dots below a folder": lambda own, root: own.read(Read("src/../../outside/key")),
    "read by an absolute path": lambda own, root: own.read(Read(f"{root.parent}/outside/key")),
    "read by another name of the root": lambda own, root: own.read(
        Read(f"{root.parent}/alias/src/a")
    ),
    "read by a name that begins as the root": lambda own, root: own.read(Read(f"{root}2/key")),
    "read behind a link": lambda own, root: own.read(Read("out/key")),
    "read a link": lambda own, root: own.read(Read("key")),
    "read behind a chain of links": lambda own, root: own.read(Read("l0/key")),
    "read behind a link of the kernel": lambda own, root: own.read(Read("magic/etc/passwd")),
    "write behind a link": lambda own, root: own.write(Write("out/new", "x")),
    "write a link": lambda own, root: own.write(Write("key", "x")),
    "append to a link": lambda own, root: own.write(Write("key", "x", mode="append")),
    "write a link to nothing": lambda own, root: own.write(Write("none", "x")),
    "make folders behind a link": lambda own, root: own.write(Write("out/a/b", "x", parents=True)),
    "list behind a link": lambda own, root: own.list_dir(Place("out")),
    "search behind a link": lambda own, root: grep(own, "out"),
    "delete behind a link": lambda own, root: own.delete(Place("out/key")),
    "move behind a link": lambda own, root: own.rename(Rename("src/a", "out/a")),
    "move from behind a link": lambda own, root: own.rename(Rename("out/key", "taken")),
    "work behind a link": lambda own, root: own.working_folder("out"),
    "delete the root": lambda own, root: own.delete(Place(".")),
    "delete the root by its path": lambda own, root: own.delete(Place(str(root))),
    "move the root": lambda own, root: own.rename(Rename(".", "src/root")),
    # Into the place that is taken away.
    "read closed": lambda own, root: own.read(Read("closed/key")),
    "read closed by dots of one": lambda own, root: own.read(Read("./closed/./key")),
    "read closed by two slashes": lambda own, root: own.read(Read("closed//key")),
    "read closed by a slash at the end": lambda own, root: own.read(Read("closed/key/")),
    "read closed by dots": lambda own, root: own.read(Read("src/../closed/key")),
    "read closed by an absolute path": lambda own, root: own.read(Read(f"{root}/closed/key")),
    "read closed behind a link": lambda own, root: own.read(Read("src/in/key")),
    "read closed behind an absolute link": lambda own, root: own.read(Read("absolute/key")),
    "see whether closed has a file": lambda own, root: own.exists(Place("closed/key")),
    "see whether closed lacks a file": lambda own, root: own.exists(Place("closed/none")),
    "see whether closed has a file behind a link": lambda own, root: own.exists(
        Place("src/in/none")
    ),
    "see facts of closed": lambda own, root: own.metadata(Metadata("closed/key")),
    "see facts of a link in closed": lambda own, root: own.metadata(
        Metadata("closed/key", follow=False)
    ),
    "list closed": lambda own, root: own.list_dir(Place("closed")),
    "list closed behind a link": lambda own, root: own.list_dir(Place("src/in")),
    "search closed": lambda own, root: grep(own, "closed"),
    "search closed behind a link": lambda own, root: grep(own, "src/in"),
    "write closed": lambda own, root: own.write(Write("closed/key", "x")),
    "append to closed": lambda own, root: own.write(Write("closed/key", "x", mode="append")),
    "make a file in closed": lambda own, root: own.write(Write("closed/new", "x", mode="create")),
    "make a file in closed behind a link": lambda own, root: own.write(Write("src/in/new", "x")),
    "make folders in closed": lambda own, root: own.write(Write("closed/a/b", "x", parents=True)),
    "delete in closed": lambda own, root: own.delete(Place("closed/key")),
    "delete closed": lambda own, root: own.delete(Place("closed")),
    "move a file out of closed": lambda own, root: own.rename(Rename("closed/key", "taken")),
    "move closed": lambda own, root: own.rename(Rename("closed", "taken")),
    "move the folder above closed": lambda own, root: own.rename(Rename("above", "taken")),
    "move a file into closed": lambda own, root: own.rename(Rename("src/a", "closed/a")),
    "move a file over closed's": lambda own, root: own.rename(
        Rename("src/a", "closed/key", overwrite=True)
    ),
    "move a link over closed": lambda own, root: own.rename(
        Rename("key", "closed", overwrite=True)
    ),
    "move a folder over the one above closed": lambda own, root: own.rename(
        Rename("src", "above", overwrite=True)
    ),
}


def grep(own: Files, path: str) -> list[Any]:
    found: list[Any] = Search(own, Grep(pattern=".", path=path), lambda: False).run()["matches"]
    return found


def make(base: Path) -> Path:
    root = base / "root"
    for name in ("root/src", "root/closed", "root/above/closed", "outside", "root2"):
        (base / name).mkdir(parents=True)
    for name in ("outside", "root2", "root/closed", "root/above/closed"):
        (base / name / "key").write_text(SECRET)
    (root / "src/a").write_text("mine")
    links = {
        "out": "../outside",
        "key": "../outside/key",
        "none": "../outside/none",
        "magic": "/proc/self/root",
        "absolute": f"{root}/closed",
        "src/in": "../closed",
        "l0": "l1",
        "l1": "out",
        "../alias": "root",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


def attack() -> dict[str, str]:
    """Make the attempts in a folder of their own; return the kinds of the errors, or what was gained."""
    base = Path(tempfile.mkdtemp(prefix="haft-"))
    outcomes = {}
    try:
        root = make(base)
        own = Files(with_real_paths(access_of(RULES, root)))
        own.open()
        for name, attempt in ATTEMPTS.items():
            try:
                outcomes[name] = f"reached: {attempt(own, root)}"
            except HostCallError as error:
                outcomes[name] = error.kind if SECRET not in error.message else error.message
        own.close()
        for kept in ("outside", "root2", "root/closed", "root/above/closed"):
            found = os.listdir(base / kept), (base / kept / "key").read_text()
            outcomes[f"{kept} is as before"] = "denied" if found == (["key"], SECRET) else "changed"
    finally:
        shutil.rmtree(base)
    return outcomes


@pytest.fixture(scope="module", params=["this user", "another user"])
def outcomes(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    if request.param == "this user":
        yield attack()
    elif os.geteuid() != 0:
        pytest.skip("only root can change to another user")
    else:
        yield in_child_as(ANOTHER, attack)


def test_no_attempt_reaches_a_file_that_the_rules_keep(outcomes: dict[str, str]) -> None:
    assert {name: kind for name, kind in outcomes.items() if kind != "denied"} == {}
    assert len(outcomes) == len(ATTEMPTS) + 4
