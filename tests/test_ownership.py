"""Replaceability of a path by another user."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from haftd import ownership
from haftd.host.files.runtime_folder import FolderRefused, prepare, prepare_state
from haftd.ownership import steps, why_replaceable
from haftd.tools.catalogue import Catalogue
from haftd.tools.definitions.document import UnreadableFile, read

ANOTHER = 4711
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file three folders down, the first of which is a symlink."""
    (tmp_path / "real" / "haft" / "tools").mkdir(parents=True)
    (tmp_path / "home").symlink_to("real")
    file = tmp_path / "home" / "haft" / "tools" / "one.toml"
    file.write_text("[tools.x]\ncommand = 'true'\n")
    return file


def give_away(path: Path) -> None:
    os.chown(path, ANOTHER, -1, follow_symlinks=False)


CHANGES = [
    pytest.param(lambda top: (top / "real").chmod(0o777), "is writable by everybody", id="open"),
    pytest.param(
        lambda top: give_away(top / "real"), f"belongs to .*{ANOTHER}", marks=as_root, id="folder"
    ),
    pytest.param(
        lambda top: give_away(top / "home"), f"belongs to .*{ANOTHER}", marks=as_root, id="link"
    ),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_P17_a_path_changeable_by_another_user_is_not_followed(
    place: Path, change: Callable[[Path], None], message: str
) -> None:
    top = place.parents[3]
    state = top / "home" / "state" / "haft"
    assert why_replaceable(str(place)) == "" and read(place).data["tools"]
    prepare_state(state, ("spool",))
    prepare(top / "home" / "runtime" / "haft")
    change(top)
    with pytest.raises(UnreadableFile, match=message):
        read(place)
    with pytest.raises(FolderRefused, match=message):
        prepare_state(state, ("spool",))
    with pytest.raises(FolderRefused, match=message):
        prepare(top / "home" / "runtime" / "haft")


@as_root
def test_P17_another_users_symlink_to_a_clone_brings_no_tools(tmp_path: Path) -> None:
    """The clone belongs to the user, without trust in it; the symlink leads to its folder."""
    clone = tmp_path / "clone" / ".haft" / "tools"
    clone.mkdir(parents=True)
    (clone / "evil.toml").write_text("[tools.evil]\ncommand = 'true'\n")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "haft").symlink_to(clone.parent)
    give_away(shared / "haft")
    catalogue = Catalogue([shared / "haft" / "tools"], toolpack=())
    assert len(catalogue) == 0
    (problem,) = catalogue.problems
    assert problem.file.endswith("evil.toml") and str(shared / "haft") in problem.message


def test_a_users_own_file_in_a_sticky_folder_is_trusted(place: Path) -> None:
    (place.parents[3] / "real").chmod(0o1777)
    assert why_replaceable(str(place)) == ""


def test_every_step_is_named_with_symlinks_followed(place: Path) -> None:
    top = place.parents[3]
    inner = top / "real" / "haft"
    (inner / "up").symlink_to("../../home/./haft")
    named = [name for name, _ in steps(str(inner / "up" / "tools"))]
    begin = named.index(str(top))
    assert named[begin + 1 :] == [
        *(str(top / "real"), str(inner), str(inner / "up"), str(top / "home")),
        *(str(top / "real"), str(inner), str(inner / "tools")),
    ]


def test_a_symlink_loop_ends(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        why_replaceable(str(tmp_path / "a"))


@as_root
def test_roots_folders_count_as_roots_without_a_mapping_of_root(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a user namespace with one user, `/` belongs to the overflow uid."""
    give_away(place.parents[3] / "real")
    monkeypatch.setattr(ownership, "_read_unmapped_uid", lambda: ANOTHER)
    assert why_replaceable(str(place)) == ""
