from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from haftd.host.process.own_tag import make_home, make_instance
from haftd.host.process.process_tag import (
    ProcessTag,
    find_tag,
    find_tags,
    has_tag,
)

HOME = "0123456789ab"
MARK = ProcessTag(HOME, "ba9876543210", 7)


def test_a_tag_is_parsed_as_written() -> None:
    assert ProcessTag.read(str(MARK)) == MARK
    assert len(make_instance()) == 12 and make_instance() != make_instance()


@pytest.mark.parametrize(
    "text", ["", "a.b.1", f"{HOME}.{HOME}", f"{HOME}.{HOME}.x", f"{HOME}.{HOME}.1\n"]
)
def test_an_invalid_tag_is_ignored(text: str) -> None:
    assert ProcessTag.read(text) is None


def test_a_home_is_identified_by_its_absolute_path(tmp_path: Path) -> None:
    assert (
        make_home(tmp_path) == make_home(tmp_path / "x" / "..") == make_home(Path(f"{tmp_path}/"))
    )
    assert make_home(tmp_path) != make_home(tmp_path / "x")
    assert len(make_home(tmp_path)) == 12


def test_machines_that_share_a_folder_have_distinct_homes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = make_home(tmp_path)
    monkeypatch.setattr("haftd.host.process.own_tag.machine_id", lambda: "0" * 32)
    assert make_home(tmp_path) != here


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        (b"HAFT_HANDLE=%s\0", MARK),
        (b"A=1\0HAFT_HANDLE=%s\0B=2\0", MARK),
        (b"A=1\0HAFT_HANDLE=%s", MARK),
        (b"XHAFT_HANDLE=%s\0", None),
        (b"A=HAFT_HANDLE=%s\0", None),
        (b"A=\nHAFT_HANDLE=%s\0", None),
        (b"HAFT_HANDLE=x%s\0", None),
        (b"HAFT_HANDLE=%sx\0", None),
        (b"HAFT_HANDLE=\0%s\0", None),
        (b"", None),
    ],
)
def test_only_the_exact_variable_is_found(environ: bytes, found: ProcessTag | None) -> None:
    filled = environ % str(MARK).encode() if b"%s" in environ else environ
    assert find_tag(filled) == found


CARRIER = """
import json, os, sys
from haftd.host.process.own_tag import exec_with_tag
from haftd.host.process.process_tag import find_tag
instance = exec_with_tag(sys.argv[1], os.environ)
with open("/proc/self/environ", "rb") as file:
    mine = find_tag(file.read())
print(json.dumps([instance, str(mine), sorted(k for k in os.environ if "HAFT" in k), os.getpid(), sys.argv[1:]]), flush=True)
if len(sys.argv) > 2:
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:-1]])
"""


@pytest.mark.parametrize(
    "inherited", [{}, {"HAFT_HANDLE": f"{HOME}.ba9876543210.0"}, {"HAFT_HANDLE": "junk"}]
)
def test_a_daemon_carries_its_tag_in_its_initial_environment(inherited: dict[str, str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CARRIER, HOME],
        env={**os.environ, **inherited},
        stdout=subprocess.PIPE,
    )
    out, _ = child.communicate()
    instance, mine, words, pid, argv = json.loads(out)
    assert mine == f"{HOME}.{instance}.0" and instance != MARK.instance
    assert (words, pid, argv) == (["HAFT_HANDLE"], child.pid, [HOME])


@pytest.mark.parametrize(
    ("inherited", "outer"),
    [
        ({"HAFT_HANDLE": str(MARK)}, str(MARK)),
        (
            {"HAFT_HANDLE": str(MARK), "HAFT_OUTER": "aaaaaaaaaaaa.bbbbbbbbbbbb.3:junk"},
            f"{MARK}:aaaaaaaaaaaa.bbbbbbbbbbbb.3",
        ),
    ],
)
def test_a_daemon_in_a_handle_keeps_the_outer_tags(inherited: dict[str, str], outer: str) -> None:
    code = CARRIER.replace('"HAFT" in k', '"HAFT" in k and print(k, os.environ[k])')
    child = [sys.executable, "-c", code, HOME]
    done = subprocess.run(
        child, env={**os.environ, **inherited}, stdout=subprocess.PIPE, check=True
    )
    carried = dict(line.split() for line in done.stdout.decode().splitlines()[:2])
    assert carried["HAFT_OUTER"] == outer and carried["HAFT_HANDLE"].startswith(HOME)


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        (b"HAFT_HANDLE=%s\0", True),
        (b"A=1\0HAFT_OUTER=x:%s:y\0B=2\0", True),
        (b"HAFT_OUTER=%s\0", True),
        (b"HAFT_HANDLE=%s0\0HAFT_OUTER=%s1:2%s\0", False),
        (b"XHAFT_OUTER=%s\0", False),
        (b"", False),
    ],
)
def test_only_a_whole_tag_counts(environ: bytes, found: bool) -> None:
    mark = str(MARK).encode()
    filled = environ.replace(b"%s", mark)
    assert has_tag(filled, mark) == found == (MARK in find_tags(filled))


def test_a_reexecuted_daemon_is_a_new_instance() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CARRIER, HOME, "again"], stdout=subprocess.PIPE, check=True
    )
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first[0] != second[0] and first[3] == second[3]
