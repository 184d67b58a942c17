"""A folder is seen to hold haft's own files under any of their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from haftd.host.files.own_files import Mount, find_own_file, list_ways, read_mounts

PLAIN = (Mount("8:1", "/", "/"),)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in ("own/tools", "root/inner", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "own/config.toml").touch()
    return tmp_path


def found(base: Path, folder: str, own: str = "own/config.toml", table: object = PLAIN) -> str:
    assert isinstance(table, tuple)
    path = find_own_file(
        str(base / folder), [str(base / own)], str(base / "own/tools"), table=table
    )
    return path.removeprefix(f"{base}/")


@pytest.mark.parametrize(
    ("folder", "path"),
    [("own", "own/config.toml"), ("own/tools", ""), (".", "own/config.toml"), ("root", ""), ("own/conf", "")],
)  # fmt: skip
def test_a_folder_above_an_own_file_holds_the_file(base: Path, folder: str, path: str) -> None:
    assert found(base, folder) == path


def test_a_folder_below_an_own_one_is_held_by_the_own_one(base: Path) -> None:
    assert found(base, "own/tools/more", "own/tools") == "own/tools"


def test_a_link_on_the_way_to_an_own_file_is_an_own_file(base: Path) -> None:
    """`own2` leads through `root/way`, which any writer of `root` can point elsewhere."""
    (base / "root/way").symlink_to("../own")
    (base / "own2").symlink_to("root/way")
    assert found(base, "root", "own2/config.toml") == "root/way"
    assert found(base, "other", "own2/config.toml") == ""


def test_a_definition_that_is_a_link_is_an_own_file(base: Path) -> None:
    for link, target in (("a.toml", "root/a.toml"), ("folder", "root/inner")):
        (base / target).touch() if link == "a.toml" else None
        (base / "own/tools" / link).symlink_to(base / target)
        assert found(base, "root") == target
        (base / "own/tools" / link).unlink()
    assert found(base, "root") == ""


def test_a_definition_in_a_linked_folder_may_be_a_link_again(base: Path) -> None:
    (base / "other/b.toml").symlink_to(base / "root/b.toml")
    (base / "own/tools/folder").symlink_to(base / "other")
    assert found(base, "root") == "root/b.toml"


@pytest.mark.parametrize(
    "mount",
    [
        Mount("8:1", "{base}/own", "{base}/root"),  # the own folder appears as the root
        Mount("8:1", "{base}/own", "{base}/root/inner"),  # … or below the root
        Mount("8:1", "{base}/root", "{base}/own"),  # the root appears as the own folder
        Mount("8:1", "{base}/root/inner", "{base}/own"),
        Mount("8:1", "{base}/root/file", "{base}/own/config.toml"),
    ],
)
def test_a_bind_mount_is_seen_from_both_sides(base: Path, mount: Mount) -> None:
    bound = Mount(*(part.format(base=base) for part in (mount.device, mount.root, mount.point)))
    assert found(base, "root", table=PLAIN) == ""
    assert found(base, "root", table=(*PLAIN, bound)) == "own/config.toml"
    assert found(base, "other", table=(*PLAIN, bound)) == ""


def test_the_installation_is_an_own_file_with_its_links(base: Path) -> None:
    (base / "root/python").symlink_to(base / "other")
    installed = list_ways(str(base / "root/python"))
    assert installed == (f"{base}/root/python", f"{base}/other")
    for folder in ("root", "other/lib"):
        assert find_own_file(str(base / folder), [], installed=installed, table=PLAIN)
    assert not find_own_file(str(base / "own"), [], installed=installed, table=PLAIN)


def test_another_device_holds_nothing_of_the_first(base: Path) -> None:
    other = Mount("9:9", f"{base}/own", f"{base}/root")
    assert found(base, "root", table=(*PLAIN, other)) == ""


def test_the_kernels_table_is_read_with_its_escapes() -> None:
    line = r"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
    assert read_mounts(line) == (Mount("98:0", "/mnt1", "/mnt 2"),)
    assert any(mount.point == "/" for mount in read_mounts())


@pytest.mark.parametrize("end", ["\r", "\x0b", "\u2028"])
def test_a_mount_point_with_an_unescaped_end_of_line_is_one_mount(end: str) -> None:
    line = f"36 35 98:0 / /a{end}b rw - ext3 /dev/root rw\n"
    assert read_mounts(line) == (Mount("98:0", "/", f"/a{end}b"),)


class _Table(tuple[Mount, ...]):
    """Counts the passes through the mounts."""

    passes = 0

    def __iter__(self) -> Iterator[Mount]:
        _Table.passes += 1
        return super().__iter__()


def test_the_mounts_are_looked_through_as_often_for_many_as_for_few(base: Path) -> None:
    passes = []
    for count in (2, 200):
        _Table.passes = 0
        below = (Mount(f"9:{n}", "/", f"{base}/root/{n}") for n in range(count))
        assert not found(base, "root", table=_Table((*PLAIN, *below)))
        passes.append(_Table.passes)
    assert passes[0] == passes[1]
