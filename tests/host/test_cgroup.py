from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from haftd.host import cgroup
from haftd.host.cgroup import Cgroup, find_base, leftovers
from tests.faults.harness import Crowd, cgroup_base, needs_cgroup, until

HOME = "0123456789ab"


@pytest.fixture
def base() -> Iterator[Path]:
    """A cgroup of the test's own."""
    outer = cgroup_base()
    assert outer is not None
    mine = Cgroup.create(outer, f"test.{secrets.token_hex(8)}")
    yield mine.path
    mine.empty(10)
    until(mine.remove, "the test's cgroup is empty")


def _join(group: Cgroup, script: str) -> list[str]:
    return ["sh", "-c", f"echo $$ > {group.path}/cgroup.procs; {script}"]


@needs_cgroup
def test_a_hidden_process_is_held_by_its_cgroup(base: Path) -> None:
    group = Cgroup.create(base, f"{HOME}.1.1")
    script = "env -i setsid sleep 61 & env -i setsid sleep 62 & echo; wait"
    with Crowd() as crowd:
        child = crowd.start(_join(group, script), ready=True)
        until(lambda: len(group.procs()) >= 3, "all three are in it")
        assert group.is_populated()
        assert group.empty(5)
        assert child.wait() == -9
        assert not group.is_populated()
        until(lambda: group.procs() == [], "those are reaped")
    assert group.remove()
    assert not group.path.exists()


@needs_cgroup
def test_nested_cgroups_of_a_tool_are_emptied_and_removed(base: Path) -> None:
    group = Cgroup.create(base, f"{HOME}.1.2")
    inner = group.path / "made" / "by-a-tool"
    inner.mkdir(parents=True)
    with Crowd() as crowd:
        child = crowd.start(["sleep", "60"])
        Cgroup(inner).add(child.pid)
        assert group.procs() == [child.pid]
        assert group.empty(5)
        child.wait()
    assert group.remove()


@needs_cgroup
def test_without_cgroup_kill_each_process_is_ended(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 5.14."""
    group = Cgroup.create(base, f"{HOME}.1.3")
    monkeypatch.setattr(Cgroup, "kill", Cgroup._kill_each)
    with Crowd() as crowd:
        child = crowd.start(_join(group, "setsid sleep 60 & echo; wait"), ready=True)
        assert group.empty(5)
        assert child.wait() == -9


@needs_cgroup
def test_a_program_that_forks_on_and_on_is_emptied(base: Path) -> None:
    """P05: forks and exits faster than any inspection."""
    group = Cgroup.create(base, f"{HOME}.1.4")
    code = (
        "import os\nos.write(1, b'x')\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()"
    )
    with Crowd() as crowd:
        crowd.start([*_join(group, f'exec {sys.executable} -S -c "$0"'), code], ready=True)
        assert group.empty(5)
    assert not group.is_populated()


@needs_cgroup
def test_the_cgroup_of_this_process_is_never_killed(base: Path) -> None:
    code = f"""
import os
from pathlib import Path
from haftd.host.cgroup import Cgroup
group = Cgroup(Path({str(base)!r}))
group.add(os.getpid())
assert group.holds_self()
try:
    group.kill()
except AssertionError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"


@needs_cgroup
def test_leftovers_are_those_of_the_same_home_only(base: Path) -> None:
    names = [f"{HOME}.1.1", f"{HOME}.2.7", "0123456789abc.1.1", "ba9876543210.1.1"]
    for name in names:
        Cgroup.create(base, name)
    (base / f"{HOME}.1.9").mkdir()
    assert [group.name for group in leftovers(base, HOME)] == names[:2]
    assert all(cgroup.is_ours(group.path, HOME) for group in leftovers(base, HOME))
    assert not cgroup.is_ours(base / f"haft-{names[3]}", HOME)
    assert not cgroup.is_ours(base / ".." / base.name / f"haft-{names[0]}", HOME)


def test_a_folder_that_only_looks_like_a_cgroup_is_ignored(tmp_path: Path) -> None:
    fake = tmp_path / f"haft-{HOME}.1.1"
    fake.mkdir()
    (fake / "cgroup.events").write_text("populated 1\n")
    (tmp_path / "cgroup.procs").write_text("1\n")
    assert not cgroup.is_ours(fake, HOME)
    with pytest.raises(FileNotFoundError):
        find_base(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        find_base("relative")


@needs_cgroup
def test_auto_takes_a_delegated_cgroup_and_no_other(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_base("off") is None
    assert find_base(str(base)) == base
    monkeypatch.setattr(cgroup, "find_own_cgroup", lambda: base)
    assert find_base("auto") is None
    try:
        os.setxattr(base, "user.delegate", b"1")
    except OSError as error:
        pytest.skip(f"no extended attributes on cgroups: {error.strerror}")
    assert find_base("auto") == base


def test_auto_never_takes_the_root_cgroup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cgroup.procs").touch()  # the root has no cgroup.events
    monkeypatch.setattr(cgroup, "find_own_cgroup", lambda: tmp_path)
    monkeypatch.setattr(cgroup, "_is_delegated", lambda _folder: True)
    assert find_base("auto") is None


@pytest.mark.parametrize(
    ("own", "mounts", "folder"),
    [
        ("/", [("/", "{tmp}")], "{tmp}"),
        ("/a/b", [("/", "{tmp}")], "{tmp}/a/b"),
        ("/a/b", [("/a", "{tmp}")], "{tmp}/b"),
        ("/a", [("/a", "{tmp}")], "{tmp}"),
        ("/ab", [("/a", "{tmp}")], None),
        ("/..", [("/", "{tmp}")], None),
        (None, [("/", "{tmp}")], None),
        ("/a", [], None),
    ],
)
def test_the_daemons_cgroup_is_found_through_the_mount_table(
    own: str | None,
    mounts: list[tuple[str, str]],
    folder: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = tmp_path / "here"
    (here / "a" / "b").mkdir(parents=True)
    (here / "b").mkdir()
    (tmp_path / "hereb").mkdir()
    for place in (tmp_path, tmp_path / "hereb", here, here / "a", here / "a" / "b", here / "b"):
        (place / "cgroup.procs").touch()
    filled = [(root, point.format(tmp=here)) for root, point in mounts]
    monkeypatch.setattr(cgroup, "_read_own_path", lambda controller: own)
    monkeypatch.setattr(cgroup, "_list_mounts", lambda controller: iter(filled))
    found = cgroup.find_own_cgroup()
    assert found == (None if folder is None else Path(folder.format(tmp=here)))


def test_a_cgroup_that_is_gone_is_empty(tmp_path: Path) -> None:
    gone = Cgroup(tmp_path / "gone")
    assert not gone.is_populated()
    assert gone.procs() == []
    assert gone.empty(0)
    assert gone.remove()


def test_the_kernels_cgroup_files_are_parsed(tmp_path: Path) -> None:
    group = Cgroup(tmp_path)
    (tmp_path / "cgroup.procs").write_text("0\n12\n")
    assert group.procs() == [12], "0 is somebody of another namespace"
    for populated, frozen in ((0, 0), (1, 0), (0, 1), (1, 1)):
        (tmp_path / "cgroup.events").write_text(f"populated {populated}\nfrozen {frozen}\n")
        assert (group.is_populated(), group.is_frozen()) == (bool(populated), bool(frozen))


def test_a_process_that_left_the_cgroup_is_not_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its pid may have been reused."""
    with subprocess.Popen(["sleep", "60"]) as child:
        lists = iter([[child.pid], []])
        monkeypatch.setattr(Cgroup, "procs", lambda group: next(lists))
        Cgroup(tmp_path)._kill_each()
        assert next(lists, None) is None
        child.terminate()
        assert child.wait() == -15


@needs_cgroup
def test_a_frozen_cgroup_is_thawed_after_any_failure(base: Path) -> None:
    group = Cgroup.create(base, f"{HOME}.1.5")
    with Crowd() as crowd:
        child = crowd.start(["sleep", "60"])
        group.add(child.pid)
        with pytest.raises(ZeroDivisionError), group.frozen():
            until(group.is_frozen, "it stands")
            _ = 1 // 0
        until(lambda: not group.is_frozen(), "it goes on")
        child.terminate()
        assert child.wait() == -15
    assert group.remove()
